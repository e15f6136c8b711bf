const SLOTS = 16_384;
/** CRC-16/XMODEM. */
const POLYNOMIAL = 0x1021;

/** The slot of a key in a Redis Cluster (https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/). */
export function clusterSlot(key: string): number {
  let crc = 0;
  for (const byte of Buffer.from(clusterTag(key))) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x8000 ? ((crc << 1) ^ POLYNOMIAL) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc % SLOTS;
}

/** The part of a key that decides: between its first `{` and the next `}`, if there is something. */
export function clusterTag(key: string): string {
  const open = key.indexOf('{');
  const close = open === -1 ? -1 : key.indexOf('}', open + 1);
  return close > open + 1 ? key.slice(open + 1, close) : key;
}
