import { hasCode } from './errors.ts';

/** Where a span belongs: for those that begin others within it. Opaque. */
export type TraceContext = object;

export type SpanName = 'request' | 'upstream request' | 'archive download' | 'package making';

/** No secrets: no queries, no tokens, nothing that makes a link good. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean | undefined>>;

/** Something that takes time. */
export interface Span {
  readonly context: TraceContext;
  /** Headers that tell whoever is asked next where it belongs; none where others are not to know. */
  readonly headers: Readonly<Record<string, string>>;
  /** Once. With an error it has failed. */
  end(outcome?: { readonly error?: unknown; readonly attributes?: SpanAttributes }): void;
}

/** Port: tells how long what took, and within what. Never throws, and costs hardly anything where nobody collects it. */
export interface Tracer {
  begin(
    name: SpanName,
    options?: { readonly parent?: TraceContext | undefined; readonly attributes?: SpanAttributes },
  ): Span;
  /** Where a request belongs by its own headers (W3C Trace Context). */
  contextIn(headers: Readonly<Record<string, string | string[] | undefined>>): TraceContext | undefined;
}

const NO_SPAN: Span = { context: {}, headers: {}, end() {} };

/** Collects nothing. */
export const NO_TRACER: Tracer = { begin: () => NO_SPAN, contextIn: () => undefined };

/** Runs the work in a span of its own. @throws what the work throws */
export async function traced<T>(span: Span, work: () => Promise<T>): Promise<T> {
  try {
    const result = await work();
    span.end();
    return result;
  } catch (error) {
    // An answer like any other.
    span.end(hasCode(error, 'NOT_FOUND') ? {} : { error });
    throw error;
  }
}
