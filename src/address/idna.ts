import { domainToASCII, domainToUnicode } from 'node:url';

/**
 * The ASCII form of a name by the rules for internationalised domain names (non-transitional), `undefined` when it breaks
 * them. Newer versions of Node let punycode pass that stands for nothing; here it is refused by all.
 */
export function asciiForm(name: string): string | undefined {
  const ascii = domainToASCII(name);
  const isSound = ascii.split('.').every((label) => !label.startsWith('xn--') || domainToUnicode(label) !== label);
  return ascii !== '' && isSound ? ascii : undefined;
}

/** The Unicode form of what `asciiForm` returned. */
export function unicodeForm(ascii: string): string {
  return domainToUnicode(ascii);
}
