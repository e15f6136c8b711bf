import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { hostname as machineName } from 'node:os';
import { InvalidConfiguration } from '../errors.ts';
import { loadSelfSigned } from './self-signed.ts';
import type { ServerCertificate } from './server.ts';

/** How Larder is reached: with a certificate of its own making, with one from files, or in the clear behind a proxy. */
export type TlsSettings =
  | { readonly mode: 'off' }
  | { readonly mode: 'files'; readonly cert: string; readonly key: string }
  | {
      readonly mode: 'selfsigned';
      /** Where authority and certificate are kept. */
      readonly directory: string;
      /** Names and addresses that the certificate is to be good for: `certificateNames`. */
      readonly names: readonly string[];
    };

export interface TlsMaterial extends ServerCertificate {
  /** The certificate authority that Larder made, when it did. */
  readonly authority: { readonly certificate: string; readonly file: string } | undefined;
  readonly expiresAt: Date;
}

/**
 * Certificate and key to listen with, `undefined` when TLS is off. Call it again to pick up renewed files.
 * @throws InvalidConfiguration when files are unreadable, are no certificate or key, or do not belong together
 * @throws StorageFailed when the directory for the self-made certificate cannot be used
 */
export async function loadTls(settings: TlsSettings, now: Date = new Date()): Promise<TlsMaterial | undefined> {
  switch (settings.mode) {
    case 'off':
      return undefined;
    case 'files':
      return loadFiles(settings);
    case 'selfsigned':
      return loadSelfSigned(settings.directory, settings.names, now);
  }
}

/**
 * Every name that clients may reasonably use for a Larder that listens on `listenHost`. Those that no certificate can
 * hold (wildcard addresses, machine names with underscores) are left out.
 */
export function certificateNames(settings: { listenHost: string; publicUrl?: string | null | undefined }): string[] {
  const publicHost = settings.publicUrl ? new URL(settings.publicUrl).hostname : undefined;
  const names = ['localhost', '127.0.0.1', '::1', machineName(), settings.listenHost, publicHost ?? '']
    .map((name) =>
      name
        .replace(/^\[(.*)\]$/, '$1')
        .replace(/%.*$/, '')
        .toLowerCase(),
    )
    .filter((name) => (isIP(name) ? !['0.0.0.0', '::'].includes(name) : DNS_NAME.test(name)));
  return [...new Set(names)];
}

const DNS_NAME = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/;

async function loadFiles({ cert: certFile, key: keyFile }: { cert: string; key: string }): Promise<TlsMaterial> {
  const [cert, key] = await Promise.all([read('tls.cert', certFile), read('tls.key', keyFile)]);
  let certificate: X509Certificate;
  try {
    // The first of a chain is the server's own.
    certificate = new X509Certificate(cert);
  } catch (cause) {
    throw new InvalidConfiguration(`tls.cert: ${certFile} holds no PEM certificate`, { cause });
  }
  let privateKey: KeyObject;
  try {
    privateKey = createPrivateKey(key);
  } catch (cause) {
    throw new InvalidConfiguration(`tls.key: ${keyFile} holds no PEM private key that can be read`, {
      cause,
      hint: 'keys with a passphrase are not supported: write the key without one, readable by Larder only',
    });
  }
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new InvalidConfiguration(`tls.key: ${keyFile} is not the key of the first certificate in ${certFile}`, {
      hint: 'in a chain, the certificate of the server itself comes first',
    });
  }
  return { cert, key, authority: undefined, expiresAt: new Date(certificate.validTo) };
}

async function read(setting: string, file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (cause) {
    const code = (cause as NodeJS.ErrnoException).code;
    throw new InvalidConfiguration(`${setting}: ${file} cannot be read (${code})`, { cause });
  }
}
