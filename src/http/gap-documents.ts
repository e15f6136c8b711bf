import type { MirroredAddress } from '../address/mirrored-address.ts';
import { ModuleAddress } from '../address/module.ts';
import type { Diagnostic, Origin } from '../configuration/requirements.ts';
import type { Gap, GapKind, GapReport } from '../mirror/gap-report.ts';

/** A gap, as operators read it. */
export interface GapDocument {
  readonly kind: GapKind;
  readonly address: string;
  readonly version?: string;
  readonly constraint?: string;
  readonly platforms?: readonly string[];
  readonly reason: string;
  readonly stored: readonly string[];
  readonly lockFile?: string;
  readonly wantedBy: readonly Origin[];
  /** A warm list that brings it in, as long as upstream can be reached. */
  readonly warm?: {
    readonly providers?: readonly string[];
    readonly modules?: readonly string[];
    readonly platforms?: readonly string[];
  };
}

export interface GapReportDocument {
  readonly gaps: readonly GapDocument[];
  readonly diagnostics: readonly Diagnostic[];
  readonly platforms: readonly string[];
  /** By whose rules the files were read: `opentofu` or `terraform`. */
  readonly client: string;
  /** The registry that was meant where none is named; absent when all are: then all clients read the same. */
  readonly impliedHostname?: string;
  readonly present: { readonly archives: number; readonly packages: number };
}

export function gapReportDocument(report: GapReport): GapReportDocument {
  const { gaps, diagnostics, platforms, client, impliedHostname, present } = report;
  return {
    gaps: gaps.map(gapDocument),
    diagnostics,
    platforms: platforms.map(String),
    client,
    ...(impliedHostname && { impliedHostname: impliedHostname.toString() }),
    present,
  };
}

function gapDocument(gap: Gap): GapDocument {
  const { kind, address, version, constraint, platforms, reason, stored, lockFile, wantedBy } = gap;
  const accepted = String(constraint);
  return {
    kind,
    address: written(address),
    ...(version && { version: String(version) }),
    ...(accepted !== '' && { constraint: accepted }),
    ...(platforms.length > 0 && { platforms: platforms.map(String) }),
    reason,
    stored: stored.map(String),
    ...(lockFile !== undefined && { lockFile }),
    wantedBy,
    ...(/^(archive|provider|module|altered)$/.test(kind) && { warm: warmList(gap) }),
  };
}

function warmList({ address, version, constraint, platforms }: Gap): NonNullable<GapDocument['warm']> {
  const wanted = version ? String(version) : String(constraint);
  const item = wanted === '' ? written(address) : `${written(address)}@${wanted}`;
  if (address instanceof ModuleAddress) return { modules: [item] };
  return { providers: [item], platforms: platforms.map(String) };
}

/** Registries of modules may tell upper from lower case. */
function written(address: MirroredAddress): string {
  return address instanceof ModuleAddress ? `${address.hostname}/${address.written}` : String(address);
}
