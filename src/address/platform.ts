import { InvalidAddress } from '../errors.ts';

/** An operating system and processor architecture in Go's words: `linux_amd64`. */
export class Platform {
  readonly os: string;
  readonly arch: string;

  constructor(os: string, arch: string) {
    for (const part of [os, arch]) {
      if (!/^[a-z0-9]{1,32}$/.test(part)) {
        throw new InvalidAddress(
          'platform',
          `${os}_${arch}`,
          'write it as OS_ARCH in lower case, for example linux_amd64',
        );
      }
    }
    this.os = os;
    this.arch = arch;
  }

  /** Parses `os_arch`. @throws InvalidAddress */
  static parse(text: string): Platform {
    const [os, arch, ...rest] = text.split('_');
    if (os === undefined || arch === undefined || rest.length > 0) {
      throw new InvalidAddress('platform', text, 'write it as OS_ARCH, for example linux_amd64');
    }
    return new Platform(os, arch);
  }

  toString(): string {
    return `${this.os}_${this.arch}`;
  }
}
