import { describe, expect, it } from 'vitest';
import { type Config, describeConfig } from '../src/config.ts';
import { hasCode } from '../src/errors.ts';
import { configDirectory } from './support/config-directory.ts';

const directory = configDirectory({ 'cli.tfrc': '' });

async function load(upstreams: string, env: Record<string, string> = {}): Promise<Config> {
  return directory.load(`upstreams:\n${upstreams}`, env);
}

async function problemOf(upstreams: string, env: Record<string, string> = {}): Promise<string> {
  const error = await load(upstreams, env).catch((thrown: unknown) => thrown);
  if (!hasCode(error, 'INVALID_CONFIGURATION')) throw new Error('it was accepted');
  return error.message;
}

const HOSTS = `  hosts:
    up.example.test: {}
    up.example.test:8443: {}
    up-x.example.test: {}
    bücher.example.test: {}
    own.example.test: { credentials: { token: own } }
`;

async function tokensWith(env: Record<string, string>) {
  const { upstreams, ignoredTokens } = await load(HOSTS, env);
  const tokens = upstreams.hosts.flatMap(({ hostname, credentials }) =>
    credentials && 'token' in credentials ? [[String(hostname), credentials.token]] : [],
  );
  return { ...Object.fromEntries(tokens), ignored: ignoredTokens };
}

describe('TF_TOKEN_ variables', () => {
  const own = { 'own.example.test': 'own' };

  it.each([
    ['TF_TOKEN_up_example_test', 'up.example.test'],
    ['TF_TOKEN_up.example.test', 'up.example.test'],
    ['TF_TOKEN_UP_Example_TEST', 'up.example.test'],
    ['TF_TOKEN_up_example_test:443', 'up.example.test'],
    ['TF_TOKEN_up_example_test:8443', 'up.example.test:8443'],
    ['TF_TOKEN_up__x_example_test', 'up-x.example.test'],
    ['TF_TOKEN_up-x.example.test', 'up-x.example.test'],
    ['TF_TOKEN_bücher_example_test', 'xn--bcher-kva.example.test'],
    ['TF_TOKEN_BÜCHER_example_test', 'xn--bcher-kva.example.test'],
    ['TF_TOKEN_xn____bcher__kva_example_test', 'xn--bcher-kva.example.test'],
    ['TF_TOKEN_xn--bcher-kva.example.test', 'xn--bcher-kva.example.test'],
  ])('R29: %s is for %s, and for no other', async (variable, host) => {
    expect(await tokensWith({ [variable]: 't' })).toEqual({ ...own, [host]: 't', ignored: [] });
  });

  it('R29: those for other hosts and ports are named and not used', async () => {
    const others = [
      'TF_TOKEN_up_example_test:9443',
      'TF_TOKEN_example_test',
      'TF_TOKEN_',
      'TF_TOKEN_a b',
      'TF_TOKEN_app_terraform_io',
    ];
    const env = Object.fromEntries(others.map((name) => [name, 's3cret']));
    const config = await load(HOSTS, { ...env, tf_token_up_example_test: 'x', XTF_TOKEN_up_example_test: 'x' });
    expect(config.ignoredTokens).toEqual(others);
    expect(JSON.stringify(config)).not.toContain('s3cret');
    expect(config.upstreams.hosts.filter(({ credentials }) => credentials)).toHaveLength(1);
  });

  it('of several for one host the last one counts', async () => {
    const first = { TF_TOKEN_up_example_test: '1', 'TF_TOKEN_UP.EXAMPLE.TEST:443': '2' };
    expect(await tokensWith(first)).toMatchObject({ 'up.example.test': '2' });
    const turned = Object.fromEntries(Object.entries(first).reverse());
    expect(await tokensWith(turned)).toMatchObject({ 'up.example.test': '1' });
  });

  it('what is configured for the host itself wins', async () => {
    expect(await tokensWith({ TF_TOKEN_own_example_test: 'variable' })).toEqual({ ...own, ignored: [] });
  });

  it.each([
    ['', 'is empty; unset it'],
    ['s3cret two', 'holds spaces'],
    ['s3cret\n', 'holds spaces'],
    ['s3crét', 'holds spaces'],
  ])('R29: %j is refused at start', async (token, why) => {
    const message = await problemOf(HOSTS, { TF_TOKEN_up_example_test: token });
    expect(message).toContain(`TF_TOKEN_up_example_test: ${why}`);
    expect(message).not.toContain('s3cr');
    // For hosts that are not asked it does not matter.
    expect((await load(HOSTS, { TF_TOKEN_other_example: token })).ignoredTokens).toEqual(['TF_TOKEN_other_example']);
  });

  it('do not appear in what is told at start', async () => {
    const config = await load(HOSTS, { TF_TOKEN_up_example_test: 's3cret' });
    expect(JSON.stringify(describeConfig(config))).not.toContain('s3cret');
  });
});

describe('other settings of credentials', () => {
  it('the CLI configuration file lies where it was named from', async () => {
    const { upstreams } = await load('  cliConfig: cli.tfrc\n');
    expect(upstreams.cliConfig).toBe(directory.inside('cli.tfrc'));
    expect((await load('  hosts: {}\n')).upstreams.cliConfig).toBeUndefined();
    expect(await problemOf('  cliConfig: absent.tfrc\n')).toMatch(
      /larder\.yaml:2: upstreams\.cliConfig: there is no file/,
    );
    expect(await problemOf('  cliConfig: .\n')).toMatch(/is a directory/);
  });

  it('archive hosts are compared as hosts are, with or without a token of their own', async () => {
    const archiveHosts = '["Files.Example:443", "bücher.example:8443"]';
    const normal = ['files.example', 'xn--bcher-kva.example:8443'];
    const { upstreams } = await load(`  hosts:
    a.example: { credentials: { token: t, archiveHosts: ${archiveHosts} } }
    b.example: { credentials: { archiveHosts: ${archiveHosts} } }
    c.example: {}
`);
    expect(upstreams.hosts.slice(-3)).toMatchObject([
      { credentials: { token: 't' }, archiveHosts: normal },
      { credentials: undefined, archiveHosts: normal },
      { credentials: undefined, archiveHosts: [] },
    ]);
  });

  it.each([
    ['{ forward: true, archiveHosts: [a.example] }', /archiveHosts: cannot go with forward/],
    ['{ token: x, archiveHosts: ["https://a.example/"] }', /archiveHosts\[0\]: must be a host name, or HOST:PORT/],
    ['{ token: x, archiveHosts: a.example }', /archiveHosts: must be a list/],
    ['{}', /must have exactly one of/],
  ])('%s is refused', async (credentials, message) => {
    expect(await problemOf(`  hosts:\n    a.example: { credentials: ${credentials} }\n`)).toMatch(message);
  });
});
