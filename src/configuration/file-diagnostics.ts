import type { Diagnostic, Origin, Severity } from './requirements.ts';

/** Of one file. Whoever has so many does not read on. */
const MAX_DIAGNOSTICS = 100;

/** Gathers what is wrong with one file. */
export class FileDiagnostics {
  readonly file: string;
  readonly #found: Diagnostic[] = [];

  constructor(file: string) {
    this.file = file;
  }

  get all(): readonly Diagnostic[] {
    return this.#found;
  }

  origin(at: string | undefined): Origin {
    return { file: this.file, at };
  }

  error(at: string | undefined, message: string): void {
    this.#tell('error', at, message);
  }

  warning(at: string | undefined, message: string): void {
    this.#tell('warning', at, message);
  }

  note(at: string | undefined, message: string): void {
    this.#tell('note', at, message);
  }

  #tell(severity: Severity, at: string | undefined, message: string): void {
    if (this.#found.length > MAX_DIAGNOSTICS) return;
    const isLast = this.#found.length === MAX_DIAGNOSTICS;
    this.#found.push({
      file: this.file,
      at,
      severity: isLast ? 'error' : severity,
      message: isLast ? 'there is more wrong with this file than is told here' : message,
    });
  }
}
