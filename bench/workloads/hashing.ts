import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { fileURLToPath } from 'node:url';
import { ZipFile } from 'yazl';
import { timeProgram } from '../processes.ts';
import { compare, type Result } from '../rounds.ts';

const WALL_TIME = { name: 'wall time', unit: 'ms', better: 'less' } as const;
const CPU_TIME = { name: 'CPU time', unit: 'ms', better: 'less' } as const;

const MAIN = fileURLToPath(new URL('../../dist/main.js', import.meta.url));
const MB = 1_000_000;
/** Unpacked. */
const SIZE = 600 * MB;
const PIECE_BYTES = MB;

/** `h1:` of a large provider: the whole `larder hash`, start included, against reading and hashing the one file in it. */
export async function hashing(_upstream: unknown, { rounds }: { rounds: number }): Promise<Result[]> {
  const directory = await mkdtemp(join(tmpdir(), 'larder-bench-'));
  try {
    const archive = join(directory, 'terraform-provider-huge_1.0.0_linux_amd64.zip');
    await writeLargeZip(archive);
    const { size } = await stat(archive);
    const timed = async (program: string, args: readonly string[]) => {
      const { wallMs, cpuMs } = await timeProgram(program, args);
      return { [WALL_TIME.name]: wallMs, [CPU_TIME.name]: cpuMs };
    };
    return await compare(
      {
        workload: `h1 of an archive of ${Math.round(size / MB)} MB (${SIZE / MB} MB unpacked)`,
        metrics: [WALL_TIME, CPU_TIME],
        larder: { name: 'Larder', measure: () => timed(process.execPath, [MAIN, 'hash', archive]) },
        reference: {
          name: 'unzip -p | sha256sum',
          measure: () => timed('sh', ['-c', 'unzip -p "$1" | sha256sum', 'sh', archive]),
        },
      },
      rounds,
    );
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** One file of machine code, which is what providers are: Node itself, again and again (further back than compression looks). */
async function writeLargeZip(path: string): Promise<void> {
  const program = await readFile(process.execPath);
  const zip = new ZipFile();
  zip.addReadStreamLazy('terraform-provider-huge_v1.0.0', (callback) =>
    callback(null, Readable.from(repeated(program))),
  );
  zip.end();
  await pipeline(zip.outputStream, createWriteStream(path));
}

function* repeated(program: Buffer): Generator<Buffer> {
  for (let left = SIZE; left > 0; left -= program.length) {
    for (let at = 0; at < Math.min(left, program.length); at += PIECE_BYTES) {
      yield program.subarray(at, Math.min(left, program.length, at + PIECE_BYTES));
    }
  }
}
