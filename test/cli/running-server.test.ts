import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { RunningServer } from '../../src/cli/running-server.ts';
import { addServerOptions, type ServerOptions } from '../../src/cli/server-options.ts';
import { type SceneOptions, startScene } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { runLarder } from '../support/command.ts';

const TOKEN = 'token-of-the-operators';
const CI = 'token-of-the-builds';

async function begin(options: SceneOptions = {}) {
  const tokens = [
    { name: 'ops', token: TOKEN, roles: ['admin'] },
    { name: 'ci', token: CI, roles: ['read'] },
  ];
  const { larder } = await startScene({ config: { access: { tokens } }, ...options });
  return { url: larder.url, ca: larder.setup.caFile, setup: larder.setup };
}

/** Answers everything with a page. */
async function startImpostor(): Promise<number> {
  const impostor = createServer((_req, res) => void res.writeHead(404).end('<html>not here</html>'));
  await new Promise<void>((resolve) => impostor.listen(0, '127.0.0.1', resolve));
  afterTest(async () => void impostor.close());
  return (impostor.address() as AddressInfo).port;
}

async function ask(url: string, options: ServerOptions = {}): Promise<unknown> {
  const server = await RunningServer.at(url, options);
  try {
    return await server.get('admin/inventory', { address: '*/*/*', version: undefined });
  } finally {
    await server.close();
  }
}

async function failureOf(answer: Promise<unknown>): Promise<{ message: string; hint: string }> {
  const error = await answer.then(
    () => undefined,
    (failure: unknown) => failure,
  );
  expect(error).toMatchObject({ code: 'COMMAND_FAILED' });
  expect(JSON.stringify(error) + String(error)).not.toContain(CI);
  return error as { message: string; hint: string };
}

describe('options and environment', () => {
  afterEach(() => void vi.unstubAllEnvs());

  async function optionsOf(env: Record<string, string>, ...args: readonly string[]): Promise<ServerOptions> {
    for (const name of ['LARDER_SERVER', 'LARDER_TOKEN', 'LARDER_CA']) vi.stubEnv(name, env[name]);
    let options: ServerOptions | undefined;
    const command = new Command('ls').option('-c, --config <file>').exitOverride();
    command.configureOutput({ writeErr: () => {} });
    addServerOptions(command).action((given: ServerOptions) => {
      options = given;
    });
    await command.parseAsync(args, { from: 'user' });
    return options ?? {};
  }
  const env = { LARDER_SERVER: 'https://larder.test', LARDER_TOKEN: 'token', LARDER_CA: 'ca.pem' };

  it('what the environment says holds where the command line says nothing', async () => {
    expect(await optionsOf(env)).toEqual({ server: 'https://larder.test', token: 'token', ca: 'ca.pem' });
    const given = ['--server', 'https://other.test', '--token', 'mine', '--ca', 'other.pem'];
    expect(await optionsOf(env, ...given)).toEqual({ server: 'https://other.test', token: 'mine', ca: 'other.pem' });
  });

  it('--config says that no server is meant, whatever the environment says', async () => {
    expect(await optionsOf(env, '--config', 'larder.yaml')).toMatchObject({ config: 'larder.yaml', server: undefined });
    await expect(optionsOf({}, '--config', 'larder.yaml', '--server', 'https://larder.test')).rejects.toThrow(
      /'--server <url>' cannot be used with option '-c, --config <file>'/,
    );
  });

  it('what is empty is not set', async () => {
    const options = await optionsOf({ LARDER_SERVER: '', LARDER_TOKEN: '', LARDER_CA: '' });
    expect(options).toEqual({ server: undefined, token: undefined, ca: undefined });
  });
});

it('options that make no sense are 2 in every command, as is what cannot be done', { timeout: 120_000 }, async () => {
  const results = await Promise.all([
    runLarder(['lock', '--no-such-option']),
    runLarder(['ls', '--server', 'nowhere']),
  ]);
  for (const { code, stdout, stderr } of results) {
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
    expect(stderr).not.toBe('');
  }
});

it('is asked with the token and the authority given, also under a path', async () => {
  const { url, ca } = await begin();
  expect(await ask(url, { token: TOKEN, ca })).toEqual({ archives: [], modules: [], drift: [] });
  expect(await ask(`${url}/`, { token: TOKEN, ca })).toEqual({ archives: [], modules: [], drift: [] });
  expect((await failureOf(ask(`${url}/prefix`, { token: TOKEN, ca }))).message).toContain('/prefix/ answered 404');
});

it('that refuses the token is told apart from one that wants another', async () => {
  const { url, ca } = await begin();
  expect(await failureOf(ask(url, { ca }))).toMatchObject({
    message: expect.stringContaining('refused: a token is needed here'),
    hint: 'give a token with --token, or in LARDER_TOKEN',
  });
  expect((await failureOf(ask(url, { ca, token: `${CI}x` }))).hint).toContain('another token');
  expect((await failureOf(ask(url, { ca, token: CI }))).message).toContain('does not have the role admin');
});

it('without any operator says how to have one', async () => {
  const { url, ca } = await begin({ config: {} });
  expect((await failureOf(ask(url, { ca, token: CI }))).hint).toContain('LARDER_ADMIN_TOKEN');
});

it('that is not there, not trusted, or no Larder, is named as such', async () => {
  const { url, setup } = await begin();
  const port = await startImpostor();
  const untrusted = await failureOf(ask(url, { token: CI }));
  expect(untrusted.message).toMatch(/^the certificate of localhost:\d+ is not trusted here/);
  expect(untrusted.hint).toContain('--ca FILE');
  expect((await failureOf(ask(`http://127.0.0.1:${port}`))).message).toContain('answered 404, and not as Larder does');
  const clear = await failureOf(ask(`https://127.0.0.1:${port}`));
  expect(clear.message).toContain('does not speak TLS');
  expect(clear.hint).toContain('http://');
  expect((await failureOf(ask('https://127.0.0.1:1'))).message).toBe(
    'nothing listens at 127.0.0.1:1: the connection was refused',
  );

  const empty = join(setup.dataDirectory, 'empty.pem');
  await writeFile(empty, '');
  expect((await failureOf(ask(url, { ca: empty }))).message).toContain('holds no certificate');
  expect((await failureOf(ask(url, { ca: `${empty}.not` }))).message).toContain('does not exist');
});

it.each([
  ['localhost:8443', 'is no http:// or https:// URL'],
  ['ftp://localhost', 'is no http:// or https:// URL'],
  [`https://any:${CI}@localhost`, 'holds a user or password'],
])('%s is no address of one', async (url, problem) => {
  expect((await failureOf(ask(url))).message).toContain(problem);
});
