import type { ProviderArchive } from '../address/archive.ts';
import type { ModuleAddress } from '../address/module.ts';
import type { ProviderAddress } from '../address/provider.ts';
import type { Version } from '../address/version.ts';
import { UpstreamUnreachable } from '../errors.ts';
import type { Upstream } from '../upstream/upstream.ts';

/** What somebody asks a sealed mirror for. */
export interface Wanted {
  readonly address: ProviderAddress | ModuleAddress;
  /** Absent where it is about everything of the address. */
  readonly version?: Version | undefined;
  /** Of providers; absent where it is about every platform. */
  readonly platform?: { toString(): string } | undefined;
  /** What it is of that, where it is not the thing itself: `SHA256SUMS`. */
  readonly part?: string | undefined;
}

export function wantedArchive({ provider, version, platform }: ProviderArchive): Wanted {
  return { address: provider, version, platform };
}

/** A sealed mirror does not have it: which it is, and how it is brought in. */
export function notStored({ hostname, partition }: Upstream, wanted: Wanted): UpstreamUnreachable {
  const host = hostname.toString();
  const { address, version, platform, part } = wanted;
  const item = [address, version, platform].filter((one) => one !== undefined).join(' ');
  const named = part === undefined ? item : `${part} of ${item}`;
  if (partition !== undefined) {
    return new UpstreamUnreachable(
      host,
      'sealed',
      `is not asked because this mirror is sealed, and nobody else can say who may have ${named}`,
      { hint: 'what is asked for with the tokens of clients is not to be had before: larder seal --off' },
    );
  }
  return new UpstreamUnreachable(
    host,
    'sealed',
    `is not asked because this mirror is sealed, and ${named} is not stored`,
    {
      hint: howToBring(wanted),
    },
  );
}

/** It was on its way when the mirror was sealed. */
export function sealedOff(
  address: ProviderAddress | ModuleAddress,
  version: Version,
  platform?: Wanted['platform'],
): UpstreamUnreachable {
  const wanted = { address, version, platform };
  const item = [address, version, platform].filter((one) => one !== undefined).join(' ');
  return new UpstreamUnreachable(
    address.hostname.toString(),
    'sealed',
    `is not asked any more: this mirror was sealed while ${item} was on its way, and it is not stored`,
    { hint: howToBring(wanted) },
  );
}

/** As it can be pasted. */
export function warmCommand({ address, version, platform }: Wanted): string {
  const line = version === undefined ? String(address) : `${address}@${version}`;
  const options = platform === undefined ? '' : ` --platform ${platform}`;
  return `echo '${line}' | larder warm - --stdin-name list.txt${options}`;
}

function howToBring(wanted: Wanted): string {
  return `bring it in before sealing (${warmCommand(wanted)}), or from elsewhere with larder import`;
}

/** What is only ever passed on cannot be had at all. */
export function notPassedOn(host: string, path: string): UpstreamUnreachable {
  return new UpstreamUnreachable(
    host,
    'sealed',
    `is not asked for ${path} because this mirror is sealed, and what is passed on is never stored`,
    { hint: 'only providers and modules are to be had of a sealed mirror; larder seal --off opens it' },
  );
}
