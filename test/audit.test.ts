import { mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished, test } from 'vitest';
import { AuditLog } from '../src/audit.ts';
import { HostNotAllowed, UpstreamUnreachable } from '../src/errors.ts';
import type { AuditTrail } from '../src/http/audit-entry.ts';
import { Authenticator } from '../src/http/authenticate.ts';
import { packages, readable, start, WIDGET_PATH, ZIP_PATH } from './http/harness.ts';
import { recordingLogger } from './support/recording-logger.ts';

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'larder-audit-'));
  onTestFinished(() => rm(directory, { recursive: true, force: true }));
});

async function entriesOf(file: string): Promise<Record<string, unknown>[]> {
  const text = await readFile(file, 'utf8');
  expect(text === '' || text.endsWith('\n')).toBe(true);
  return text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

function open(file = join(directory, 'audit.jsonl')) {
  const logger = recordingLogger();
  const audit = new AuditLog({ file, logger });
  onTestFinished(() => audit.close());
  return { audit, file, lines: logger.lines };
}

describe('the audit log', () => {
  it('is a line of JSON an entry, in order, readable by its owner alone', async () => {
    const { audit, file, lines } = open();
    for (let index = 0; index < 1_000; index += 1) audit.record('served', { index, client: 'a\n"b"' });
    await audit.close();
    const entries = await entriesOf(file);
    expect(entries.map(({ index }) => index)).toEqual(Array.from({ length: 1_000 }, (_, index) => index));
    expect(entries[0]).toMatchObject({ event: 'served', client: 'a\n"b"', time: expect.stringMatching(/^\d{4}-/) });
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    expect(lines).toEqual([]);
  });

  it('is added to by every start, and by several at once', async () => {
    const { audit, file } = open();
    const other = open(file);
    audit.record('one', {});
    other.audit.record('two', {});
    await audit.close();
    await other.audit.close();
    const again = open(file);
    again.audit.record('three', {});
    await again.audit.close();
    const events = (await entriesOf(file)).map(({ event }) => String(event));
    expect(events.toSorted()).toEqual(['one', 'three', 'two']);
    expect(events.at(-1)).toBe('three');
  });

  it('has what was recorded just before it is closed', async () => {
    const file = join(directory, 'audit.jsonl');
    for (let round = 0; round < 20; round += 1) {
      const { audit } = open(file);
      audit.record('served', { round });
      await audit.close();
    }
    expect((await entriesOf(file)).map(({ round }) => round)).toEqual(Array.from({ length: 20 }, (_, round) => round));
  });

  it('goes on in a new file when the old one was moved away', async () => {
    const { audit, file } = open();
    audit.record('before', {});
    await audit.reopen();
    await rename(file, `${file}.1`);
    audit.record('between', {});
    await audit.reopen();
    audit.record('after', {});
    await audit.close();
    expect((await entriesOf(`${file}.1`)).map(({ event }) => event)).toContain('before');
    const all = [...(await entriesOf(`${file}.1`)), ...(await entriesOf(file))];
    expect(all.map(({ event }) => event)).toEqual(['before', 'between', 'after']);
    expect((await entriesOf(file)).map(({ event }) => event)).toContain('after');
  });

  it('that cannot be written is reported once, and taken up when it can', async () => {
    const { audit, file, lines } = open(join(directory, 'absent', 'audit.jsonl'));
    await audit.reopen();
    audit.record('lost', {});
    await audit.reopen();
    expect(lines.map(({ level, message }) => `${level} ${message}`)).toEqual(['error the audit log cannot be written']);
    await mkdir(join(directory, 'absent'));
    audit.record('kept', {});
    await audit.close();
    expect((await entriesOf(file)).map(({ event }) => event)).toEqual(['kept']);
    expect(lines.at(-1)).toMatchObject({ message: 'the audit log is written again', fields: { lost: 1 } });
    audit.record('too late', {});
  });
});

class Recorder implements AuditTrail {
  readonly entries: Record<string, unknown>[] = [];
  readonly #waiting: (() => void)[] = [];

  record(event: string, fields: Readonly<Record<string, unknown>>): void {
    this.entries.push({ event, ...fields });
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Entries are made when an answer is over, which its client may know a moment earlier. */
  async has(count: number): Promise<Record<string, unknown>[]> {
    while (this.entries.length < count) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    return this.entries;
  }
}

test('it tells who was given what, and who was refused what and why', async () => {
  const audit = new Recorder();
  const { ask } = await start(
    {
      listVersions: async (provider) => {
        if (provider.type === 'widget') return { versions: [] };
        throw new HostNotAllowed('it is not mirrored here');
      },
      listPackages: async () => {
        throw new UpstreamUnreachable('registry.example.com', 'timeout', 'did not answer');
      },
      openArchive: async () => readable(),
    },
    { audit },
  );
  await ask(`GET ${WIDGET_PATH}/index.json`);
  await audit.has(1);
  await ask(`GET ${ZIP_PATH}`, 'Range: bytes=0-9');
  await audit.has(2);
  await ask(`GET ${WIDGET_PATH}2/index.json`);
  await audit.has(3);
  await ask(`GET ${WIDGET_PATH}/1.0.0.json?secret=1`);
  await audit.has(4);
  await ask('GET /healthz');
  await ask('GET /nowhere');

  const common = { client: 'anonymous', remote: '127.0.0.1', method: 'GET', requestId: expect.any(String) };
  expect(await audit.has(4)).toMatchObject([
    { ...common, event: 'served', what: 'versions', provider: 'registry.example.com/acme/widget', status: 200 },
    {
      ...common,
      event: 'served',
      what: 'archive',
      version: '1.0.0',
      platform: 'linux_amd64',
      status: 206,
      outcome: 'stored',
    },
    { ...common, event: 'refused', what: 'versions', outcome: 'HOST_NOT_ALLOWED', reason: 'it is not mirrored here' },
    { ...common, event: 'failed', what: 'packages', status: 504, outcome: 'UPSTREAM_UNREACHABLE' },
  ]);
  expect(audit.entries).toHaveLength(4);
  expect(JSON.stringify(audit.entries)).not.toContain('secret');
  expect(audit.entries[1]?.['bytes']).toBeGreaterThan(10);
});

test('refusals before anything was asked for are told as well, without the token', async () => {
  const audit = new Recorder();
  const authenticator = new Authenticator({ anonymous: 'none', tokens: async () => [] });
  const { ask } = await start({ listPackages: async () => packages() }, { audit, authenticator });
  await ask(`GET ${WIDGET_PATH}/1.0.0.json`, 'Authorization: Bearer s3cret');
  expect(await audit.has(1)).toMatchObject([
    {
      event: 'refused',
      client: 'anonymous',
      status: 401,
      outcome: 'UNAUTHENTICATED',
      path: `${WIDGET_PATH}/1.0.0.json`,
    },
  ]);
  expect(JSON.stringify(audit.entries)).not.toContain('s3cret');
});
