import { describe, expect, it } from 'vitest';
import { startScene, stoppedClock, WIDGET } from './scene.ts';

describe('a version that is published twice', () => {
  const again = { ...WIDGET, platforms: ['linux_amd64', 'darwin_arm64'], zip: () => Buffer.from('other bytes') };

  it('keeps the first digests, refuses the new bytes, and says so once', async () => {
    const clock = stoppedClock();
    const { registry, larder, version, archive, stored } = await startScene({
      providers: [{ platforms: ['linux_amd64', 'darwin_arm64'] }],
    });
    const before = (await version('1.0.0')).json();
    const kept = await archive('1.0.0');
    await stored();

    await registry.addProvider(again);
    clock.advance(25 * 3_600_000);
    const hashes = (answer: { archives: Record<string, { hashes: string[] }> }, platform: string) =>
      answer.archives[platform]?.hashes.filter((hash) => hash.startsWith('zh:'));
    const after = (await version('1.0.0')).json();
    for (const platform of ['linux_amd64', 'darwin_arm64']) {
      expect(hashes(after, platform)).toEqual(hashes(before, platform));
    }

    expect((await archive('1.0.0')).body.equals(kept.body)).toBe(true);
    const refused = await archive('1.0.0', 'darwin_arm64');
    expect(refused.status).toBe(502);
    expect(refused.json()).toMatchObject({ code: 'INTEGRITY_MISMATCH', hint: expect.stringContaining('larder purge') });
    expect((await archive('1.0.0', 'darwin_arm64', { method: 'HEAD' })).status).toBe(502);
    const drifts = larder.log.filter(({ message }) => message.includes('publishes other bytes'));
    expect(drifts.map(({ fields }) => fields['archive'])).toHaveLength(2);
  });

  it('is found out when only the document has changed so far', async () => {
    const { registry, archive, version } = await startScene({
      providers: [{ platforms: ['linux_amd64', 'darwin_arm64'] }],
    });
    await version('1.0.0');
    await registry.addProvider(again);
    const refused = await archive('1.0.0', 'darwin_arm64');
    expect(refused.status).toBe(502);
    expect(refused.json().errors[0]).toContain('when first seen');
  });
});
