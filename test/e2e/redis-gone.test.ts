import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { afterTest } from '../support/after-test.ts';
import { CertificateAuthority } from '../support/certificates.ts';
import { describeWith } from '../support/requirements.ts';
import {
  COMES_BACK,
  expectDegraded,
  expectRecovery,
  expectUsual,
  GOES,
  goThrough,
  landsIn,
  redisOf,
  redisScene,
} from './redis-scene.ts';

describeWith(['terraform', 'redis-server'], 'init while Redis', () => {
  it('R62: goes away in the midst, and comes back empty', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const scene = await redisScene({ url: redis.url });
    await goThrough(scene, {
      befall: () => redis.kill(),
      mend: () => redis.restart(),
      reason: /^using redis failed \(\w+\)$/,
      hasLanded: landsIn(redis),
    });
  });

  it('R62: is paused, and goes on', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const scene = await redisScene({ url: redis.url });
    await goThrough(scene, {
      befall: () => redis.pause(),
      mend: () => redis.resume(),
      reason: /^using redis failed \((TIMEOUT|\w+)\)$/,
      hasLanded: landsIn(redis),
    });
  });

  it('R62: is not there at the start, and is used once it is', { timeout: 90_000 }, async () => {
    const redis = await redisOf({ started: false });
    const scene = await redisScene({ url: redis.url });
    await expectDegraded(scene, /^using redis failed \(ECONNREFUSED\)$/);
    await expectUsual(scene);
    await redis.restart();
    await expectRecovery(scene, landsIn(redis));
    expect([scene.said(GOES).length, scene.said(COMES_BACK).length]).toEqual([1, 1]);
  });

  it('R62: is restarted', { timeout: 90_000 }, async () => {
    const redis = await redisOf();
    const scene = await redisScene({ url: redis.url });
    await scene.init('ordinary');
    await redis.restart();
    await expectUsual(scene);
    await expectRecovery(scene, landsIn(redis));
    expect(scene.said(GOES).length).toBe(scene.said(COMES_BACK).length);
    expect(scene.said(GOES).length).toBeLessThanOrEqual(1);
  });

  it('has a certificate of its own authority, and one of a wrong one', { timeout: 90_000 }, async () => {
    const directory = await mkdtemp(join(tmpdir(), 'larder-redis-tls-'));
    afterTest(() => rm(directory, { recursive: true, force: true }));
    const [right, wrong] = await Promise.all([CertificateAuthority.generate(), CertificateAuthority.generate()]);
    const { cert, key } = await right.issue();
    const files = { 'cert.pem': cert, 'key.pem': key, 'right.pem': right.pem, 'wrong.pem': wrong.pem };
    for (const [name, text] of Object.entries(files)) await writeFile(join(directory, name), text);
    const file = (name: string) => join(directory, name);
    const redis = await redisOf({
      scheme: 'rediss',
      arguments: [
        '--tls-cert-file',
        file('cert.pem'),
        '--tls-key-file',
        file('key.pem'),
        '--tls-ca-cert-file',
        file('right.pem'),
      ],
    });
    const trusting = await redisScene({ url: redis.url, ca: file('right.pem') });
    await expectRecovery(trusting, landsIn(redis));
    expect(trusting.said(GOES)).toEqual([]);
    await trusting.larder.close();

    await redis.command('FLUSHALL');
    const refusing = await redisScene({ url: redis.url, ca: file('wrong.pem') });
    await expectUsual(refusing);
    await expectDegraded(refusing, /^using redis failed \(\w*(CERT|SIGNATURE)\w*\)$/);
    expect(refusing.said(GOES)).toHaveLength(1);
    expect(await landsIn(redis)('ordinary')).toBe(false);
  });
});
