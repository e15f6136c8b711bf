import { expect, it } from 'vitest';
import { clusterSlot } from '../../src/store/cluster-slot.ts';

it.each([
  ['123456789', 12_739],
  ['foo', 12_182],
  ['{foo}:bar', 12_182],
  ['larder:{foo}', 12_182],
])('the slot of %s is that which Redis says', (key, slot) => {
  expect(clusterSlot(key)).toBe(slot);
});

it('without something between braces the whole key decides', () => {
  expect(clusterSlot('{}foo')).not.toBe(clusterSlot('{}bar'));
  expect(clusterSlot('{foo')).not.toBe(clusterSlot('foo'));
  expect(clusterSlot('a}{foo}')).toBe(clusterSlot('foo'));
});
