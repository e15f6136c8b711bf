import { describe, expect, it } from 'vitest';
import { RedisAddress } from '../../src/address/redis-address.ts';

describe('RedisAddress', () => {
  it.each([
    ['redis://cache', 'server', 'redis://cache:6379'],
    ['rediss://cache.corp.example:6380/3', 'server', 'rediss://cache.corp.example:6380/3'],
    ['redis://user:pass@[::1]:7000', 'server', 'redis://[::1]:7000'],
    ['redis+sentinel://a,b:26380/main', 'sentinel', 'redis+sentinel://a:26379,b:26380/main'],
    ['rediss+sentinel://:pass@a/main-1/2', 'sentinel', 'rediss+sentinel://a:26379/main-1/2'],
    ['redis+cluster://a,b:7001,c/', 'cluster', 'redis+cluster://a:6379,b:7001,c:6379'],
  ])('reads %s', (text, kind, shown) => {
    const address = RedisAddress.parse(text);
    expect(address.kind).toBe(kind);
    expect(String(address)).toBe(shown);
  });

  it.each([
    ['redis://larder:p%40ss%2Fword@h', 'larder', 'p@ss/word'],
    ['redis://larder:p@ss:word@h', 'larder', 'p@ss:word'],
    ['redis://:only@h', undefined, 'only'],
    ['redis://larder@h', 'larder', undefined],
    ['redis://h', undefined, undefined],
  ])('of %s knows who comes', (text, username, password) => {
    expect(RedisAddress.parse(text)).toMatchObject({ username, password });
  });

  it.each([
    'http://h',
    'redis:h',
    'redis://',
    'redis://s3cret@',
    'redis://:s3cret@a,b',
    'redis://:s3cret@h:99999',
    'redis://:s3cret@h:port',
    'redis://:s3cret@h/one',
    'redis://:s3cret@h/1/2',
    'redis://:s3cret@h?ssl=1',
    'redis+sentinel://:s3cret@h',
    'redis+sentinel://:s3cret@h/',
    'redis+sentinel://:s3cret@h/a b',
    'redis+cluster://:s3cret@h/1',
    'redis+cluster://:s3cret@a,,b',
    'redis://:s3cret%@h',
  ])('refuses %s without repeating it', (text) => {
    const parsing = () => RedisAddress.parse(text);
    expect(parsing).toThrow(expect.objectContaining({ code: 'INVALID_CONFIGURATION' }));
    expect(parsing).not.toThrow(/s3cret/);
  });
});
