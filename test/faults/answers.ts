import { createHash } from 'node:crypto';
import { gunzipSync } from 'node:zlib';
import { expect } from 'vitest';
import type { HttpAnswer } from '../support/http.ts';
import type { PublishedPackage, PublishedVersion } from '../support/published-provider.ts';
import type { Column, Outcome } from './table.ts';

/** Errors by their words in the table. */
export const ERRORS: Readonly<Partial<Record<Outcome, readonly [status: number, code: string]>>> = {
  absent: [404, 'NOT_FOUND'],
  unreachable: [502, 'UPSTREAM_UNREACHABLE'],
  late: [504, 'UPSTREAM_UNREACHABLE'],
  busy: [503, 'UPSTREAM_UNREACHABLE'],
  refused: [502, 'UPSTREAM_REFUSED'],
  nonsense: [502, 'UPSTREAM_INVALID'],
  mismatch: [502, 'INTEGRITY_MISMATCH'],
};

interface Published {
  readonly of: string;
  readonly version: PublishedVersion | undefined;
  readonly file: PublishedPackage | undefined;
}

/** That an answer says what is true. */
export const SAYS: Readonly<Record<Column, (answer: HttpAnswer, published: Published) => void>> = {
  index: (answer) => expect(Object.keys(answer.json().versions)).toEqual(['1.0.0']),
  version: (answer, { file }) => expect(answer.json().archives.linux_amd64.hashes).toContain(file?.zh),
  archive: (answer, { file }) => expect(createHash('sha256').update(answer.body).digest('hex')).toBe(file?.sha256),
  versions: (answer) => expect(answer.json().versions).toMatchObject([{ version: '1.0.0' }]),
  download: (answer, { file }) => expect(answer.json().shasum).toBe(file?.sha256),
  checksums: (answer, { version }) => expect(answer.text()).toBe(version?.shasums.toString()),
  moduleVersions: (answer) => expect(answer.json().modules[0].versions).toEqual([{ version: '1.0.0' }]),
  // A package that takes its time is located all the same, and its checksum is not known then.
  moduleDownload: (answer, { of }) =>
    expect(answer.headers['x-terraform-get']).toMatch(
      new RegExp(`^\\./acme-${of}-aws-1\\.0\\.0\\.tar\\.gz(\\?checksum=sha256:[0-9a-f]{64})?$`),
    ),
  package: (answer, { of }) => expect(gunzipSync(answer.body).includes(`# ${of} `)).toBe(true),
};
