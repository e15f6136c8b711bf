import { describe, expect, test } from 'vitest';
import { parseAdvertisement } from '../../../src/upstream/module-package/git-advertisement.ts';
import { parseListedRefs, targetOf } from '../../../src/upstream/module-package/git-refs.ts';

const id = (digit: string) => digit.repeat(40);
const packet = (text: string) => (text.length + 4).toString(16).padStart(4, '0') + text;
const service = `${packet('# service=git-upload-pack\n')}0000`;
const advertised = (...lines: string[]) => Buffer.from(`${service}${lines.map(packet).join('')}0000`);

const REFS = parseListedRefs(
  [
    'ref: refs/heads/trunk\tHEAD',
    `${id('1')}\tHEAD`,
    `${id('1')}\trefs/heads/trunk`,
    `${id('2')}\trefs/heads/feature/a`,
    `${id('3')}\trefs/tags/feature/a`,
    `${id('4')}\trefs/tags/v1`,
    `${id('5')}\trefs/tags/v1^{}`,
    `${id('6')}\trefs/tags/trunk`,
    `${id('7')}\trefs/heads/${id('a')}`,
    `${id('8')}\trefs/heads/cafe`,
    `${id('9')}\trefs/pull/1/head`,
  ].join('\n'),
);

describe('a ref is what a checkout in a fresh clone would make of it', () => {
  test.each([
    ['no ref: the default branch', undefined, { kind: 'name', name: 'HEAD', commit: id('1') }],
    ['an annotated tag: its commit', 'v1', { kind: 'name', name: 'refs/tags/v1', commit: id('5') }],
    ['a tag before a branch', 'feature/a', { kind: 'name', name: 'refs/tags/feature/a', commit: id('3') }],
    ['the default branch before a tag', 'trunk', { kind: 'name', name: 'refs/heads/trunk', commit: id('1') }],
    ['a full name', 'refs/heads/feature/a', { kind: 'name', name: 'refs/heads/feature/a', commit: id('2') }],
    ['a name with its kind', 'heads/feature/a', { kind: 'name', name: 'refs/heads/feature/a', commit: id('2') }],
    ['a branch as clones name it', 'origin/cafe', { kind: 'name', name: 'refs/heads/cafe', commit: id('8') }],
    ['a commit, even where a branch bears its name', id('A'), { kind: 'commit', commit: id('a') }],
    ['a branch before an abbreviated commit', 'cafe', { kind: 'name', name: 'refs/heads/cafe', commit: id('8') }],
    ['an abbreviated commit', 'CAFE01', { kind: 'abbreviation', prefix: 'cafe01' }],
    ['none: what clones do not have', 'refs/pull/1/head', undefined],
    ['none: too short for a commit', 'abc', undefined],
    ['none: an option', '--upload-pack=touch /tmp/x', undefined],
    ['none: an expression', 'trunk~1', undefined],
    ['none: a property of every object', 'constructor', undefined],
  ])('%s', (_, ref, expected) => {
    expect(targetOf(REFS, ref)).toEqual(expected);
  });

  test('an empty repository has no default branch', () => {
    expect(targetOf(parseListedRefs(''), undefined)).toBeUndefined();
  });
});

describe('the list of references over https', () => {
  test('tells commits, tags looked through, and the default branch', () => {
    const refs = parseAdvertisement(
      advertised(
        `${id('1')} HEAD\0multi_ack symref=HEAD:refs/heads/trunk agent=git/2\n`,
        `${id('1')} refs/heads/trunk\n`,
        `${id('4')} refs/tags/v1\n`,
        `${id('5')} refs/tags/v1^{}\n`,
      ),
      'git.example',
    );
    expect(refs).toMatchObject({ head: id('1'), defaultBranch: 'refs/heads/trunk' });
    expect([...refs.commits]).toEqual([
      ['refs/heads/trunk', id('1')],
      ['refs/tags/v1', id('5')],
    ]);
  });

  test('of an empty repository is empty', () => {
    const refs = parseAdvertisement(advertised(`${id('0')} capabilities^{}\0multi_ack\n`), 'git.example');
    expect([refs.head, refs.commits.size]).toEqual([undefined, 0]);
  });

  test('names that git would take for options, patterns or paths are not among them', () => {
    const names = ['refs/heads/a b', 'refs/heads/*', 'refs/heads/a:b', 'refs/heads/../x', '--exec=x', 'refs/tags/a..b'];
    const refs = parseAdvertisement(advertised(...names.map((name) => `${id('1')} ${name}\n`)), 'git.example');
    expect([...refs.commits.keys()]).toEqual([]);
  });

  test.each([
    ['a web page', Buffer.from('<!doctype html><title>Sign in</title>'), /git\.example answered a web page/],
    ['plain files', Buffer.from(`${id('1')}\trefs/heads/main\n`), /answered something else/],
    ['nothing', Buffer.alloc(0), /answered something else/],
    ['another service', Buffer.from(`${packet('# service=git-receive-pack\n')}0000`), /answered something else/],
    ['a list that is cut', advertised(`${id('1')} refs/heads/main\n`).subarray(0, 60), /damaged/],
    ['an error', advertised('ERR access denied to <b>you</b>'), /answered an error/],
  ])('%s is not one', (_, bytes, message) => {
    const read = () => parseAdvertisement(bytes, 'git.example');
    expect(read).toThrow(
      expect.objectContaining({ code: 'UPSTREAM_INVALID', message: expect.stringMatching(message) }),
    );
  });
});
