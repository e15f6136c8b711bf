import * as http from 'node:http';
import * as https from 'node:https';
import { rootCertificates } from 'node:tls';
import type { S3ClientConfig } from '@aws-sdk/client-s3';
import { silentLogger } from '../../logger.ts';

const CONNECT_MS = 3_000;
/** Tries of one request; a deadline of its own bounds them together. */
const MAX_ATTEMPTS = 3;
/** Connections that are kept for the next request. */
const MAX_IDLE_SOCKETS = 64;
/** A credential is asked for again after so long: the file that holds it may have been replaced. */
const CREDENTIALS_FRESH_MS = 60_000;
/** Of what there is besides AWS most does not care, and wants some name. */
const REGION_ELSEWHERE = 'us-east-1';

export interface BucketCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
}

/** Where a bucket is, and how it is reached. */
export interface BucketSettings {
  readonly bucket: string;
  /** Before every key: empty, or with `/` at its end. */
  readonly prefix: string;
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  readonly pathStyle: boolean;
  /** `undefined`: the environment, a profile or the machine has them. */
  readonly credentials: (() => Promise<BucketCredentials>) | undefined;
  /** PEM, trusted beside the public roots. */
  readonly extraCa?: string | undefined;
}

/** @param maxSockets requests at a time; more wait for their turn */
export function clientConfig(settings: Omit<BucketSettings, 'bucket' | 'prefix'>, maxSockets: number): S3ClientConfig {
  const { endpoint, region = endpoint === undefined ? undefined : REGION_ELSEWHERE, credentials, extraCa } = settings;
  const sockets = { keepAlive: true, maxSockets, maxFreeSockets: MAX_IDLE_SOCKETS };
  return {
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    forcePathStyle: settings.pathStyle,
    ...(credentials && {
      credentials: async () => ({
        ...(await credentials()),
        expiration: new Date(Date.now() + CREDENTIALS_FRESH_MS),
      }),
    }),
    maxAttempts: MAX_ATTEMPTS,
    // Beyond what the protocol asks for, checksums are of AWS alone.
    ...(endpoint !== undefined && {
      requestChecksumCalculation: 'WHEN_REQUIRED' as const,
      responseChecksumValidation: 'WHEN_REQUIRED' as const,
    }),
    requestHandler: {
      // What it warns of goes past our log; what fails is told by whoever asked.
      logger: silentLogger,
      connectionTimeout: CONNECT_MS,
      // What is slow is ended by our own deadlines; a client that reads slowly is no reason to end anything.
      requestTimeout: 0,
      socketTimeout: 0,
      httpAgent: new http.Agent(sockets),
      httpsAgent: new https.Agent({
        ...sockets,
        ...(extraCa !== undefined && { ca: [...rootCertificates, extraCa] }),
      }),
    },
  };
}

/** As browsers and other mirrors expect it. */
export function mediaTypeOf(key: string): string {
  if (key.endsWith('.json')) return 'application/json';
  if (key.endsWith('.zip')) return 'application/zip';
  if (key.endsWith('.tar.gz')) return 'application/gzip';
  return key.endsWith('_SHA256SUMS') ? 'text/plain; charset=utf-8' : 'application/octet-stream';
}
