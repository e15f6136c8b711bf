import { describe, expect, it } from 'vitest';
import { JobStatusLine, shownJob } from '../../src/cli/job-display.ts';
import type { JobItemDocument, ToldJobDocument } from '../../src/http/job-documents.ts';

const totals = { items: 4, present: 1, stored: 1, unsupported: 1, failed: 1, waiting: 0 };
const JOB: ToldJobDocument = {
  id: '20260102-030405-abcdef',
  state: 'finished',
  by: 'token:ops',
  createdAt: '2026-01-02T03:04:05Z',
  totals,
  bytes: 3 * 1024 * 1024,
  wish: { files: ['main.tf'], count: 1, platforms: [], client: 'opentofu' },
  diagnostics: [{ severity: 'error', file: 'main.tf', at: '3:1', message: 'this is not HCL' }],
};
const ITEMS: readonly JobItemDocument[] = [
  { name: 'h/acme/a 1.0.0 linux_amd64', kind: 'archive', outcome: 'present', note: 'not covered by the lock file' },
  { name: 'h/acme/b 1.0.0 linux_amd64', kind: 'archive', outcome: 'stored', bytes: 3 * 1024 * 1024 },
  { name: 'h/acme/c 1.0.0 linux_amd64', kind: 'archive', outcome: 'unsupported', reason: 'not for this platform' },
  { name: 'h/acme/d', outcome: 'failed', reason: 'h has no acme/d' },
];

/** What a terminal of this width was sent. */
function terminal(columns: number) {
  const written: string[] = [];
  const stream = { columns, write: (text: string) => written.push(text) > 0 } as unknown as NodeJS.WriteStream;
  return { written, display: new JobStatusLine(stream) };
}

it('tells by whose rules the files were read, where a registry was implied', () => {
  const implied = { ...JOB, diagnostics: [], impliedHostname: 'registry.opentofu.org' };
  expect(shownJob(implied, [])).toMatch(
    /^4 items: .*, as OpenTofu reads these files \(--client terraform otherwise\)$/,
  );
  const wish = { ...JOB.wish, client: 'terraform' };
  expect(shownJob({ ...implied, wish }, [])).toContain('as Terraform reads these files (--client opentofu otherwise)');
  expect(shownJob(JOB, [])).not.toContain('reads these files');
});

describe('a job on a terminal', () => {
  it('is one line that is drawn again, and never wraps', () => {
    const { written, display } = terminal(40);
    display.began(JOB.id);
    display.progress({ state: 'running', totals: { ...totals, failed: 0, waiting: 1 }, bytes: 2048 });
    display.lost();
    expect(written).toHaveLength(3);
    for (const text of written) {
      expect(text.startsWith('\r\u001b[2K')).toBe(true);
      expect(text.replace('\r\u001b[2K', '').length).toBeLessThan(40);
      expect(text).not.toContain('\n');
    }
    expect(written[1]).toContain('3 of 4: 1 present, 1 stored (2.0 KiB)');
  });

  it('shows what was found while that is looked for, and that it waits while the mirror is sealed', () => {
    const { written, display } = terminal(80);
    const waiting = { ...totals, present: 0, stored: 0, unsupported: 0, failed: 0, waiting: 4 };
    display.progress({ state: 'planning', totals: waiting, bytes: 0 });
    display.progress({ state: 'paused', totals: waiting, bytes: 0, reason: 'this mirror is sealed' });
    expect(written.map((text) => text.replace('\r\u001b[2K', ''))).toEqual([
      'looking up versions: 4 items so far',
      '0 of 4: paused: this mirror is sealed',
    ]);
  });

  it('ends with what is not there, and what was said', () => {
    const { written, display } = terminal(80);
    display.ended(JOB, ITEMS);
    expect(written.join('')).toContain(shownJob(JOB, ITEMS));
    expect(shownJob(JOB, ITEMS).split('\n')).toEqual([
      'main.tf:3:1: this is not HCL',
      'h/acme/a 1.0.0 linux_amd64: not covered by the lock file',
      'NOT THERE                   OUTCOME      WHY',
      'h/acme/c 1.0.0 linux_amd64  unsupported  not for this platform',
      'h/acme/d                    failed       h has no acme/d',
      '4 items: 1 present, 1 stored (3.0 MiB), 1 unsupported, 1 failed',
    ]);
  });

  it('says why it did not come to its end', () => {
    expect(shownJob({ ...JOB, state: 'cancelled', totals: { ...totals, waiting: 2 } }, ITEMS)).toMatch(
      /cancelled; 2 were not/,
    );
    expect(shownJob({ ...JOB, state: 'failed', reason: 'no such token' }, ITEMS)).toMatch(/failed: no such token$/);
    const nothing = { items: 0, present: 0, stored: 0, unsupported: 0, failed: 0, waiting: 0 };
    expect(shownJob({ ...JOB, totals: nothing, diagnostics: [] }, [])).toMatch(/^nothing in these files/);
  });
});
