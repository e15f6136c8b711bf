import { afterEach, beforeEach, expect, test } from 'vitest';
import { BucketPins } from '../../src/store/s3/bucket-pins.ts';
import { recordingLogger } from '../support/recording-logger.ts';
import { S3Server } from '../support/s3.ts';
import { BucketStores } from './bucket-stores.ts';

let server: S3Server;
let stores: BucketStores;

beforeEach(async () => {
  server = await S3Server.start();
  stores = new BucketStores({ server, logger: recordingLogger() });
});

afterEach(async () => {
  await stores.close();
  await server.close();
});

test('pins of several replicas that are set at once are all there, sorted and once', async () => {
  const replicas = await Promise.all([1, 2, 3].map(async () => new BucketPins({ bucket: await stores.bucket() })));
  expect(await replicas[0]?.read()).toEqual([]);
  await Promise.all(
    replicas.map((pins, index) => pins.change((before) => [...before, `host/acme/p${index}`, 'host/a/b'])),
  );
  for (const pins of replicas) {
    expect(await pins.read()).toEqual(['host/a/b', 'host/acme/p0', 'host/acme/p1', 'host/acme/p2']);
  }
});

test('what is no list of pins is not the same as none', async () => {
  await server.put('pins.json', '{"pins": 1}');
  const pins = new BucketPins({ bucket: await stores.bucket() });
  await expect(pins.read()).rejects.toMatchObject({ code: 'STORAGE_FAILED', hint: expect.stringContaining('bucket') });
  await expect(pins.change((before) => before)).rejects.toMatchObject({ code: 'STORAGE_FAILED' });
});
