import type { Hostname } from '../address/hostname.ts';
import { tokenVariable } from './cli-snippets.ts';

/** At the doors of registries clients send the token that they have for the hostname in addresses. */
export function tokenHint(hostname: Hostname | undefined): string {
  const host = hostname?.display ?? 'HOST';
  return (
    `here clients send the token they have for the registry's own host: put the one for this mirror there, ` +
    `credentials "${host}" { token = "…" } in the CLI configuration, or the variable ` +
    `${hostname ? tokenVariable(hostname.toString()) : 'TF_TOKEN_… named for it'}`
  );
}
