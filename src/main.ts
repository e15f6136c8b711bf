#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { addHash } from './cli/hash.ts';
import { addRotateLinks } from './cli/rotate-links.ts';
import { addServe } from './cli/serve.ts';
import { addVerify } from './cli/verify.ts';
import { hasCode } from './errors.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string;
};

const program = new Command('larder')
  .description('A caching pull-through mirror for OpenTofu and Terraform.')
  .version(version)
  .showHelpAfterError();
addServe(program, version);
addVerify(program);
addHash(program);
addRotateLinks(program);

try {
  await program.parseAsync();
} catch (error) {
  // What people can mend is said in one line; anything else is a fault of ours and shows where.
  const mendable = hasCode(error, 'INVALID_CONFIGURATION') || hasCode(error, 'STORAGE_FAILED');
  console.error(mendable ? `larder: ${error.message}${error.hint ? `\n${error.hint}` : ''}` : error);
  process.exitCode = 1;
}
