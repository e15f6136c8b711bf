import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { collectWish } from '../../src/cli/wish-files.ts';
import { afterTest } from '../support/after-test.ts';

async function directoryWith(...files: string[]): Promise<string> {
  const cwd = await mkdtemp(path.join(tmpdir(), 'larder-wish-'));
  afterTest(() => rm(cwd, { recursive: true }));
  for (const file of files) {
    await mkdir(path.dirname(path.join(cwd, file)), { recursive: true });
    await writeFile(path.join(cwd, file), `text of ${file}`);
  }
  return cwd;
}

const pathsOf = async (args: string[], cwd: string) => (await collectWish(args, { cwd })).files.map(({ path }) => path);

describe('the files of a command', () => {
  it('are those named, with what is in them', async () => {
    const cwd = await directoryWith('live/main.tf', 'list.yaml');
    expect(await collectWish(['live/main.tf', './list.yaml'], { cwd })).toEqual({
      files: [
        { path: 'live/main.tf', text: 'text of live/main.tf' },
        { path: 'list.yaml', text: 'text of list.yaml' },
      ],
    });
  });

  it('are configuration and lock files of a directory and all below it', async () => {
    const cwd = await directoryWith(
      'main.tf',
      'README.md',
      'package.json',
      '.terraform.lock.hcl',
      '.hidden.tf',
      '.terraform/modules/x/main.tf',
      '.git/main.tf',
      'modules/net/main.tofu',
      'modules/net/main.tf.json',
      'modules/net/.terraform.lock.hcl',
      'modules/net/terraform.tfvars.json',
      'modules/net/x.tftest.json',
      'lists/warm.yaml',
    );
    expect(await pathsOf(['.'], cwd)).toEqual([
      '.terraform.lock.hcl',
      'main.tf',
      'modules/net/.terraform.lock.hcl',
      'modules/net/main.tf.json',
      'modules/net/main.tofu',
    ]);
  });

  it('follow links to files, and none to directories', async () => {
    const cwd = await directoryWith('live/main.tf', 'shared/versions.tf');
    await symlink('../shared/versions.tf', path.join(cwd, 'live/versions.tf'));
    await symlink('..', path.join(cwd, 'live/up'));
    expect(await pathsOf(['live'], cwd)).toEqual(['live/main.tf', 'live/versions.tf']);
  });

  it('keep their places to each other, wherever they are named from', async () => {
    const cwd = await directoryWith('live/main.tf', 'shared/main.tf');
    const from = path.join(cwd, 'live');
    expect(await pathsOf(['.', '../shared', path.join(cwd, 'shared')], from)).toEqual(['main.tf', '../shared/main.tf']);
  });

  it('are what a pattern means, directories included', async () => {
    const cwd = await directoryWith(
      'a/dev/main.tf',
      'a/prod/main.tf',
      'a/prod/.terraform.lock.hcl',
      'a/.old/main.tf',
      'lists/one.yaml',
      'lists/two.json',
      'lists/README.md',
    );
    expect(await pathsOf(['a/*'], cwd)).toEqual(['a/dev/main.tf', 'a/prod/.terraform.lock.hcl', 'a/prod/main.tf']);
    expect(await pathsOf(['lists/*'], cwd)).toEqual(['lists/one.yaml', 'lists/two.json']);
    expect(await pathsOf(['**/*.tf'], cwd)).toEqual(['a/dev/main.tf', 'a/prod/main.tf']);
    expect(await pathsOf(['a/**'], cwd)).toEqual(await pathsOf(['a'], cwd));
    expect(await pathsOf(['**'], cwd)).toEqual(await pathsOf(['a'], cwd));
    expect(await pathsOf(['**/.terraform.lock.hcl'], cwd)).toEqual(['a/prod/.terraform.lock.hcl']);
    expect(await pathsOf([path.join(cwd, 'a/[d]*/main.t?')], cwd)).toEqual(['a/dev/main.tf']);
  });

  it.each([
    ['terraform {\n  required_version = ">= 1.6"\n}\n', 'main.tf'],
    ['# generated\nresource "random_id" "x" {\n}\n', 'main.tf'],
    ['# generated\nprovider "registry.opentofu.org/acme/widget" {\n', '.terraform.lock.hcl'],
    ['provider "aws" {\n  region = "x"\n}\n', 'main.tf'],
    ['{"terraform":{}}', 'main.tf.json'],
    ['{"terraform":{', 'main.tf.json'],
    ['\uFEFF{"resource":{}}', 'main.tf.json'],
    ['{"providers":["acme/widget"]}', 'warm-list.json'],
    ['{"providers":["acme/widget"', 'warm-list.json'],
    ['providers:\n  - acme/widget\n', 'warm-list.yaml'],
    ['---\nmodules: []\n', 'warm-list.yaml'],
    ['acme/widget@~> 1.0\n# comment\n', 'warm-list.txt'],
    ['terraform-providers/x\nmodule.example:8443/a/b\n', 'warm-list.txt'],
  ])('%j on standard input is a %s', async (text, name) => {
    expect(await collectWish(['-'], { stdin: Readable.from([text]) })).toEqual({ files: [{ path: name, text }] });
  });

  it('have the name that standard input is given', async () => {
    const stdin = Readable.from(['{}']);
    const { files } = await collectWish(['-'], { stdin, stdinName: 'live/main.tofu.json' });
    expect(files).toEqual([{ path: 'live/main.tofu.json', text: '{}' }]);
  });

  it.each([
    ['missing.tf', /^missing\.tf does not exist$/],
    ['*.yaml', /nothing that is read here matches \*\.yaml/],
    ['README.md', /README\.md is of no kind that is read here/],
    ['docs', /neither configuration nor a lock file in docs/],
    ['README.md/x.tf', /does not exist/],
  ])('%s is a mistake that is told', async (argument, message) => {
    const cwd = await directoryWith('README.md', 'docs/README.md', 'docs/list.yaml');
    await expect(collectWish([argument], { cwd })).rejects.toThrow(message);
  });

  it('are told to be missing when standard input is empty', async () => {
    await expect(collectWish(['-'], { stdin: Readable.from(['\n']) })).rejects.toThrow('nothing on standard input');
  });

  it('are together no more than a server takes, standard input included', async () => {
    const cwd = await directoryWith();
    const half = 'x'.repeat(9 * 1024 * 1024);
    await writeFile(path.join(cwd, 'one.txt'), half);
    await writeFile(path.join(cwd, 'two.txt'), half);
    const stdin = () => Readable.from([Buffer.from(half)]);
    const tooMuch = /^these are more than 16 MiB$/;
    expect((await collectWish(['one.txt', './one.txt'], { cwd })).files).toHaveLength(1);
    expect((await collectWish(['-'], { cwd, stdin: stdin(), stdinName: 'one.txt' })).files).toHaveLength(1);
    await expect(collectWish(['one.txt', 'two.txt'], { cwd })).rejects.toThrow(tooMuch);
    await expect(collectWish(['one.txt', '-'], { cwd, stdin: stdin() })).rejects.toThrow(tooMuch);
    await expect(collectWish(['-', 'one.txt'], { cwd, stdin: stdin() })).rejects.toThrow(tooMuch);
    // As it is sent: each of these takes two bytes there.
    await writeFile(path.join(cwd, 'two.txt'), '\n'.repeat(9 * 1024 * 1024));
    await expect(collectWish(['two.txt'], { cwd })).rejects.toThrow(tooMuch);
  });

  it('are not read to their end when standard input never ends', async () => {
    let pieces = 0;
    const stdin = Readable.from(
      (function* () {
        for (;;) {
          pieces += 1;
          yield Buffer.alloc(1024 * 1024, 'x');
        }
      })(),
    );
    await expect(collectWish(['-'], { stdin })).rejects.toThrow('more than 16 MiB');
    expect(pieces).toBeLessThan(40);
  });
});
