import type { Context, Span as OtelSpan, Tracer as OtelTracer, TextMapPropagator } from '@opentelemetry/api';
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace-node';
import type { Config } from './config.ts';
import { InvalidConfiguration } from './errors.ts';
import type { Logger } from './logger.ts';
import { settledWithin } from './time-limit.ts';
import type { Span, SpanAttributes, SpanName, TraceContext, Tracer } from './tracer.ts';

const TRACES_PATH = '/v1/traces';
/** Spans that wait for the collector; further ones are dropped. */
const MAX_QUEUED_SPANS = 2_048;
const EXPORT_TIMEOUT_MS = 5_000;
/** How long a shutdown waits for the last spans to be taken. */
const CLOSE_MS = 2_000;
/** One log line for this long of trouble. */
const LOG_INTERVAL_MS = 60_000;

type Api = typeof import('@opentelemetry/api');

export interface ClosableTracer extends Tracer {
  /** Sends what is left, as far as the collector takes it in time. Never rejects. */
  close(): Promise<void>;
}

/**
 * Traces by OpenTelemetry, `undefined` where they are not wanted: then nothing of it is even loaded. Nothing is
 * registered for the whole process, and a collector that is slow, broken or gone costs spans and nothing else.
 * @throws InvalidConfiguration when the packages for it are not installed
 */
export async function openTracing(
  { endpoint, sample, propagate }: Config['tracing'],
  { version, logger }: { version: string; logger: Logger },
): Promise<ClosableTracer | undefined> {
  if (endpoint === undefined) return undefined;
  const { api, sdk, core, resources, otlp } = await libraries();
  const exporter = new otlp.OTLPTraceExporter({ url: tracesUrl(endpoint), timeoutMillis: EXPORT_TIMEOUT_MS });
  const processor = new sdk.BatchSpanProcessor(new WatchedExporter(exporter, logger), {
    maxQueueSize: MAX_QUEUED_SPANS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const provider = new sdk.NodeTracerProvider({
    resource: resources.resourceFromAttributes({ 'service.name': 'larder', 'service.version': version }),
    sampler: new sdk.ParentBasedSampler({ root: new sdk.TraceIdRatioBasedSampler(sample) }),
    spanProcessors: [processor],
  });
  return new OtelTracing({
    api,
    tracer: provider.getTracer('larder', version),
    propagator: new core.W3CTraceContextPropagator(),
    propagate,
    shutdown: () => provider.shutdown(),
  });
}

class OtelTracing implements ClosableTracer {
  readonly #api: Api;
  readonly #tracer: OtelTracer;
  readonly #propagator: TextMapPropagator;
  readonly #propagate: boolean;
  readonly #shutdown: () => Promise<void>;

  constructor(deps: {
    api: Api;
    tracer: OtelTracer;
    propagator: TextMapPropagator;
    propagate: boolean;
    shutdown: () => Promise<void>;
  }) {
    this.#api = deps.api;
    this.#tracer = deps.tracer;
    this.#propagator = deps.propagator;
    this.#propagate = deps.propagate;
    this.#shutdown = deps.shutdown;
  }

  begin(name: SpanName, options: { parent?: TraceContext | undefined; attributes?: SpanAttributes } = {}): Span {
    const { SpanKind, ROOT_CONTEXT, trace } = this.#api;
    const kind = { request: SpanKind.SERVER, 'upstream request': SpanKind.CLIENT }[name as string] ?? SpanKind.INTERNAL;
    const parent = (options.parent as Context | undefined) ?? ROOT_CONTEXT;
    const span = this.#tracer.startSpan(name, { kind, attributes: { ...options.attributes } }, parent);
    const context = trace.setSpan(parent, span);
    return {
      context,
      headers: this.#propagate ? this.#headersOf(context) : {},
      end: ({ error, attributes } = {}) => {
        span.setAttributes({ ...attributes });
        if (error !== undefined) this.#fail(span, error);
        span.end();
      },
    };
  }

  contextIn(headers: Readonly<Record<string, string | string[] | undefined>>): TraceContext | undefined {
    if (headers['traceparent'] === undefined) return undefined;
    return this.#propagator.extract(this.#api.ROOT_CONTEXT, headers, this.#api.defaultTextMapGetter);
  }

  async close(): Promise<void> {
    await settledWithin(this.#shutdown(), CLOSE_MS).catch(() => {});
  }

  #headersOf(context: Context): Record<string, string> {
    const headers: Record<string, string> = {};
    this.#propagator.inject(context, headers, this.#api.defaultTextMapSetter);
    return headers;
  }

  /** By code, and in our own words only: those of libraries may hold what is nobody's business. */
  #fail(span: OtelSpan, error: unknown): void {
    const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown };
    const isOurs = error instanceof Error && 'hint' in error;
    span.setAttribute('error.type', typeof code === 'string' ? code : typeof error === 'string' ? error : 'other');
    span.setStatus({ code: this.#api.SpanStatusCode.ERROR, ...(isOurs && { message: String(message) }) });
  }
}

/** Says, now and then, that the collector does not take what it is given. */
class WatchedExporter implements SpanExporter {
  readonly #exporter: SpanExporter;
  readonly #logger: Logger;
  #silentUntil = 0;

  constructor(exporter: SpanExporter, logger: Logger) {
    this.#exporter = exporter;
    this.#logger = logger;
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter['export']>[1]): void {
    this.#exporter.export(spans, (result) => {
      if (result.error && performance.now() >= this.#silentUntil) {
        this.#silentUntil = performance.now() + LOG_INTERVAL_MS;
        this.#logger.warn('traces cannot be delivered and are dropped', { spans: spans.length, error: result.error });
      }
      done(result);
    });
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown();
  }

  async forceFlush(): Promise<void> {
    await this.#exporter.forceFlush?.();
  }
}

function tracesUrl(endpoint: string): string {
  return endpoint.endsWith(TRACES_PATH) ? endpoint : `${endpoint.replace(/\/+$/, '')}${TRACES_PATH}`;
}

/** @throws InvalidConfiguration when they are not there: they are optional. */
async function libraries() {
  try {
    const [api, sdk, core, resources, otlp] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-trace-node'),
      import('@opentelemetry/core'),
      import('@opentelemetry/resources'),
      import('@opentelemetry/exporter-trace-otlp-http'),
    ]);
    return { api, sdk, core, resources, otlp };
  } catch (cause) {
    throw new InvalidConfiguration('tracing.endpoint is set, but what traces are made with is not installed', {
      hint: 'install the optional dependencies of Larder, or remove tracing.endpoint',
      cause,
    });
  }
}
