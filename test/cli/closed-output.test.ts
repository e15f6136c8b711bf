import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';
import { Writable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { expect, it, vi } from 'vitest';
import { endWithReaders } from '../../src/cli/closed-output.ts';
import { larderCommand } from '../support/built-program.ts';

it('a command whose output nobody reads any more ends quietly, as others do', { timeout: 60_000 }, async () => {
  const files = Array.from({ length: 50 }, () => fileURLToPath(import.meta.url));
  const child = spawn(process.execPath, await larderCommand('hash', '--json', ...files), {
    env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir() },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  child.stdout.destroy();
  let said = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    said += text;
  });
  expect(await once(child, 'close')).toEqual([141, null]);
  expect(said).not.toMatch(/EPIPE|at .*\.[tj]s/);
});

it('a server goes on when nobody reads what it prints, and what else fails is not hidden', () => {
  const exit = vi.spyOn(process, 'exit').mockImplementation(() => undefined as never);
  try {
    const stream = new Writable();
    let isService = true;
    endWithReaders([stream], () => isService);
    const closed = Object.assign(new Error('write EPIPE'), { code: 'EPIPE' });
    stream.emit('error', closed);
    expect(exit).not.toHaveBeenCalled();
    isService = false;
    stream.emit('error', closed);
    expect(exit).toHaveBeenCalledExactlyOnceWith(141);
    expect(() => stream.emit('error', new Error('no space'))).toThrow('no space');
  } finally {
    exit.mockRestore();
  }
});
