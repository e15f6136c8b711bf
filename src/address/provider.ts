import { InvalidAddress } from '../errors.ts';
import { Hostname } from './hostname.ts';
import { asciiForm, unicodeForm } from './idna.ts';

/** In bytes of UTF-8: the parts become directory and file names. */
const MAX_PART_LENGTH = 128;
const PART = /^[\p{L}\p{M}\p{N}](?:[\p{L}\p{M}\p{N}-]*[\p{L}\p{M}\p{N}])?$/u;

/** A provider's source address, `HOSTNAME/NAMESPACE/TYPE`, normalised as OpenTofu does: one provider, one spelling. */
export class ProviderAddress {
  readonly hostname: Hostname;
  /** Lower case, Unicode. */
  readonly namespace: string;
  /** Lower case, Unicode. */
  readonly type: string;

  constructor(hostname: Hostname, namespace: string, type: string) {
    this.hostname = hostname;
    this.namespace = parsePart('provider namespace', namespace);
    this.type = parsePart('provider type', type);
  }

  /** Parses `HOSTNAME/NAMESPACE/TYPE`, all three parts given. @throws InvalidAddress */
  static parse(text: string): ProviderAddress {
    const [hostname, namespace, type, ...rest] = text.split('/');
    if (hostname === undefined || namespace === undefined || type === undefined || rest.length > 0) {
      throw new InvalidAddress('provider address', text, 'write it as HOSTNAME/NAMESPACE/TYPE');
    }
    return new ProviderAddress(Hostname.parse(hostname), namespace, type);
  }

  toString(): string {
    return `${this.hostname}/${this.namespace}/${this.type}`;
  }
}

/** OpenTofu's ParseProviderPart: letters, digits and single dashes inside; case-folded; IDNA rules; no dots. */
function parsePart(what: string, given: string): string {
  const invalid = (why: string) => new InvalidAddress(what, given, why);
  if (given === '') throw invalid('it is empty');
  if (Buffer.byteLength(given) > MAX_PART_LENGTH) throw invalid(`it is longer than ${MAX_PART_LENGTH} bytes`);
  if (given.includes('--') && !/^xn--/i.test(given)) throw invalid('two dashes in a row are not allowed');
  if (!PART.test(given)) {
    throw invalid('only letters, digits and dashes are allowed, and no dash at the beginning or end');
  }
  // All-digit names would be read as IPv4 addresses by the domain functions; they need no folding.
  if (/^[a-z0-9-]+$/i.test(given) && !/^xn--/i.test(given)) return given.toLowerCase();
  const ascii = asciiForm(given);
  if (!ascii || ascii.includes('.')) throw invalid('it breaks the rules for internationalised names');
  const unicode = unicodeForm(ascii);
  // The mapping expands some characters (`½` becomes `1⁄2`, `ﷺ` eighteen letters): the rules hold for what comes out.
  if (!PART.test(unicode) || unicode.includes('--') || Buffer.byteLength(unicode) > MAX_PART_LENGTH) {
    throw invalid('it breaks the rules for internationalised names');
  }
  return unicode;
}
