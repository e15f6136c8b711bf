import { parentPort, workerData } from 'node:worker_threads';

/**
 * Turns native syntax into JSON with a parser that is Go compiled to WebAssembly. It runs in a thread of its own: deep
 * nesting overflows its stack, and what has failed once so cannot be trusted any more.
 */

/** Of a file. */
export interface ConversionRequest {
  readonly file: string;
  readonly text: string;
}

export type ConversionOutcome =
  | { readonly json: string }
  /** The parser does not accept it, and says why. */
  | { readonly syntax: string }
  /** The package is not there, or is not what it should be. */
  | { readonly missing: string }
  /** The parser itself failed. The thread is of no use any more. */
  | { readonly failed: string };

/** What its messages about files begin with. Everything else is about the parser itself. */
const SYNTAX_ERROR = /^parse config: /;

type Parse = (file: string, text: string) => Promise<unknown>;

const { module } = workerData as { module: string };
const parser = load();

parentPort?.on('message', async ({ file, text }: ConversionRequest) => {
  parentPort?.postMessage(await convert(file, text));
});

async function load(): Promise<Parse | string> {
  try {
    const { default: whole, parse } = (await import(module)) as { default?: { parse?: Parse }; parse?: Parse };
    return parse ?? whole?.parse ?? `${module} is of another version than expected`;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND'
      ? `the optional package ${module} is not installed`
      : `${module} cannot be loaded: ${messageOf(error)}`;
  }
}

async function convert(file: string, text: string): Promise<ConversionOutcome> {
  const parse = await parser;
  if (typeof parse === 'string') return { missing: parse };
  try {
    return { json: JSON.stringify(await parse(file, text)) };
  } catch (error) {
    const message = messageOf(error);
    return SYNTAX_ERROR.test(message) ? { syntax: message.replace(SYNTAX_ERROR, '') } : { failed: message };
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
