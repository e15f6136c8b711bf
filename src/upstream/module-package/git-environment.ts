import { devNull } from 'node:os';
import path from 'node:path';

/** A connection that carries less than this many bytes a second for so many seconds is dead. Servers that still count objects send a sign of life every five. */
const STALLED_BYTES_PER_SECOND = 1;
const STALLED_SECONDS = 60;
/** What one object may take of memory; larger files are streamed unless they come as a difference to another. */
const MAX_ALLOCATION = '256m';
const STREAMED_FROM = '16m';

/** Settings of git as `key`, `value`. */
export type GitSettings = readonly (readonly [string, string])[];

const FIXED_SETTINGS: GitSettings = [
  ['core.hooksPath', devNull],
  ['core.fsmonitor', 'false'],
  ['core.bigFileThreshold', STREAMED_FROM],
  ['credential.helper', ''],
  ['protocol.ext.allow', 'never'],
  ['http.followRedirects', 'false'],
  ['http.lowSpeedLimit', String(STALLED_BYTES_PER_SECOND)],
  ['http.lowSpeedTime', String(STALLED_SECONDS)],
  ['transfer.fsckObjects', 'true'],
  // Slips of old tools in who wrote what when: they harm nobody, and clones of such repositories work everywhere.
  ...[
    'badDate',
    'badDateOverflow',
    'badEmail',
    'badName',
    'badTimezone',
    'missingEmail',
    'missingNameBeforeEmail',
    'missingSpaceBeforeDate',
    'missingSpaceBeforeEmail',
    'zeroPaddedDate',
    'zeroPaddedFilemode',
  ].map((slip) => [`fetch.fsck.${slip}`, 'ignore'] as const),
  // One pack, whose size can be watched, and nothing that goes on in the background.
  ['fetch.unpackLimit', '1'],
  ['fetch.writeCommitGraph', 'false'],
  ['gc.auto', '0'],
  ['maintenance.auto', 'false'],
  ['pack.threads', '1'],
];

/**
 * The whole environment of a git process. It sees no configuration but ours, asks nobody anything, starts no program of
 * a repository's choice and speaks https and ssh only. Secrets travel here: arguments can be read by every user of a
 * machine, files may stay.
 *
 * @param directory where it takes its home to be
 * @param searchPath directories separated by colons
 */
export function gitEnvironment(options: {
  directory: string;
  searchPath: string | undefined;
  settings?: GitSettings;
  variables?: Readonly<Record<string, string>>;
}): Record<string, string> {
  const settings = [...FIXED_SETTINGS, ...(options.settings ?? [])];
  return {
    // Relative ones would depend on where Larder was started.
    PATH: (options.searchPath ?? '')
      .split(path.delimiter)
      .filter((entry) => path.isAbsolute(entry))
      .join(path.delimiter),
    HOME: options.directory,
    // Complaints are read by us, in English.
    LC_ALL: 'C',
    GIT_CONFIG_NOSYSTEM: '1',
    GIT_CONFIG_SYSTEM: devNull,
    GIT_CONFIG_GLOBAL: devNull,
    GIT_ATTR_NOSYSTEM: '1',
    GIT_NO_REPLACE_OBJECTS: '1',
    GIT_TERMINAL_PROMPT: '0',
    GIT_ASKPASS: '',
    SSH_ASKPASS: '',
    SSH_ASKPASS_REQUIRE: 'never',
    GIT_ALLOW_PROTOCOL: 'https:ssh',
    GIT_ALLOC_LIMIT: MAX_ALLOCATION,
    ...options.variables,
    GIT_CONFIG_COUNT: String(settings.length),
    ...Object.fromEntries(
      settings.flatMap(([key, value], index) => [
        [`GIT_CONFIG_KEY_${index}`, key],
        [`GIT_CONFIG_VALUE_${index}`, value],
      ]),
    ),
  };
}
