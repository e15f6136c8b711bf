import { PassThrough, type Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { followJob } from '../../src/cli/follow-job.ts';
import type { JobDisplay } from '../../src/cli/job-display.ts';
import type { JobItemDocument } from '../../src/http/job-documents.ts';

const PATIENCE_MS = 300;

const A: JobItemDocument = { name: 'h/acme/a 1.0.0 linux_amd64', kind: 'archive', outcome: 'stored' };
const B: JobItemDocument = { name: 'h/acme/b 1.0.0 linux_amd64', kind: 'archive', outcome: 'failed', reason: 'broken' };
const END = { state: 'finished', diagnostics: [] };

type Connection = (stream: PassThrough) => Promise<void>;

function event(type: string, id: number, data: unknown): string {
  return `id: ${id}\nevent: ${type}\ndata: ${JSON.stringify(data)}\n\n`;
}

/** Follows a job over connections that each do as they are told, the last one again and again. */
function following(...connections: (Connection | undefined)[]) {
  const asked: (string | undefined)[] = [];
  const shown: string[] = [];
  const display: JobDisplay = {
    began: () => {},
    item: ({ name, outcome }) => void shown.push(`${name} ${outcome}`),
    progress: () => {},
    lost: () => void shown.push('lost'),
    ended: () => {},
  };
  const events = async (last: string | undefined): Promise<Readable | undefined> => {
    const connection = connections[Math.min(asked.length, connections.length - 1)];
    asked.push(last);
    if (!connection) return undefined;
    const stream = new PassThrough();
    void connection(stream);
    return stream;
  };
  const ended = followJob('one', { events, display, patienceMs: PATIENCE_MS, retryMs: 5 });
  return { ended, asked, shown };
}

describe('following a job', () => {
  it('finds its way back after a connection on which nothing happened for longer than patience lasts', async () => {
    const silent: Connection = async (stream) => {
      stream.write(event('item', 1, A));
      await delay(2 * PATIENCE_MS);
      stream.destroy(new Error('a proxy restarts'));
    };
    const { ended, asked, shown } = following(silent, undefined, async (stream) => {
      stream.end(event('item', 2, B) + event('end', 2, END));
    });
    expect(await ended).toEqual({ job: END, items: [A, B] });
    expect(asked).toEqual([undefined, '1', '1']);
    expect(shown).toEqual([`${A.name} stored`, 'lost', 'lost', `${B.name} failed`]);
  });

  it('takes a server that says nothing but that it is there for one that is there', async () => {
    let connections = 0;
    const { ended } = following(async (stream) => {
      connections += 1;
      stream.write(connections === 1 ? event('progress', 0, {}) : ':\n\n');
      await delay(PATIENCE_MS / 2);
      stream.end(connections < 5 ? '' : event('end', 0, END));
    });
    expect((await ended).job).toEqual(END);
  });

  it('gives up a server that is not to be reached, or never says anything', async () => {
    for (const connection of [undefined, async (stream: PassThrough) => void stream.end()]) {
      const { ended } = following(connection);
      await expect(ended).rejects.toThrow('the job one goes on');
    }
  });

  it('shows each outcome once, however often it is told', async () => {
    const all = event('snapshot', 0, {}) + event('planned', 0, { ...A, outcome: undefined }) + event('item', 1, A);
    const { ended, shown } = following(
      async (stream) => void stream.end(all),
      async (stream) => void stream.end(all + event('item', 2, { ...A, outcome: 'failed' }) + event('end', 2, END)),
    );
    expect((await ended).items).toEqual([{ ...A, outcome: 'failed' }]);
    expect(shown).toEqual([`${A.name} stored`, 'lost', `${A.name} failed`]);
  });
});
