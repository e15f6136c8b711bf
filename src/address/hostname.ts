import { InvalidAddress } from '../errors.ts';
import { asciiForm, unicodeForm } from './idna.ts';

const MAX_HOSTNAME_LENGTH = 253;
const LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/**
 * The hostname of a registry, with its port when that is not 443.
 *
 * Identity is the *comparison form* (`toString`): lower case, punycode, `:443` dropped. It is what goes into keys,
 * upstream requests and the allow-list. The *display form* is Unicode and goes into the packed directory layout,
 * where OpenTofu and Terraform look for it.
 */
export class Hostname {
  /** Lower case and punycode, without the port: `xn--bcher-kva.example.com`. */
  readonly name: string;
  /** `undefined` means 443. */
  readonly port: number | undefined;

  private constructor(name: string, port: number | undefined) {
    this.name = name;
    this.port = port;
  }

  /** Accepts any case, IDN or punycode, and an optional port. @throws InvalidAddress */
  static parse(text: string): Hostname {
    const invalid = (why: string) => new InvalidAddress('hostname', text, why);
    if (text.length > MAX_HOSTNAME_LENGTH * 4) throw invalid('it is far too long');

    const [, given, portText] = /^(.*?)(?::([^:]*))?$/su.exec(text) ?? [];
    if (!given) throw invalid('it is empty');
    // WHATWG parsing would silently repair or reinterpret these: spaces, separators, percent-encoding, userinfo.
    if (/[\s/\\?#@%[\]:<>^|]/u.test(given) || /\p{Cc}/u.test(given)) {
      throw invalid('only letters, digits, dashes and dots are allowed, then optionally :PORT');
    }
    const name = asciiForm(given);
    if (!name) throw invalid('it is not a valid (internationalised) domain name');
    if (name.length > MAX_HOSTNAME_LENGTH) throw invalid(`it is longer than ${MAX_HOSTNAME_LENGTH} characters`);
    if (!name.split('.').every((label) => LABEL.test(label))) {
      throw invalid('each part must be 1 to 63 letters, digits or dashes, and may not begin or end with a dash');
    }
    // The rules for names read 2130706433 and 0x7f.1 as IPv4 addresses: what is looked up must be what was written.
    if (/^\d+(\.\d+){3}$/.test(name) && name !== given) throw invalid('write IPv4 addresses as four decimal numbers');

    return new Hostname(name, portText === undefined ? undefined : parsePort(portText, invalid));
  }

  /** Comparison form: `name` or `name:port`. Equal strings mean the same registry. */
  toString(): string {
    return this.port === undefined ? this.name : `${this.name}:${this.port}`;
  }

  /** Unicode form for people and for the packed directory layout: `bücher.example.com:8443`. */
  get display(): string {
    const unicode = unicodeForm(this.name);
    return this.port === undefined ? unicode : `${unicode}:${this.port}`;
  }

  /** Origin of its service discovery and of relative services: always https. */
  get origin(): string {
    return `https://${this}`;
  }
}

function parsePort(text: string, invalid: (why: string) => InvalidAddress): number | undefined {
  const port = /^[1-9]\d{0,4}$/.test(text) ? Number(text) : Number.NaN;
  if (!(port <= 65_535)) throw invalid('the port must be a number from 1 to 65535');
  return port === 443 ? undefined : port;
}
