import { Command } from 'commander';
import { describe, expect, it } from 'vitest';
import { COMMANDS } from '../../src/cli/commands.ts';
import { runLarder } from '../support/command.ts';

/** Half of Larder is loaded, or a process started. */
const PROCESS = { timeout: 60_000 };
const names = Object.keys(COMMANDS);

/** Those that a help text lists, in its order. */
function listed(help: string): string[] {
  const [, commands = ''] = help.split(/^Commands:\n/m);
  return [...commands.matchAll(/^ {2}([a-z]\S*)/gm)].map(([, name = '']) => name);
}

describe('the commands', () => {
  it.each(names)('%s is the name of the command that is loaded by it, and of no other', PROCESS, async (name) => {
    const program = new Command('larder');
    await COMMANDS[name]?.({ program, version: '1.2.3' });
    expect(program.commands.map((command) => command.name())).toEqual([name]);
  });

  it('are all listed by --help, in this order', PROCESS, async () => {
    const { code, stdout, stderr } = await runLarder(['--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(listed(stdout)).toEqual([...names, 'help']);
  });

  it.each(names)('%s has a help text when it alone is loaded', PROCESS, async (name) => {
    const { code, stdout, stderr } = await runLarder([name, '--help']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^Usage: larder ${name} `));
  });

  it.each(['frobnicate', 'constructor'])(
    'are not all there could be: %s is named as unknown',
    PROCESS,
    async (name) => {
      const { code, stdout, stderr } = await runLarder([name]);
      expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
      expect(stderr).toContain(`unknown command '${name}'`);
      // And what there is.
      expect(listed(stderr)).toEqual([...names, 'help']);
    },
  );
});
