import { generate } from 'selfsigned';

/** A certificate authority that lives as long as the test process. Its certificate is what clients are told to trust. */
export class CertificateAuthority {
  /** PEM certificate. */
  readonly pem: string;
  readonly #key: string;

  private constructor(pem: string, key: string) {
    this.pem = pem;
    this.#key = key;
  }

  static async generate(name = 'Throwaway test authority'): Promise<CertificateAuthority> {
    const made = await generate([{ name: 'commonName', value: name }], {
      ...certificateShape(),
      extensions: [
        { name: 'basicConstraints', cA: true, critical: true },
        { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
      ],
    });
    return new CertificateAuthority(made.cert, made.private);
  }

  /** One authority for the whole process: servers of different tests may be trusted together. */
  static shared(): Promise<CertificateAuthority> {
    return sharedAuthority();
  }

  /** A server certificate for localhost, 127.0.0.1, ::1 and `names`; expired if `notAfter` lies in the past. */
  async issue(
    names: readonly string[] = [],
    options: { notAfter?: Date } = {},
  ): Promise<{ cert: string; key: string }> {
    const made = await generate([{ name: 'commonName', value: names[0] ?? 'localhost' }], {
      ...certificateShape(options.notAfter),
      ca: { cert: this.pem, key: this.#key },
      extensions: [
        { name: 'basicConstraints', cA: false },
        { name: 'keyUsage', digitalSignature: true, critical: true },
        { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
        {
          name: 'subjectAltName',
          altNames: [
            ...['localhost', ...names].map((value) => ({ type: 2 as const, value })),
            ...['127.0.0.1', '::1'].map((ip) => ({ type: 7 as const, ip })),
          ],
        },
      ],
    });
    return { cert: made.cert, key: made.private };
  }
}

const DAY_MS = 86_400_000;

function certificateShape(notAfter = new Date(Date.now() + 7 * DAY_MS)) {
  // Back-dated: a certificate that begins "now" is refused by a client whose clock is rounded down.
  const notBeforeDate = new Date(Math.min(Date.now(), notAfter.getTime()) - DAY_MS);
  return { keyType: 'ec', algorithm: 'sha256', notBeforeDate, notAfterDate: notAfter } as const;
}

const sharedAuthority = once(() => CertificateAuthority.generate());

/** Makes it at the first call, hands out the same afterwards. */
export function once<T>(make: () => T): () => T {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}
