import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { promisify } from 'node:util';
import { afterTest } from './after-test.ts';
import { GitRepositories } from './git-repositories.ts';
import { requirement } from './requirements.ts';

const run = promisify(execFile);
/** Where the server wants to lock itself in when it is run by root; systems make it when they start the service. */
const PRIVILEGE_SEPARATION = '/run/sshd';

/** A git host over ssh on loopback: the real sshd, which lets one key in and runs nothing but git. Gone after the test. */
export class SshHost {
  readonly repositories: GitRepositories;
  readonly port: number;
  /** Who may log in: whoever runs the tests. */
  readonly user = userInfo().username;
  /** Files: the key that is let in, one that is not, and what tells this host from others. */
  readonly key: string;
  readonly strangersKey: string;
  readonly knownHosts: string;
  readonly #server: ChildProcess;

  private constructor(files: { directory: string }, port: number, repositories: GitRepositories, server: ChildProcess) {
    this.repositories = repositories;
    this.port = port;
    this.key = join(files.directory, 'client');
    this.strangersKey = join(files.directory, 'stranger');
    this.knownHosts = join(files.directory, 'known_hosts');
    this.#server = server;
  }

  /** Where there is no sshd, `requirement('sshd')` says so beforehand. */
  static async start(options: { repositories?: GitRepositories } = {}): Promise<SshHost> {
    const program = requirement('sshd').path;
    if (program === undefined) throw new Error('there is no sshd here');
    const repositories = options.repositories ?? (await GitRepositories.create());
    const directory = await mkdtemp(join(tmpdir(), 'larder-ssh-'));
    const port = await unusedPort();
    for (const name of ['host', 'client', 'stranger']) {
      await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', join(directory, name)]);
    }
    const publicKey = async (name: string) => (await readFile(join(directory, `${name}.pub`), 'utf8')).trim();
    await writeFile(join(directory, 'known_hosts'), `[localhost]:${port} ${await publicKey('host')}\n`);
    const serve = join(directory, 'serve');
    // What is asked for reads: git-upload-pack '/platform/vpc.git'
    await writeFile(
      serve,
      `#!/bin/sh\neval "set -- $SSH_ORIGINAL_COMMAND"\n[ "$1" = git-upload-pack ] || exit 1\nexec git upload-pack "${repositories.directory}$2"\n`,
    );
    await chmod(serve, 0o755);
    await writeFile(join(directory, 'authorized_keys'), `restrict,command="${serve}" ${await publicKey('client')}\n`);
    await writeFile(
      join(directory, 'config'),
      [
        `Port ${port}`,
        'ListenAddress 127.0.0.1',
        `HostKey ${join(directory, 'host')}`,
        `AuthorizedKeysFile ${join(directory, 'authorized_keys')}`,
        'AuthenticationMethods publickey',
        'PermitRootLogin yes',
        'StrictModes no',
        'UsePAM no',
        'PidFile none',
        'AcceptEnv GIT_PROTOCOL',
        '',
      ].join('\n'),
    );
    if (process.getuid?.() === 0) await mkdir(PRIVILEGE_SEPARATION, { recursive: true, mode: 0o755 });
    const server = spawn(program, ['-D', '-e', '-f', join(directory, 'config')], {
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    const killServer = () => server.kill('SIGKILL');
    // Otherwise a test run that is interrupted leaves it behind.
    process.once('exit', killServer);
    const host = new SshHost({ directory }, port, repositories, server);
    afterTest(async () => {
      await host.stop();
      process.off('exit', killServer);
      await rm(directory, { recursive: true, force: true });
    });
    const said: string[] = [];
    for await (const line of createInterface({ input: server.stderr })) {
      said.push(line);
      if (line.includes('Server listening')) break;
    }
    server.stderr.resume();
    if (server.exitCode !== null) throw new Error(`sshd did not start:\n${said.join('\n')}`);
    return host;
  }

  /** `localhost:PORT`. */
  get hostname(): string {
    return `localhost:${this.port}`;
  }

  /** `ssh://USER@localhost:PORT`. */
  get url(): string {
    return `ssh://${this.user}@${this.hostname}`;
  }

  async stop(): Promise<void> {
    if (this.#server.exitCode !== null || this.#server.signalCode !== null) return;
    const gone = once(this.#server, 'exit');
    this.#server.kill('SIGKILL');
    await gone;
  }

  /** A file of host keys in which this host has another key than it shows. */
  async wrongKnownHosts(): Promise<string> {
    const file = join(dirname(this.knownHosts), 'wrong_known_hosts');
    const other = (await readFile(`${this.strangersKey}.pub`, 'utf8')).trim();
    await writeFile(file, `[localhost]:${this.port} ${other}\n`);
    return file;
  }
}

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  return typeof address === 'object' && address ? address.port : 0;
}
