#!/usr/bin/env -S node --max-semi-space-size=8
// Newer versions of Node let short-lived objects fill more than 100 MB before they look at them; answers here are small and
// archives are not held in objects at all, so a sixteenth of that does. The other ways to start have the same flag.
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { endWithReaders } from './cli/closed-output.ts';
import { COMMANDS } from './cli/commands.ts';
import { keepSdkQuiet } from './cli/quiet-sdk.ts';
import { hasCode, type LarderError } from './errors.ts';
import { installed } from './installation.ts';

const { version } = JSON.parse(readFileSync(installed('package.json'), 'utf8')) as {
  version: string;
};

const MENDABLE = ['INVALID_CONFIGURATION', 'STORAGE_FAILED', 'INVALID_ADDRESS', 'COMMAND_FAILED'];

/** It could not be done, or was not even begun: wrong options, no such server. 1 is for answers that are not good news. */
const TROUBLE = 2;
/** Of `serve`, which has no answers. */
const FAILED_START = 1;

const asked = process.argv[2] ?? '';

const program = new Command('larder')
  .description('A caching pull-through mirror for OpenTofu and Terraform.')
  .version(version)
  // `ls --version 1.0.0` is about what is stored.
  .enablePositionalOptions()
  // All commands have these two from here.
  .showHelpAfterError()
  .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : TROUBLE));
for (const command of Object.hasOwn(COMMANDS, asked) ? [asked] : Object.keys(COMMANDS)) {
  await COMMANDS[command]?.({ program, version });
}

const isServer = () => program.args[0] === 'serve';
endWithReaders([process.stdout, process.stderr], isServer);

keepSdkQuiet();
try {
  await program.parseAsync();
} catch (error) {
  // What people can mend is said in one line; anything else is a fault of ours and shows where.
  const mendable = MENDABLE.find((code) => hasCode(error, code)) ? (error as LarderError) : undefined;
  console.error(mendable ? `larder: ${mendable.message}${mendable.hint ? `\n${mendable.hint}` : ''}` : error);
  // At once: what a start that failed has opened already (a Redis that is tried for ever) would keep the process alive.
  process.exit(isServer() ? FAILED_START : TROUBLE);
}
