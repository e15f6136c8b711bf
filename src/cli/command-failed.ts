import { LarderError } from '../errors.ts';

/** A command could not do what it was asked for, and whoever asked can mend that. */
export class CommandFailed extends LarderError {
  readonly code = 'COMMAND_FAILED';
}
