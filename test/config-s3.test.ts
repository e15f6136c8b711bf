import { describe, expect, it } from 'vitest';
import { describeConfig } from '../src/config.ts';
import { openStorage } from '../src/storage.ts';
import { configDirectory } from './support/config-directory.ts';
import { recordingLogger } from './support/recording-logger.ts';

const { inside, load } = configDirectory({ secret: 's3cret\n', empty: '' });

describe('s3', () => {
  it('is none unless there is a bucket', async () => {
    expect((await load('')).s3).toBeUndefined();
    expect((await load('s3: { pathStyle: true, prefix: mirrors }')).s3).toBeUndefined();
  });

  it('takes its keys from elsewhere unless they are given', async () => {
    expect((await load('s3: { bucket: archives }')).s3).toEqual({
      bucket: 'archives',
      prefix: '',
      region: undefined,
      endpoint: undefined,
      pathStyle: false,
      credentials: undefined,
      redirect: false,
    });
  });

  it('takes a secret as it is, or a file beside the one that names it, and tells neither', async () => {
    const given = await load(`
s3:
  bucket: archives
  prefix: /mirrors/larder/
  region: eu-central-1
  endpoint: https://s3.corp.example:9000
  pathStyle: "true"
  accessKeyId: larder
  secretAccessKey: s3cret
  redirect: true
`);
    expect(given.s3).toEqual({
      bucket: 'archives',
      prefix: 'mirrors/larder/',
      region: 'eu-central-1',
      endpoint: 'https://s3.corp.example:9000',
      pathStyle: true,
      credentials: { accessKeyId: 'larder', secret: { token: 's3cret' } },
      redirect: true,
    });
    expect(describeConfig(given)).toMatchObject({ storage: 's3 bucket archives' });
    expect(JSON.stringify(describeConfig(given))).not.toContain('s3cret');
    const inFile = await load('s3: { bucket: archives, accessKeyId: larder, secretAccessKeyFile: secret }');
    expect(inFile.s3?.credentials?.secret).toEqual({ tokenFile: inside('secret') });
  });

  it.each([
    ['s3: { bucket: "a/b" }', 's3.bucket', 'name of a bucket'],
    ['s3: { bucket: archives, prefix: "../up" }', 's3.prefix', 'path'],
    ['s3: { bucket: archives, prefix: "a//b" }', 's3.prefix', 'path'],
    ['s3: { bucket: archives, endpoint: "s3.corp.example" }', 's3.endpoint', 'URL'],
    ['s3: { bucket: archives, endpoint: "https://larder:s3cret@s3.corp.example" }', 's3.endpoint', 'without user'],
    ['s3: { bucket: archives, endpoint: "https://s3.corp.example/archives" }', 's3.endpoint', 'path'],
    ['s3: { bucket: archives, accessKeyId: larder }', 's3.accessKeyId', 'secretAccessKey'],
    ['s3: { bucket: archives, secretAccessKey: s3cret }', 's3.accessKeyId', 'missing'],
    [
      's3: { bucket: archives, accessKeyId: larder, secretAccessKey: s3cret, secretAccessKeyFile: secret }',
      's3.secretAccessKey',
      'only one',
    ],
    ['s3: { accessKeyId: larder, secretAccessKey: s3cret }', 's3.bucket', 'missing'],
    [
      's3: { bucket: archives, accessKeyId: larder, secretAccessKeyFile: absent }',
      's3.secretAccessKeyFile',
      'there is no file',
    ],
    ['s3: { bucket: archives, secret: s3cret }', 's3.secret', 'not a known key'],
    ['s3: { bucket: archives }\nlimits: { disk: 500GB }', 'limits.disk', 'lifecycle rule'],
  ])('%s is refused by name, without what may be secret', async (yaml, key, why) => {
    const refused = expect(load(yaml)).rejects;
    await refused.toMatchObject({ code: 'INVALID_CONFIGURATION', message: expect.stringContaining(`${key}: `) });
    await expect(load(yaml)).rejects.toThrow(why);
    await expect(load(yaml)).rejects.not.toThrow(/s3cret/);
  });

  it('a file that holds no secret is told at the start', async () => {
    const config = await load('s3: { bucket: archives, accessKeyId: larder, secretAccessKeyFile: empty, region: x }');
    await expect(openStorage({ ...config, data: inside('data') }, { logger: recordingLogger() })).rejects.toThrow(
      's3.secretAccessKeyFile is empty',
    );
  });
});
