import { LarderError } from '../errors.ts';

/** A command could not do what it was asked for, and whoever asked can mend that. */
export class CommandFailed extends LarderError {
  readonly code = 'COMMAND_FAILED';
}

/** A server could not be reached, or the connection to it broke off: it may be there again the next moment. */
export class ConnectionLost extends CommandFailed {}
