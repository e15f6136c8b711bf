import { spawn } from 'node:child_process';
import { chmod, lstat, mkdtemp, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { packageOf, startScene } from '../mirror/scene.ts';
import { afterTest } from '../support/after-test.ts';
import { larderCommand } from '../support/built-program.ts';
import { runLarder } from '../support/command.ts';

const TOKEN = 'token-of-the-operators';
const config = { access: { tokens: [{ name: 'ops', token: TOKEN, roles: ['admin'] }] } };
/** Several processes are started one after the other. */
const PROCESSES = { timeout: 120_000 };

async function begin() {
  const scene = await startScene({ config, providers: [] });
  const { registry, larder } = scene;
  const provider = { namespace: 'acme', type: 'widget', version: '1.0.0', platforms: ['linux_amd64', 'darwin_arm64'] };
  const published = await registry.addProvider(provider);
  await scene.archive();
  await scene.stored();
  const directory = await mkdtemp(join(tmpdir(), 'larder-lock-'));
  afterTest(() => rm(directory, { recursive: true, force: true }));
  const address = `${registry.hostname}/acme/widget`;
  const lock = (hashes: readonly (string | undefined)[], version = '1.0.0') =>
    `provider "${address}" {\n  version = "${version}"\n  hashes = [\n${hashes.map((hash) => `    "${hash}",\n`).join('')}  ]\n}\n`;
  const write = async (name: string, content: string | Buffer) => {
    await writeFile(join(directory, name), content);
    return join(directory, name);
  };
  const [linux, darwin] = [packageOf(published), packageOf(published, 'darwin_arm64')];
  const zh = [linux.zh, darwin.zh].sort();
  return {
    ...scene,
    there: ['--server', larder.url, '--ca', larder.setup.caFile, '--token', TOKEN],
    here: ['--config', larder.setup.configFile],
    directory,
    lock,
    write,
    linux,
    darwin,
    bare: lock([linux.h1]),
    full: lock([linux.h1, ...zh]),
    fullest: lock([...[linux.h1, darwin.h1].sort(), ...zh]),
    address,
  };
}

describe('larder lock', () => {
  it('completes files in place, with their mode, and links as links', PROCESSES, async () => {
    const { there, directory, write, bare, fullest, darwin, address } = await begin();
    const file = await write('.terraform.lock.hcl', bare);
    await chmod(file, 0o640);
    const other = await write('other.hcl', bare);
    const link = join(directory, 'link.hcl');
    await symlink('other.hcl', link);
    const platforms = ['--platform', 'linux_amd64', '--platform', 'darwin_arm64', '--fetch'];

    const done = await runLarder(['lock', file, link, ...platforms, ...there]);
    expect(done.stderr).toBe('');
    expect(done.code, done.stdout).toBe(0);
    expect(done.stdout).toContain(`${file}: 1 of 1 provider completed\n  ${address} 1.0.0: 3 more hashes\n`);
    expect(await readFile(file, 'utf8')).toBe(fullest);
    expect((await stat(file)).mode & 0o777).toBe(0o640);
    expect((await lstat(link)).isSymbolicLink()).toBe(true);
    expect(await readFile(other, 'utf8')).toBe(fullest);
    expect(fullest).toContain(darwin.h1);
    expect(await readdir(directory)).toHaveLength(3);
  });

  it('--check tells what is missing and changes nothing', PROCESSES, async () => {
    const { there, write, bare, full, address } = await begin();
    const [file, complete] = [await write('bare.hcl', bare), await write('full.hcl', full)];
    const [lacking, lacksAnother] = await Promise.all([
      runLarder(['lock', file, complete, '--check', '--json', ...there]),
      runLarder(['lock', complete, '--check', '--platform', 'darwin_arm64', ...there]),
    ]);
    expect(lacking.code).toBe(1);
    expect(lacking.lines()).toMatchObject([
      { kind: 'provider', file, address, outcome: 'completed', added: { length: 2 }, missing: [] },
      { kind: 'provider', file: complete, outcome: 'unchanged', added: [], missing: [] },
    ]);
    expect(await readFile(file, 'utf8')).toBe(bare);
    expect(lacksAnother.code).toBe(1);
    expect(lacksAnother.stdout).toContain(`${complete}: 0 of 1 provider to be completed\n`);
    expect(lacksAnother.stdout).toContain('no h1: of darwin_arm64');
    expect(lacksAnother.stdout).toContain('--fetch');
  });

  it('works on the data directory with what is stored, also from standard input', PROCESSES, async () => {
    const { here, larder, bare, full, registry } = await begin();
    await registry.stop();
    await larder.close();
    const child = spawn(process.execPath, await larderCommand('lock', '-', ...here), {
      env: { PATH: process.env['PATH'] ?? '', HOME: tmpdir() },
    });
    child.stdin.end(bare);
    const [out, , code] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      new Promise((resolve) => child.once('close', resolve)),
    ]);
    expect(out).toBe(full);
    expect(code).toBe(0);
  });

  it('exits with 1 when a provider fails, with 2 when it could not look', PROCESSES, async () => {
    const { there, here, directory, write, lock, bare } = await begin();
    const contradicting = await write('wrong.hcl', lock([`zh:${'0'.repeat(64)}`]));
    const broken = await write('broken.hcl', Buffer.concat([Buffer.from(bare), Buffer.from([0xff])]));
    const [failed, noText, noFile] = await Promise.all([
      runLarder(['lock', contradicting, ...there]),
      runLarder(['lock', broken, ...there]),
      runLarder(['lock', join(directory, 'absent.hcl'), ...here]),
    ]);
    expect(failed.code).toBe(1);
    expect(failed.stdout).toMatch(/failed: the lock file has zh:0000/);
    expect(noText).toMatchObject({
      code: 2,
      stdout: '',
      stderr: `larder: ${broken} is not UTF-8, as lock files are\n`,
    });
    expect(noFile.stderr).toMatch(/absent\.hcl does not exist/);
    expect(noFile.code).toBe(2);
    expect(await readFile(contradicting, 'utf8')).toBe(lock([`zh:${'0'.repeat(64)}`]));
  });

  it('refuses what is no lock file, and says what is wrong with it', PROCESSES, async () => {
    const { there, here, directory, write, address } = await begin();
    const configuration = await write('main.tf', `terraform {}\nprovider "widget" {}\n`);
    const empty = await write('empty.hcl', '\n');
    const other = await write('other.hcl', 'terraform {}\n');
    const bare = await write('header.hcl', '# This file is maintained automatically by "tofu init".\n');
    const squeezed = await write('squeezed.hcl', `# Made by "tofu init".provider "${address}" {  version = "1.0.0"}`);
    const [named, nothing] = await Promise.all([
      runLarder(['lock', configuration, ...there]),
      runLarder(['lock', empty, ...there]),
    ]);
    const [folder, odd] = await Promise.all([
      runLarder(['lock', directory, ...here]),
      runLarder(['lock', other, bare, squeezed, ...here]),
    ]);
    expect(named).toMatchObject({ code: 2, stdout: '' });
    expect(named.stderr).toBe(
      `larder: ${configuration} is no lock file\nthat of its directory is ${directory}/.terraform.lock.hcl\n`,
    );
    expect(nothing).toMatchObject({ code: 2, stderr: expect.stringMatching(/empty\.hcl is empty\n.*init/) });
    expect(folder).toMatchObject({ code: 2, stderr: expect.stringMatching(/is a directory, not a file\n.*lock\.hcl/) });
    expect(odd.code, odd.stderr).toBe(1);
    expect(odd.stdout).toMatch(/other\.hcl: .*\n.*\n {2}error in line 1:1: this is no lock file/);
    expect(odd.stdout).toMatch(/header\.hcl: .*\n {2}warning in line 1:1: nothing in this file locks a provider/);
    expect(odd.stdout).toMatch(/squeezed\.hcl: .*\n {2}error in line 1:1: the whole file is one comment/);
  });
});
