import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isLease, type Lease, type Leases } from '../../src/store/leases.ts';

/** Two replicas that share their leases, in whatever way. */
export interface LeasesFixture {
  readonly here: Leases;
  readonly there: Leases;
  close(): Promise<void>;
}

/** @throws when somebody else has it */
export async function acquired(leases: Leases, key: string): Promise<Lease> {
  const lease = await leases.acquire(key);
  if (!isLease(lease)) throw new Error(`${key} is held: ${JSON.stringify(lease)}`);
  return lease;
}

/** The promises of the Leases port, for any implementation. */
export function leasesContract(name: string, open: () => Promise<LeasesFixture>): void {
  describe(`${name} as leases`, () => {
    let fixture: LeasesFixture;
    let here: Leases;
    let there: Leases;
    let number = 0;
    const unusedKey = () => `contract/${number++}/h.example:8443/ns/type`;

    beforeAll(async () => {
      fixture = await open();
      ({ here, there } = fixture);
    });
    afterAll(() => fixture?.close());

    it('gives what nobody has', async () => {
      const key = unusedKey();
      expect(await here.look(key)).toBeUndefined();
      const lease = await acquired(here, key);
      expect(lease.token).toBeGreaterThan(0);
      expect(await here.look(key)).toEqual({ token: lease.token, text: undefined });
      await lease.release();
      expect(here.unshared).toBe(0);
    });

    it('has one holder at a time, whoever asks', async () => {
      const key = unusedKey();
      const asked = Array.from({ length: 40 }, (_, index) => (index % 2 ? here : there).acquire(key));
      const given = (await Promise.all(asked)).filter(isLease);
      expect(given).toHaveLength(1);
      for (const replica of [here, there]) {
        expect(await replica.acquire(key)).toEqual({ heldBy: { token: given[0]?.token, text: undefined } });
      }
      await given[0]?.release();
    });

    it('gives what was given back at once, to anybody, with a greater token', async () => {
      const key = unusedKey();
      let last = 0;
      for (const replica of [here, there, there, here]) {
        const lease = await acquired(replica, key);
        expect(lease.token).toBeGreaterThan(last);
        last = lease.token;
        await lease.release();
        expect(await here.look(key)).toBeUndefined();
      }
    });

    it('tells everybody what the holder noted last', async () => {
      const key = unusedKey();
      const lease = await acquired(here, key);
      expect(await there.look(key)).toEqual({ token: lease.token, text: undefined });
      for (const text of ['first', '{"text":"ü ✓ \\n"}', 'x'.repeat(10_000)]) {
        await lease.note(text);
        for (const replica of [here, there]) expect(await replica.look(key)).toEqual({ token: lease.token, text });
        expect(await there.acquire(key)).toEqual({ heldBy: { token: lease.token, text } });
      }
      await lease.release();
      const next = await acquired(there, key);
      expect(await here.look(key)).toEqual({ token: next.token, text: undefined });
      await next.release();
    });

    it('hears nothing more of who gave it back', async () => {
      const key = unusedKey();
      const former = await acquired(here, key);
      await former.release();
      const lease = await acquired(there, key);
      await former.note('still here');
      await former.release();
      expect(await here.look(key)).toEqual({ token: lease.token, text: undefined });
      await lease.release();
    });

    it('keeps keys apart that differ in case or by what follows', async () => {
      const key = unusedKey();
      const keys = [`${key}/1.0.0-RC1`, `${key}/1.0.0-rc1`, key, `${key}:`, `${key} {x}`];
      const leases = await Promise.all(keys.map((one) => acquired(here, one)));
      await Promise.all(leases.map((lease) => lease.release()));
    });

    it('gives back what is held when it is closed', async () => {
      const key = unusedKey();
      const another = await open();
      await acquired(another.here, key);
      await another.close();
      expect(await here.look(key)).toBeUndefined();
    });
  });
}
