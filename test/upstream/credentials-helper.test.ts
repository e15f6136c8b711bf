import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Hostname } from '../../src/address/hostname.ts';
import { CredentialsHelper, type CredentialsHelperOptions } from '../../src/upstream/credentials-helper.ts';
import { type LogEntry, recordingLogger } from '../support/larder.ts';
import { failureOf } from './scripted-server.ts';

const SECRET = 's3cret-of-the-helper';
const HOST = Hostname.parse('Bücher.example:8443');

let home: string;
let log: LogEntry[];
beforeEach(async () => {
  home = await mkdtemp(path.join(tmpdir(), 'larder-helper-'));
  log = [];
});
afterEach(() => rm(home, { recursive: true, force: true }));

/** A shell script as `terraform-credentials-NAME`; it notes each run in `runs`. */
async function install(script: string, directory = path.join(home, '.terraform.d', 'plugins'), name = 'corp') {
  await mkdir(directory, { recursive: true });
  const file = path.join(directory, `terraform-credentials-${name}`);
  await writeFile(file, `#!/bin/sh\necho "$0 $*" >> '${home}/runs'\n${script}\n`);
  await chmod(file, 0o755);
}

async function runs(): Promise<string[]> {
  const text = await readFile(path.join(home, 'runs'), 'utf8').catch(() => '');
  return text.split('\n').filter(Boolean);
}

function helper(options: Partial<CredentialsHelperOptions> = {}): CredentialsHelper {
  const usual = { name: 'corp', args: [], home, path: '/usr/bin:/bin', logger: recordingLogger(log) };
  return new CredentialsHelper({ ...usual, ...options });
}

const answering = (answer: unknown) => `cat <<'END'\n${JSON.stringify(answer)}\nEND`;

describe('a credentials helper', () => {
  it('R29: is asked for the exact host and port, in punycode, behind its arguments', async () => {
    await install(answering({ token: SECRET }));
    const args = ['--mount', 'a b', '$(touch evil)', '; exit 1'];
    expect(await helper({ args }).token(HOST)).toBe(SECRET);
    expect(await runs()).toEqual([
      `${home}/.terraform.d/plugins/terraform-credentials-corp ${args.join(' ')} get xn--bcher-kva.example:8443`,
    ]);
  });

  it.each([[{}], [{ token: null }], [{ other: 1 }]])('may know of no token: %j', async (answer) => {
    await install(answering(answer));
    expect(await helper().token(HOST)).toBeUndefined();
  });

  it('is found in the directories of plugins first, then in PATH, and never relative to where we are', async () => {
    const platform = `${process.platform}_${{ x64: 'amd64', ia32: '386' }[process.arch as string] ?? process.arch}`;
    const plugins = path.join(home, '.terraform.d', 'plugins');
    const directories = [path.join(home, 'bin'), path.join(plugins, platform), plugins];
    for (const [index, directory] of directories.entries()) {
      await install(answering({ token: `token-${index}` }), directory);
      const search = `::.:relative:${path.join(home, 'bin')}:/usr/bin:/bin`;
      expect(await helper({ path: search }).token(HOST)).toBe(`token-${index}`);
    }
    const error = await failureOf(helper({ home: undefined, path: undefined }).token(HOST));
    expect(error).toMatchObject({ code: 'UPSTREAM_REFUSED', host: 'xn--bcher-kva.example:8443' });
    expect(error.message).toContain('"corp" is neither in the plugin directories nor in PATH');
  });

  it('a file that is no program is passed over', async () => {
    await install(answering({ token: 'x' }));
    await chmod(path.join(home, '.terraform.d', 'plugins', 'terraform-credentials-corp'), 0o644);
    await expect(helper().token(HOST)).rejects.toThrow(/is neither in/);
  });

  it('sees PATH and HOME, and nothing else of the environment', async () => {
    await install('env > "$HOME/env"; echo "{}"');
    process.env['LARDER_TEST_SECRET'] = SECRET;
    try {
      await helper().token(HOST);
    } finally {
      delete process.env['LARDER_TEST_SECRET'];
    }
    const names = (await readFile(path.join(home, 'env'), 'utf8')).split('\n').map((line) => line.replace(/=.*/s, ''));
    // The shell adds its own.
    expect(names.filter((name) => !['', 'PWD', 'OLDPWD', 'SHLVL', '_'].includes(name)).sort()).toEqual([
      'HOME',
      'PATH',
    ]);
  });

  it.each([
    ['fails', `echo ${SECRET}; exit 3`, '"corp" failed (3)'],
    ['kills itself', 'kill -9 $$', '"corp" failed (SIGKILL)'],
    ['says nothing', 'true', 'not {"token"'],
    ['says no JSON', `echo ${SECRET}`, 'not {"token"'],
    ['says a list', `echo '["${SECRET}"]'`, 'not {"token"'],
    ['says a token of another kind', `echo '{"token": ["${SECRET}"]}'`, 'not {"token"'],
    ['says an empty token', `echo '{"token": ""}'`, 'not {"token"'],
    ['says a token with a line break', `echo '{"token": "${SECRET}\\nX-Evil: 1"}'`, 'not {"token"'],
    ['says two answers', `echo '{"token": "${SECRET}"}{}'`, 'not {"token"'],
    ['cannot be run', '', 'could not be run'],
    ['says too much', `head -c 1000000 /dev/zero`, 'said more than 65536 bytes'],
  ])('that %s is told by its name, not by what it said', async (what, script, message) => {
    await install(script);
    if (what === 'cannot be run') {
      const file = path.join(home, '.terraform.d', 'plugins', 'terraform-credentials-corp');
      await writeFile(file, '#!/no/such/interpreter\n');
    }
    const error = await failureOf(helper().token(HOST));
    expect(error).toMatchObject({
      code: 'UPSTREAM_REFUSED',
      hint: expect.stringContaining('terraform-credentials-corp'),
    });
    expect(error.message).toContain(message);
    expect(`${error.message} ${error['hint']} ${JSON.stringify(log)}`).not.toContain(SECRET);
  });

  it('that takes too long is killed, and what it started with it', async () => {
    await install(`echo $$ > "$HOME/pid"; sleep 600 & echo $! >> "$HOME/pid"; wait`);
    const error = await failureOf(helper({ timeLimitMs: 1_000 }).token(HOST));
    expect(error.message).toContain('took longer than 1 s');
    const pids = (await readFile(path.join(home, 'pid'), 'utf8')).trim().split('\n').map(Number);
    expect(pids).toHaveLength(2);
    const isAlive = async (pid: number) => {
      // A killed one that nobody has waited for yet is a zombie.
      const about = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
      return about !== '' && !/\) [ZX] /.test(about);
    };
    for (const pid of pids) await expect.poll(() => isAlive(pid), { timeout: 5_000 }).toBe(false);
  });

  it('may leave something behind that holds its output open: that is not waited for', async () => {
    await install(`setsid sleep 20 & echo '{"token": "${SECRET}"}'`);
    const started = performance.now();
    await expect(helper({ timeLimitMs: 1_500 }).token(HOST)).rejects.toThrow(/took longer/);
    expect(performance.now() - started).toBeLessThan(10_000);
  });

  it('has its first line of complaint logged, without secrets that are known by their shape', async () => {
    await install(`echo "vault is sealed, Bearer ${SECRET}" >&2; echo "more ${SECRET}" >&2; exit 1`);
    await failureOf(helper().token(HOST));
    expect(log).toEqual([
      {
        level: 'warn',
        message: 'a credentials helper complains',
        fields: { helper: 'corp', host: 'xn--bcher-kva.example:8443', says: 'vault is sealed, Bearer [hidden]' },
      },
    ]);
  });
});

describe('what it said', () => {
  it('is shared by those who ask at once, kept for a minute, and by host and port', async () => {
    await install(answering({ token: SECRET }));
    let now = 0;
    const asked = helper({ now: () => now });
    await Promise.all([asked.token(HOST), asked.token(HOST), asked.token(HOST)]);
    now = 59_000;
    await asked.token(HOST);
    expect(await runs()).toHaveLength(1);
    await asked.token(Hostname.parse('bücher.example'));
    expect(await runs()).toHaveLength(2);
    now = 61_000;
    await asked.token(HOST);
    expect(await runs()).toHaveLength(3);
  });

  it('is not kept for longer because the clock was put back', async () => {
    await install(answering({ token: SECRET }));
    let now = 10_000_000;
    const asked = helper({ now: () => now });
    await asked.token(HOST);
    now = 0;
    await asked.token(HOST);
    expect(await runs()).toHaveLength(2);
  });

  it('counts for a few seconds only when it was a failure', async () => {
    await install('exit 1');
    let now = 0;
    const asked = helper({ now: () => now });
    await failureOf(asked.token(HOST));
    await failureOf(asked.token(HOST));
    expect(await runs()).toHaveLength(1);
    await install(answering({ token: SECRET }));
    now = 6_000;
    expect(await asked.token(HOST)).toBe(SECRET);
  });
});
