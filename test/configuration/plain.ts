import { Hostname } from '../../src/address/hostname.ts';
import { formatDiagnostic, type Requirements } from '../../src/configuration/requirements.ts';

export const DEFAULT = Hostname.parse('registry.example.test');

/** Requirements as short lines, sorted, without their origins. */
export function plain({ providers, modules }: Pick<Requirements, 'providers' | 'modules'>): string[] {
  const lines = [
    ...providers.map(({ address, constraints, locked }) => {
      const all = constraints.map(String).sort().join(', ');
      return `${address}${all && ` ${all}`}${locked ? ` =${locked.version} (${locked.hashes.length})` : ''}`;
    }),
    ...modules.map(({ address, constraint, subdir }) => {
      const version = String(constraint);
      return `module ${address}${subdir ? `//${subdir}` : ''}${version && ` ${version}`}`;
    }),
  ];
  return lines.map((line) => line.replaceAll(`${DEFAULT}/`, '')).sort();
}

export function told({ diagnostics }: Pick<Requirements, 'diagnostics'>): string[] {
  return diagnostics.map(formatDiagnostic);
}
