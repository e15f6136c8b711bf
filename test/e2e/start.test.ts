import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { programDirectory } from '../support/built-program.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { runClient, workspace } from '../support/client.ts';
import { Internet, REGISTRY } from '../support/internet.ts';
import { describeWith } from '../support/requirements.ts';

// A terminal sends Ctrl-C to all that run in it; a service manager's SIGTERM reaches npm alone.
it.each([
  ['SIGTERM', 'npm'],
  ['SIGTERM', 'all'],
  ['SIGINT', 'npm'],
  ['SIGINT', 'all'],
] as const)('npm start: %s to %s ends the server in good order', { timeout: 60_000 }, async (signal, whom) => {
  const directory = await mkdtemp(join(tmpdir(), 'larder-npm-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  const config = join(directory, 'larder.yaml');
  await writeFile(config, JSON.stringify({ listen: { host: '127.0.0.1', port: 0 }, data: join(directory, 'data') }));
  const started = spawn('npm', ['start', '--', '--config', config], {
    cwd: await programDirectory(),
    // npm would look for news of itself.
    env: { PATH: process.env['PATH'] ?? '', HOME: directory, npm_config_update_notifier: 'false' },
    stdio: ['ignore', 'ignore', 'pipe'],
    detached: true,
  });
  const group = -(started.pid ?? 0);
  const npmEnded = once(started, 'exit');
  afterTest(async () => {
    try {
      process.kill(group, 'SIGKILL');
    } catch {
      // All of them are gone.
    }
  });
  const log: string[] = [];
  let isSent = false;
  // It ends with the last process that writes to it.
  for await (const line of createInterface({ input: started.stderr })) {
    log.push(line);
    if (isSent || !line.includes('listening')) continue;
    isSent = true;
    process.kill(whom === 'all' ? group : (started.pid ?? 0), signal);
  }
  await npmEnded;
  expect(log.join('\n')).toMatch(/listening[\s\S]*shutting down[\s\S]*stopped/);
});

describeWith(['terraform'], 'the built program, started as the README says', () => {
  it('prints what to paste, and with that the client installs', { timeout: 60_000 }, async () => {
    const internet = await Internet.start();
    await internet.registry.addProvider({ namespace: 'acme', type: 'widget', version: '1.2.3' });
    const directory = await mkdtemp(join(tmpdir(), 'larder-start-'));
    afterTest(() => rm(directory, { recursive: true, force: true }));
    const { pem } = await CertificateAuthority.shared();
    await writeFile(join(directory, 'ca.pem'), pem);
    // JSON is YAML.
    const config = { listen: { host: '127.0.0.1', port: 0 }, ...internet.larderConfig() };
    await writeFile(join(directory, 'larder.yaml'), JSON.stringify(config));

    const server = spawn(process.execPath, [join(await programDirectory(), 'dist/main.js'), 'serve'], {
      cwd: directory,
      env: {
        ...internet.env,
        PATH: process.env['PATH'] ?? '',
        LARDER_CONFIG: 'larder.yaml',
        LARDER_DATA: join(directory, 'data'),
      },
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const ended = new Promise<number | null>((resolve) => server.once('close', resolve));
    afterTest(async () => {
      server.kill('SIGKILL');
      await ended;
    });
    const printed: string[] = [];
    for await (const line of createInterface({ input: server.stdout })) {
      printed.push(line);
      if (line.includes('SSL_CERT_FILE=')) break;
    }
    server.stdout.resume();

    const said = printed.join('\n');
    const [, cliConfig = ''] = /^( *host "[\s\S]*?^ *\}\n)(?=\n)/m.exec(said) ?? [];
    const [, caFile = ''] = /export SSL_CERT_FILE=(\S+)/.exec(said) ?? [];
    const made = await workspace({ providers: { widget: { source: `${REGISTRY}/acme/widget` } } });
    const { code, output } = await runClient({
      args: ['init', '-no-color'],
      directory: made.directory,
      cliConfig,
      ca: '',
      env: { SSL_CERT_FILE: caFile },
    });
    expect(code, `${said}\n${output}`).toBe(0);
    expect(internet.registry.releases.requests.count('GET', /\.zip$/)).toBe(1);

    server.kill('SIGTERM');
    expect(await ended).toBe(0);
  });
});
