import type { Command } from 'commander';
import type { PinsDocument } from '../http/admin-pins.ts';
import { Pin } from '../mirror/pins.ts';
import { CommandFailed } from './command-failed.ts';
import { DataDirectory } from './data-directory.ts';
import { RunningServer } from './running-server.ts';
import { addServerOptions, type ServerOptions } from './server-options.ts';

const PIN = 'HOST/NAMESPACE/TYPE or HOST/NAMESPACE/NAME/SYSTEM, with * for a whole part, and @VERSION for one version';

interface PinOptions extends ServerOptions {
  readonly config?: string;
  readonly list?: boolean;
  readonly json?: boolean;
}

/** Where pins are kept. */
interface Place {
  list(): Promise<readonly string[]>;
  add(pins: readonly string[]): Promise<readonly string[]>;
  /** @returns those that there were */
  remove(pins: readonly string[]): Promise<readonly string[]>;
  close(): Promise<void>;
}

/** `larder pin ADDRESS[@VERSION]…`: what is never evicted. On a running server, or in the data directory: the same file. */
export function addPin(program: Command): void {
  const command = program
    .command('pin')
    .description('keep something for good: it is not evicted, and purged only with --pinned')
    .argument('[pins...]', PIN)
    .option('--list', 'only show what is pinned')
    .option('-c, --config <file>', 'without --server: whose data directory to work on (also LARDER_CONFIG)')
    .option('--json', 'one JSON object a pin');
  addServerOptions(command).action(async (given: string[], options: PinOptions) => {
    const pins = given.map(Pin.parse).map(String);
    if (pins.length === 0 && !options.list) {
      throw new CommandFailed('nothing to pin is named', { hint: `name ${PIN}; --list shows what is pinned` });
    }
    await at(options, async (place) => {
      const all = pins.length > 0 ? await place.add(pins) : await place.list();
      const shown = options.list ? all : pins;
      for (const pin of shown) console.log(options.json ? JSON.stringify({ pin }) : pin);
      if (shown.length === 0) console.error('larder: nothing is pinned');
    });
  });
}

/** `larder unpin ADDRESS[@VERSION]…` */
export function addUnpin(program: Command): void {
  const command = program
    .command('unpin')
    .description('take pins back, written as they are listed')
    .argument('<pins...>', PIN)
    .option('-c, --config <file>', 'without --server: whose data directory to work on (also LARDER_CONFIG)');
  addServerOptions(command).action(async (given: string[], options: PinOptions) => {
    const pins = given.map(Pin.parse).map(String);
    await at(options, async (place) => {
      const removed = new Set(await place.remove(pins));
      for (const pin of pins) {
        if (removed.has(pin)) console.log(`${pin}: not pinned any more`);
        else console.error(`larder: ${pin} is no pin; larder pin --list shows them`);
      }
      if (pins.some((pin) => !removed.has(pin))) process.exitCode = 1;
    });
  });
}

async function at(options: PinOptions, work: (place: Place) => Promise<void>): Promise<void> {
  const place = options.server === undefined ? await here(options.config) : await there(options.server, options);
  try {
    await work(place);
  } finally {
    await place.close();
  }
}

async function here(config: string | undefined): Promise<Place> {
  const directory = await DataDirectory.open(config);
  const { pins } = directory;
  const audit = directory.openAudit();
  const record = (event: string, changed: readonly string[]) =>
    audit?.record(event, { client: 'command line', pins: changed });
  return {
    list: async () => (await pins.list()).map(String),
    add: async (added) => {
      const all = await pins.add(added.map(Pin.parse));
      record('pinned', added);
      return all.map(String);
    },
    remove: async (unwanted) => {
      const removed = (await pins.remove(unwanted.map(Pin.parse))).removed.map(String);
      record('unpinned', removed);
      return removed;
    },
    close: async () => {
      await audit?.close();
      await directory.close();
    },
  };
}

async function there(url: string, options: ServerOptions): Promise<Place> {
  const server = await RunningServer.at(url, options);
  const send = async (method: 'PUT' | 'DELETE', pins: readonly string[]) => {
    const { status, document } = await server.ask(method, 'admin/pins', { body: JSON.stringify({ pins }) });
    if (status === 200) return document as PinsDocument;
    const [said] = (document as { errors?: readonly string[] } | undefined)?.errors ?? [];
    throw new CommandFailed(`the server answered ${status}${said === undefined ? '' : `: ${said}`}`);
  };
  return {
    list: async () => ((await server.get('admin/pins')) as PinsDocument).pins,
    add: async (pins) => (await send('PUT', pins)).pins,
    remove: async (pins) => (await send('DELETE', pins)).removed ?? [],
    close: () => server.close(),
  };
}
