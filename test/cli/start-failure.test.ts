import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { startFailure } from '../../src/cli/start-failure.ts';
import { StorageFailed } from '../../src/errors.ts';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';
import { larderSetup } from '../support/larder-setup.ts';

/** A process is started. */
const PROCESS = { timeout: 60_000 };

const listenError = (code: string) => Object.assign(new Error(code), { code, syscall: 'listen' });
const settings = { data: '/var/lib/larder', listen: { host: '0.0.0.0', port: 443, drainDelay: undefined } };

describe('a server that cannot start', () => {
  it('names the port that is taken, and how to take another, without a stack', PROCESS, async () => {
    const taken = createServer().listen(0, '127.0.0.1');
    await once(taken, 'listening');
    afterTest(async () => void taken.close());
    const { port } = taken.address() as AddressInfo;
    const { configFile } = await larderSetup({ config: { listen: { port } } });
    const { code, stderr } = await runLarder(['serve', '--config', configFile]);
    expect(code).toBe(1);
    expect(stderr).toMatch(
      new RegExp(`^larder: cannot listen on 127.0.0.1, port ${port} \\(EADDRINUSE\\)\n.*PORT`, 'm'),
    );
    expect(stderr).not.toMatch(/^\s+at /m);
  });

  it('names the data directory that cannot be made, and how to name another', PROCESS, async () => {
    const setup = await larderSetup();
    const data = join(setup.dataDirectory, 'file');
    await writeFile(data, '');
    const { code, stderr } = await runLarder(['serve', '--config', setup.configFile], { LARDER_DATA: data });
    expect(code).toBe(1);
    expect(stderr).toContain(`the data directory is ${data}`);
    expect(stderr).toContain('LARDER_DATA');
  });

  it.each([
    ['EACCES', /below 1024/],
    ['EADDRNOTAVAIL', /address of this machine/],
  ])('has a hint for %s', (code, hint) => {
    expect(startFailure(listenError(code), settings)).toMatchObject({
      message: expect.stringContaining(code),
      hint: expect.stringMatching(hint),
    });
  });

  it('keeps what the storage said, and leaves faults of the program alone', () => {
    const failed = new StorageFailed('opening the metadata file', { code: 'EACCES' });
    expect(startFailure(failed, settings)).toMatchObject({ message: failed.message, code: 'COMMAND_FAILED' });
    const fault = new TypeError('x is not a function');
    expect(startFailure(fault, settings)).toBe(fault);
  });
});
