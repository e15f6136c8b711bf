import {
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  randomUUID,
  X509Certificate,
} from 'node:crypto';
import { link, mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { StorageFailed } from '../errors.ts';
import type { TlsMaterial } from './tls.ts';

const DAY_MS = 24 * 60 * 60 * 1000;
const AUTHORITY_LIFETIME_MS = 3_650 * DAY_MS;
/** The longest that all TLS clients accept. */
const LEAF_LIFETIME_MS = 397 * DAY_MS;
/** Certificates with less left than this are made anew. */
const RENEWAL_MS = 30 * DAY_MS;
/** Clocks of clients may be behind by this much. */
const BACKDATED_MS = DAY_MS;
/** Others may be starting on the same directory; each attempt ends with what all of them agreed on. */
const ATTEMPTS = 5;

/**
 * The certificate authority and server certificate that Larder makes for itself, kept in `directory`:
 *
 *     ca.pem    what clients are told to trust      ca.key    signs nothing but cert.pem
 *     cert.pem  good for `names`                    key.pem
 *
 * Made on first start. Afterwards only cert.pem is renewed, when it is about to expire or a name is missing: the
 * authority stays, because clients trust it by now.
 *
 * Several processes may start at once. A key, once there, is never replaced while it is usable, and every file appears
 * whole, so certificates made by any of them fit the keys that all of them read back.
 *
 * @throws StorageFailed when the directory cannot be read or written
 */
export async function loadSelfSigned(directory: string, names: readonly string[], now: Date): Promise<TlsMaterial> {
  try {
    await mkdir(directory, { recursive: true });
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const material = await readMaterial(directory, names, now);
      if (material) return material;
      const authority = await provideAuthority(directory, now);
      await issueLeaf(directory, names, authority, now);
    }
  } catch (cause) {
    throw new StorageFailed('keeping the self-made certificate', cause);
  }
  throw new StorageFailed('keeping the self-made certificate', new Error('it did not read back as it was written'));
}

interface KeyPair {
  readonly certificate: string;
  readonly key: string;
}

/** What is on disk, if all of it fits together, covers the names and lasts a while. */
async function readMaterial(directory: string, names: readonly string[], now: Date): Promise<TlsMaterial | undefined> {
  const file = join(directory, 'ca.pem');
  const [ca, cert, key] = await Promise.all([
    readIfThere(file),
    readIfThere(join(directory, 'cert.pem')),
    readIfThere(join(directory, 'key.pem')),
  ]);
  const authority = parseCertificate(ca);
  const leaf = parseCertificate(cert);
  if (!ca || !cert || !key || !authority || !leaf) return undefined;
  const fits =
    belongsTo(key, leaf) &&
    leaf.verify(authority.publicKey) &&
    lasts(leaf, now) &&
    lasts(authority, now) &&
    names.every((name) => covers(leaf, name));
  if (!fits) return undefined;
  return { cert, key, authority: { certificate: ca, file }, expiresAt: new Date(leaf.validTo) };
}

/** The authority that is there, or a new one when there is none that could sign. */
async function provideAuthority(directory: string, now: Date): Promise<KeyPair> {
  const keyFile = join(directory, 'ca.key');
  const certificateFile = join(directory, 'ca.pem');
  const present = parseCertificate(await readIfThere(certificateFile));
  const presentKey = await readIfThere(keyFile);
  const outlived = present !== undefined && !lasts(present, now);
  if (outlived || (presentKey !== undefined && !isPrivateKey(presentKey))) await rm(keyFile, { force: true });

  const key = await createOnce(keyFile, newKey(), 0o600);
  if (present && !outlived && belongsTo(key, present)) {
    return { certificate: present.toString(), key };
  }
  await rm(certificateFile, { force: true });
  const publicKey = createPublicKey(key).export({ type: 'spki', format: 'pem' }).toString();
  // A name of its own: two authorities of one name in a client's trust store would be taken for each other.
  const fingerprint = createHash('sha256').update(publicKey).digest('hex').slice(0, 8);
  const { generate } = await import('selfsigned');
  const { cert } = await generate([{ name: 'commonName', value: `Larder CA ${fingerprint}` }], {
    ...SIGNATURE,
    keyPair: { privateKey: key, publicKey },
    notBeforeDate: new Date(now.getTime() - BACKDATED_MS),
    notAfterDate: new Date(now.getTime() + AUTHORITY_LIFETIME_MS),
    extensions: [
      { name: 'basicConstraints', cA: true, pathLenConstraint: 0, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  return { certificate: await createOnce(certificateFile, asFile(cert), 0o644), key };
}

async function issueLeaf(directory: string, names: readonly string[], authority: KeyPair, now: Date): Promise<void> {
  const keyFile = join(directory, 'key.pem');
  const present = await readIfThere(keyFile);
  if (present !== undefined && !isPrivateKey(present)) await rm(keyFile, { force: true });
  const key = await createOnce(keyFile, newKey(), 0o600);
  const authorityEnd = new Date(new X509Certificate(authority.certificate).validTo).getTime();
  // Only where one is to be made: it takes as long to load as the rest of what makes certificates.
  const { generate } = await import('selfsigned');
  const { cert } = await generate([{ name: 'commonName', value: 'Larder' }], {
    ...SIGNATURE,
    keyPair: {
      privateKey: key,
      publicKey: createPublicKey(key).export({ type: 'spki', format: 'pem' }).toString(),
    },
    ca: { key: authority.key, cert: authority.certificate },
    notBeforeDate: new Date(now.getTime() - BACKDATED_MS),
    notAfterDate: new Date(Math.min(now.getTime() - BACKDATED_MS + LEAF_LIFETIME_MS, authorityEnd)),
    extensions: [
      { name: 'basicConstraints', cA: false, critical: true },
      { name: 'keyUsage', digitalSignature: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: names.map((name) => (isIP(name) ? { type: 7, ip: name } : { type: 2, value: name })),
      },
    ],
  });
  const aside = await writeAside(join(directory, 'cert.pem'), asFile(cert), 0o644);
  await rename(aside, join(directory, 'cert.pem'));
}

const SIGNATURE = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;

function newKey(): string {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
}

function lasts(certificate: X509Certificate, now: Date): boolean {
  return Date.parse(certificate.validTo) - now.getTime() > RENEWAL_MS;
}

function covers(leaf: X509Certificate, name: string): boolean {
  return (isIP(name) ? leaf.checkIP(name) : leaf.checkHost(name, { subject: 'never' })) !== undefined;
}

function belongsTo(key: string, certificate: X509Certificate): boolean {
  return isPrivateKey(key) && certificate.checkPrivateKey(createPrivateKey(key));
}

function isPrivateKey(pem: string): boolean {
  try {
    return createPrivateKey(pem).asymmetricKeyType === 'ec';
  } catch {
    return false;
  }
}

function parseCertificate(pem: string | undefined): X509Certificate | undefined {
  try {
    return pem === undefined ? undefined : new X509Certificate(pem);
  } catch {
    return undefined;
  }
}

function asFile(pem: string): string {
  return `${pem.trimEnd()}\n`;
}

async function readIfThere(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Creates the file unless another process was first. Resolves to what is in it then. */
async function createOnce(file: string, content: string, mode: number): Promise<string> {
  const aside = await writeAside(file, content, mode);
  try {
    // Unlike a rename, a link never replaces what is there.
    await link(aside, file);
    return content;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return (await readIfThere(file)) ?? content;
    if (code === undefined || !LINKS_UNSUPPORTED.has(code)) throw error;
    await rename(aside, file);
    return content;
  } finally {
    await rm(aside, { force: true });
  }
}

/** Some network and removable file systems know no links. There, starting twice at once is not supported. */
const LINKS_UNSUPPORTED: ReadonlySet<string> = new Set(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS']);

async function writeAside(file: string, content: string, mode: number): Promise<string> {
  const aside = `${file}.${randomUUID()}.new`;
  const handle = await open(aside, 'wx', mode);
  try {
    await handle.writeFile(content);
    await handle.sync();
  } catch (error) {
    await rm(aside, { force: true });
    throw error;
  } finally {
    await handle.close();
  }
  return aside;
}
