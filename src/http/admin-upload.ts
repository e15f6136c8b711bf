import { PassThrough, type Readable } from 'node:stream';
import { type Request, type RequestHandler, type Response, Router } from 'express';
import { z } from 'zod';
import { parseSha256, type Sha256 } from '../address/hash.ts';
import type { MirroredAddress } from '../address/mirrored-address.ts';
import { ModuleRelease } from '../address/module.ts';
import { Version } from '../address/version.ts';
import { storedReadable } from '../cache/stored-readable.ts';
import { Forbidden, NotFound } from '../errors.ts';
import type { ArchiveIntake } from '../mirror/archive-intake.ts';
import type { Intake } from '../mirror/carried.ts';
import type { PackageIntake } from '../mirror/package-intake.ts';
import type { Policy } from '../mirror/policy.ts';
import type { ReleaseIntake } from '../mirror/release-intake.ts';
import type { ArchiveStore } from '../store/archive-store.ts';
import type { ModuleStore } from '../store/module-store.ts';
import { sendArchive } from './archive-response.ts';
import type { AuditTrail } from './audit-entry.ts';
import type { Client } from './authenticate.ts';
import { letBodyTakeLong } from './body-guard.ts';
import { readJson } from './json-request.ts';
import { type ModuleParams, parseModule } from './module-params.ts';
import { PACKAGE_MEDIA_TYPE } from './module-registry.ts';
import { type ProviderParams, parseArchive, parseProvider } from './provider-params.ts';
import { REFUSALS } from './refusals.ts';
import { RequestError } from './request-error.ts';
import { allowOnly } from './request-guards.ts';
import { parsed, parseRequest } from './request-schema.ts';
import { notesOf } from './respond.ts';
import { sendDocument } from './send-document.ts';

/** What is carried in and out by. */
export interface CarryDeps {
  readonly policy: Policy;
  readonly archives: ArchiveIntake;
  readonly releases: ReleaseIntake;
  readonly packages: PackageIntake;
  readonly store: ArchiveStore;
  readonly modules: ModuleStore;
}

const PACKAGE = '.tar.gz';

const DIGEST_HINT = 'send its SHA-256 as ?sha256=HEX, or as Repr-Digest: sha-256=:BASE64:';

/**
 * What is stored, brought and taken away one by one:
 *
 * - `GET`, `HEAD`, `PUT /admin/archives/HOST/NAMESPACE/TYPE/terraform-provider-TYPE_VERSION_OS_ARCH.zip`
 * - `GET`, `PUT /admin/releases/HOST/NAMESPACE/TYPE/VERSION`: SHA256SUMS, signature and statement, as JSON of Base64
 * - `GET`, `HEAD`, `PUT /admin/packages/HOST/NAMESPACE/NAME/SYSTEM/VERSION.tar.gz?subdir=…&source=…&fingerprint=…`
 *
 * Taking something away is no use of it. A body is taken as it comes, under a digest (`?sha256=`, `Repr-Digest`, `Content-Digest` or `Digest`) that may be left
 * out where SHA256SUMS is kept here. 201 once it is stored, 200 when it was already; 409 when something else is known
 * under its name, 422 when it is not what it was said to be. Nothing here asks an upstream.
 */
export function uploadRoutes(deps: CarryDeps & { readonly audit?: AuditTrail | undefined }): Router {
  const { policy, archives, releases, packages, store, modules, audit } = deps;
  const router = Router({ caseSensitive: true, strict: true });

  /** @throws Forbidden, HostNotAllowed, AddressExcluded */
  const admit = (res: Response, address: MirroredAddress): Client => {
    const client = notesOf(res).client as Client;
    if (!client.mayAdminister(address)) throw new Forbidden(`this token is not for ${address}`);
    policy.admit(address);
    return client;
  };

  const answer = (
    req: Request,
    res: Response,
    client: Client,
    taken: Intake<unknown>,
    document: Readonly<Record<string, unknown>>,
  ): void => {
    const { outcome } = taken;
    const { requestId } = notesOf(res);
    const why = taken.outcome === 'refused' ? { reason: taken.reason } : {};
    const remote = req.socket.remoteAddress;
    audit?.record('uploaded', { client: client.name, remote, ...document, outcome, ...why, requestId });
    if (taken.outcome === 'refused') {
      const [status, code] = REFUSALS[taken.why];
      const hint = taken.why === 'unverifiable' ? DIGEST_HINT : undefined;
      throw new RequestError(status, code, taken.reason, { hint });
    }
    notesOf(res).outcome = taken.outcome;
    sendDocument(res, { outcome, ...document }, outcome === 'imported' ? 201 : 200);
  };

  const putArchive: RequestHandler<ProviderParams & { filename: string }> = async (req, res) => {
    const archive = parseArchive(req.params);
    const client = admit(res, archive.provider);
    const claims = { sha256: digestIn(req), size: lengthOf(req) };
    const taken = await archives.take(archive, () => bodyOf(req), claims);
    const sha256 = taken.outcome === 'refused' ? claims.sha256 : taken.stored.sha256;
    answer(req, res, client, taken, {
      provider: `${archive.provider}`,
      version: `${archive.version}`,
      platform: `${archive.platform}`,
      sha256,
    });
  };

  const getArchive: RequestHandler<ProviderParams & { filename: string }> = async (req, res) => {
    const archive = parseArchive(req.params);
    admit(res, archive.provider);
    const find = async () => {
      const stored = await store.find(archive);
      if (stored) return stored;
      throw new NotFound(`${archive} is not stored`);
    };
    await sendArchive(req, res, { describe: find, open: async () => storedReadable(store, await find(), 'look') });
  };

  const putRelease: RequestHandler<ProviderParams & { version: string }> = async (req, res) => {
    const provider = parseProvider(req.params);
    const version = Version.parse(req.params.version);
    const client = admit(res, provider);
    const files = parseRequest(releaseBody, await readJson(req, res));
    const checked = await releases.check(provider, files);
    const taken = checked.outcome === 'refused' ? checked : await releases.keep(provider, version, checked.stored);
    answer(req, res, client, taken, { provider: `${provider}`, version: `${version}`, what: 'SHA256SUMS' });
  };

  const getRelease: RequestHandler<ProviderParams & { version: string }> = async (req, res) => {
    const provider = parseProvider(req.params);
    const version = Version.parse(req.params.version);
    admit(res, provider);
    const files = await store.getRelease(provider, version);
    if (!files) throw new NotFound(`SHA256SUMS of ${provider} ${version} is not stored`);
    sendDocument(res, releaseDocument(files));
  };

  const putPackage: RequestHandler<ModuleParams & { filename: string }> = async (req, res) => {
    const release = parseModuleRelease(req.params);
    const client = admit(res, release.module);
    const { subdir, source, fingerprint } = parseRequest(packageQuery, req.query);
    const claims = { sha256: digestIn(req), subdir, source, fingerprint };
    const taken = await packages.take(release, () => bodyOf(req), claims);
    const sha256 = taken.outcome === 'refused' ? claims.sha256 : taken.stored.sha256;
    answer(req, res, client, taken, { module: `${release.module}`, version: `${release.version}`, sha256 });
  };

  const getPackage: RequestHandler<ModuleParams & { filename: string }> = async (req, res) => {
    const release = parseModuleRelease(req.params);
    admit(res, release.module);
    const find = async () => {
      const stored = await modules.find(release);
      if (stored) return stored;
      throw new NotFound(`the package of ${release} is not stored`);
    };
    await sendArchive(req, res, {
      mediaType: PACKAGE_MEDIA_TYPE,
      describe: find,
      open: async () => {
        const stored = await find();
        const { size, sha256, storedAt } = stored;
        return { state: 'stored', size, sha256, storedAt, stream: (range) => modules.read(stored, range, 'look') };
      },
    });
  };

  const route = <P>(path: string, get: RequestHandler<P>, put: RequestHandler<P>) =>
    router
      .route(path)
      .all(allowOnly('GET', 'HEAD', 'PUT'))
      .get(get as RequestHandler)
      .put(put as RequestHandler);
  route('/archives/:hostname/:namespace/:type/:filename', getArchive, putArchive);
  route('/releases/:hostname/:namespace/:type/:version', getRelease, putRelease);
  route('/packages/:hostname/:namespace/:name/:system/:filename', getPackage, putPackage);
  return router;
}

const base64 = z.base64().transform((text) => Buffer.from(text, 'base64'));

const releaseBody = z.strictObject({
  shasums: base64,
  signature: base64.optional().transform((bytes) => bytes),
  statement: base64.optional().transform((bytes) => bytes),
});

/** SHA256SUMS, signature and statement as they are sent. */
export function releaseDocument(files: {
  readonly shasums: Buffer;
  readonly signature?: Buffer | undefined;
  readonly statement?: Buffer | undefined;
}) {
  const { shasums, signature, statement } = files;
  return {
    shasums: shasums.toString('base64'),
    ...(signature && { signature: signature.toString('base64') }),
    ...(statement && { statement: statement.toString('base64') }),
  };
}

/** What was sent as `releaseDocument` has it. @throws RequestError */
export function parseReleaseDocument(document: unknown) {
  const { shasums, signature, statement } = parseRequest(releaseBody, document);
  return { shasums, signature, statement };
}

/** Far longer than any that is meant. */
const MAX_TEXT = 2_048;

const packageQuery = z.object({
  subdir: z
    .string()
    .max(MAX_TEXT)
    .regex(/^(?!\/)[^\\\p{Cc}*?[\]]*$/u, 'it must be the path of a directory in the package')
    .default(''),
  source: z
    .string()
    .max(MAX_TEXT)
    .regex(/^\P{Cc}*$/u, 'it holds control characters')
    .default('an upload'),
  fingerprint: z.string().max(MAX_TEXT).optional(),
  sha256: parsed(parseSha256).optional(),
});

function parseModuleRelease(params: ModuleParams & { filename: string }): ModuleRelease {
  const { filename } = params;
  const module = parseModule(params);
  if (!filename.endsWith(PACKAGE)) {
    throw new RequestError(404, 'NOT_FOUND', 'there is no such file; packages are named VERSION.tar.gz');
  }
  return new ModuleRelease(module, Version.parse(filename.slice(0, -PACKAGE.length)));
}

/** Of the query, or of a header that RFC 9530 or RFC 3230 has for it. @throws InvalidAddress, RequestError */
function digestIn(req: Request): Sha256 | undefined {
  const { sha256 } = req.query;
  if (typeof sha256 === 'string') return parseSha256(sha256);
  for (const name of ['repr-digest', 'content-digest', 'digest']) {
    const [, base64 = ''] = /(?:^|,)\s*sha-256=:?([A-Za-z0-9+/=]+):?\s*(?:,|$)/i.exec(req.get(name) ?? '') ?? [];
    if (base64 !== '') return parseSha256(Buffer.from(base64, 'base64').toString('hex'));
  }
  return undefined;
}

/** `undefined` of what comes in chunks. */
function lengthOf(req: Request): number | undefined {
  const length = Number(req.get('content-length'));
  return Number.isSafeInteger(length) && length > 0 ? length : undefined;
}

/**
 * The body of a request, however long it takes, in a stream that can be given up: of the request itself, the connection
 * would go along, and with it the answer.
 */
function bodyOf(req: Request): Readable {
  letBodyTakeLong(req);
  const body = new PassThrough();
  req.pipe(body);
  const cut = () => {
    if (!req.complete) body.destroy(new RequestError(400, 'UPLOAD_CUT', 'the upload was broken off'));
  };
  req.once('error', cut).once('close', cut);
  // What nobody takes any more is thrown away as it comes.
  body.once('close', () => {
    req.unpipe(body);
    req.resume();
  });
  return body;
}
