/*
 * Where the time of a profile went: `npx tsx bench/profile.ts FILE.cpuprofile…`. Files are taken with
 * `BENCH_NODE_ARGS="--cpu-prof --cpu-prof-dir=profiles" npm run bench -- --only warm --rounds 1`.
 *
 * Prints the share of the busy time that was spent in each source file of Larder, each package and each part of Node
 * itself: in their own functions, not in those that they call.
 */
import { existsSync, readFileSync } from 'node:fs';
import { SourceMap } from 'node:module';
import { fileURLToPath } from 'node:url';

/** What V8 writes, as far as it is looked at. */
interface Profile {
  readonly nodes: readonly { readonly id: number; readonly callFrame: CallFrame }[];
  /** The innermost function at each moment, and how long ago the one before was, in microseconds. */
  readonly samples: readonly number[];
  readonly timeDeltas: readonly number[];
}

interface CallFrame {
  readonly functionName: string;
  readonly url: string;
  readonly lineNumber: number;
  readonly columnNumber: number;
}

const LINES = 30;
const IDLE = '(idle)';

const maps = new Map<string, SourceMap | undefined>();

for (const file of process.argv.slice(2)) {
  console.log(`${file}\n`);
  const { nodes, samples, timeDeltas } = JSON.parse(readFileSync(file, 'utf8')) as Profile;
  const places = new Map(nodes.map(({ id, callFrame }) => [id, placeOf(callFrame)]));
  const times = new Map<string, number>();
  samples.forEach((id, index) => {
    const place = places.get(id) ?? '';
    times.set(place, (times.get(place) ?? 0) + (timeDeltas[index] ?? 0));
  });
  times.delete(IDLE);
  const busy = [...times.values()].reduce((sum, time) => sum + time, 0);
  const longest = [...times].sort(([, a], [, b]) => b - a).slice(0, LINES);
  for (const [place, time] of longest) {
    console.log(
      `${((100 * time) / busy).toFixed(1).padStart(5)} %  ${(time / 1000).toFixed(0).padStart(7)} ms  ${place}`,
    );
  }
}

/** A source file of Larder, a package, a part of Node, or what V8 does besides running functions. */
function placeOf({ functionName, url, lineNumber, columnNumber }: CallFrame): string {
  if (url === '') return functionName.startsWith('(') ? functionName : `native: ${functionName}`;
  if (url.startsWith('node:')) return url;
  const source = sourceOf(url, lineNumber, columnNumber);
  const [, name] = /node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/.exec(source) ?? [];
  return name ?? source.replace(/^.*?\bsrc\//, 'src/');
}

function sourceOf(url: string, line: number, column: number): string {
  if (!maps.has(url)) {
    const map = `${url.startsWith('file:') ? fileURLToPath(url) : url}.map`;
    maps.set(url, existsSync(map) ? new SourceMap(JSON.parse(readFileSync(map, 'utf8'))) : undefined);
  }
  const entry = maps.get(url)?.findEntry(line, column);
  return entry && 'originalSource' in entry ? entry.originalSource : url;
}
