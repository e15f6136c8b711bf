import { type Command, Option } from 'commander';

/** Of the command line, or of the environment. */
export interface ServerOptions {
  readonly server?: string;
  readonly token?: string;
  readonly ca?: string;
}

/**
 * Lets a command work against a running server. What is given on the command line goes before the environment, where
 * empty is not set: `--config` there says that no server is meant.
 */
export function addServerOptions(command: Command): Command {
  return command
    .addOption(
      new Option('--server <url>', 'the running server to work with, unless --config is given').env('LARDER_SERVER'),
    )
    .addOption(new Option('--token <token>', 'token with the role admin').env('LARDER_TOKEN'))
    .addOption(
      new Option(
        '--ca <file>',
        "certificate authority to trust besides the usual ones (data/tls/ca.pem of the server's)",
      ).env('LARDER_CA'),
    )
    .hook('preAction', () => settleServerOptions(command));
}

function settleServerOptions(command: Command): void {
  const isOfEnvironment = (name: string) => command.getOptionValueSource(name) === 'env';
  for (const name of ['server', 'token', 'ca']) {
    if (isOfEnvironment(name) && command.getOptionValue(name) === '') command.setOptionValue(name, undefined);
  }
  if (command.getOptionValue('config') === undefined || command.getOptionValue('server') === undefined) return;
  if (isOfEnvironment('server')) command.setOptionValue('server', undefined);
  else command.error("error: option '--server <url>' cannot be used with option '-c, --config <file>'");
}
