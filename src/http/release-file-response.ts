import type { Request, Response } from 'express';
import type { ReleaseFile } from '../address/release-file.ts';
import { NotFound } from '../errors.ts';
import type { SignedChecksums } from '../mirror/provider-releases.ts';
import { contentBody, sendContent } from './respond.ts';

/** Answers GET and HEAD with upstream's own SHA256SUMS, or the signature of it. */
export async function sendReleaseFile(
  req: Request,
  res: Response,
  { kind, provider, version }: ReleaseFile,
  read: () => Promise<SignedChecksums>,
): Promise<void> {
  const { files, ...currency } = await read();
  if (kind === 'SHA256SUMS')
    return sendContent(req, res, 'text/plain; charset=utf-8', contentBody(files.shasums), currency);
  if (!files.signature)
    throw new NotFound(`${provider.hostname} has no signature of SHA256SUMS of ${provider} ${version}`);
  sendContent(req, res, 'application/octet-stream', contentBody(files.signature), currency);
}
