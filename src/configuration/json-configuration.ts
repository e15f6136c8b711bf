import { type Declarations, declarationsOf } from './declarations.ts';
import { FileDiagnostics } from './file-diagnostics.ts';
import { readJson } from './json-reader.ts';
import type { Diagnostic } from './requirements.ts';

/** What one file of a configuration says, and what is wrong with it. */
export interface ConfigurationReading {
  readonly declarations: Declarations;
  readonly diagnostics: readonly Diagnostic[];
}

/**
 * Reads a configuration in JSON syntax (`*.tf.json`, `*.tofu.json`) as far as providers and modules go: HCL's JSON
 * profile, where lists may stand for objects at every level of labels and properties called `//` are comments.
 *
 * Never throws: what stands before an error in the text is read.
 */
export function readJsonConfiguration(text: string, file: string): ConfigurationReading {
  const found = new FileDiagnostics(file);
  const { root, problems, at } = readJson(text);
  for (const { severity, at: place, message } of problems) found[severity](place, message);
  const spot = { node: root ?? ({ kind: 'null', offset: 0 } as const), path: [] };
  const declarations = declarationsOf(spot, ({ node }) => at(node), found);
  return { declarations, diagnostics: found.all };
}
