import { parseSha256, type Sha256 } from '../address/hash.ts';
import { IntegrityMismatch, UpstreamInvalid } from '../errors.ts';

/** `HEX  name` as sha256sum writes it; ` *name` in its binary mode. */
const LINE = /^([0-9a-fA-F]{64})[ \t]+\*?(.+)$/;

/**
 * Reads SHA256SUMS: digest by file name. Tolerates what release tools produce (binary markers, CRLF, `./` before
 * names, upper-case digits, blank lines, lines that are something else) and keeps every file, also those that are no
 * archives: who asks for a name gets that very file's digest.
 * @param host where it came from, for the message
 * @throws UpstreamInvalid when nothing in it is a checksum: an error page, say
 * @throws IntegrityMismatch when one name has two digests
 */
export function parseShasums(bytes: Uint8Array, host = 'the stored copy'): Map<string, Sha256> {
  const digests = new Map<string, Sha256>();
  for (const line of Buffer.from(bytes).toString('utf8').split(/\r?\n/)) {
    const [, hex, named] = LINE.exec(line.trim()) ?? [];
    if (hex === undefined || named === undefined) continue;
    const name = named.replace(/^(\.\/)+/, '');
    const digest = parseSha256(hex);
    const earlier = digests.get(name);
    if (earlier !== undefined && earlier !== digest) {
      throw new IntegrityMismatch(`SHA256SUMS lists ${JSON.stringify(name)} twice: as ${earlier} and as ${digest}`);
    }
    digests.set(name, digest);
  }
  if (digests.size === 0) throw new UpstreamInvalid(host, 'has no checksums where SHA256SUMS should be');
  return digests;
}
