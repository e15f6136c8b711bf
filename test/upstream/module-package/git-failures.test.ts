import { describe, expect, it } from 'vitest';
import { gitFailure } from '../../../src/upstream/module-package/git-failures.ts';
import { GitExit } from '../../../src/upstream/module-package/git-process.ts';
import { repositoryAt } from './git-scene.ts';

const REPOSITORY = repositoryAt('https://git.example.com/acme/net.git');

function told(...complaint: string[]) {
  return gitFailure(REPOSITORY, new GitExit('fetch', 128, `${complaint.join('\n')}\n`));
}

describe('a full disk', () => {
  it('is told as ours when git could not write', () => {
    expect(
      told('fatal: write error: No space left on device', 'fatal: fetch-pack: invalid index-pack output'),
    ).toMatchObject({ code: 'STORAGE_FAILED', full: true });
  });

  it('is the trouble of the host when the host says so', () => {
    expect(told('remote: fatal: write error: No space left on device', 'fatal: early EOF')).toMatchObject({
      code: 'UPSTREAM_UNREACHABLE',
      host: 'git.example.com',
    });
  });
});
