import type { Sha256 } from '../../address/hash.ts';
import type { InventoryEntry, ModuleInventoryEntry } from '../../mirror/inventory.ts';
import type { Pin } from '../../mirror/pins.ts';
import type { SignatureState } from '../../mirror/signature-states.ts';
import { isArchive } from '../../mirror/stored-index.ts';
import { html, type Markup } from '../html.ts';
import { itemQuery, pinForm, pinsOf, signatureTag } from './stored.ts';
import { number, size, tag, time } from './words.ts';

export interface ItemSeen {
  readonly entry: InventoryEntry | ModuleInventoryEntry;
  readonly signature: SignatureState | undefined;
  readonly pins: readonly Pin[];
  readonly formToken: string | undefined;
}

/** Its parts, whichever of the two it is. */
export function namesOf({ stored }: ItemSeen['entry']) {
  return isArchive(stored)
    ? {
        address: stored.archive.provider,
        version: stored.archive.version,
        platform: stored.archive.platform.toString(),
      }
    : { address: stored.release.module, version: stored.release.version, platform: undefined };
}

/** Everything that is known of one archive or package. */
export function itemPage({ entry, signature, pins, formToken }: ItemSeen): Markup {
  const { stored, lastUse, drift } = entry;
  const names = namesOf(entry);
  const { exact, wider } = pinsOf(names, pins);
  const own = `${names.address}@${names.version}`;
  return html`<p><a href="stored?${new URLSearchParams({ q: names.address.toString() }).toString()}">Everything of ${names.address.toString()}</a></p>
<dl class="pairs">
<dt>Version</dt><dd>${names.version.toString()}</dd>
${names.platform !== undefined && html`<dt>Platform</dt><dd>${names.platform}</dd>`}
<dt>Size</dt><dd>${size(stored.size)} (${number(stored.size)} bytes)</dd>
<dt>SHA-256</dt><dd><code>${stored.sha256}</code></dd>
${
  isArchive(stored) &&
  html`<dt>Hashes for lock files</dt><dd><code>zh:${stored.sha256}</code><br>${stored.h1 === undefined ? html`<span class="note">h1: is computed in the background</span>` : html`<code>${stored.h1}</code>`}</dd>
<dt>Signature</dt><dd>${signatureTag({ stored, signature })} ${signatureWords(signature, stored.sha256)}</dd>`
}
${
  !isArchive(stored) &&
  html`<dt>Made of</dt><dd><code>${stored.source}</code></dd>
<dt>Module within it</dt><dd>${stored.subdir === '' ? 'at its root' : html`<code>${stored.subdir}</code>`}</dd>`
}
<dt>Stored</dt><dd>${time(stored.storedAt)}</dd>
<dt>Last used</dt><dd>${time(lastUse)}</dd>
<dt>Drift</dt><dd>${
    drift
      ? html`${tag('bad', 'Drift')} Upstream now publishes <code>${drift.published}</code>; first noticed ${time(drift.noticedAt)}. What was seen first is served.`
      : 'none was noticed'
  }</dd>
<dt>Pin</dt><dd>${exact ? html`<span class="pinned">Pinned</span>` : wider ? html`<span class="pinned">Pinned</span> by <code>${wider.toString()}</code>` : 'not pinned: it may be removed to make room'} ${
    formToken !== undefined &&
    (!wider || exact) &&
    pinForm({ pin: own, isAdding: !exact, formToken, back: `item${itemQuery(names)}` })
  }</dd>
</dl>`;
}

function signatureWords(signature: SignatureState | undefined, sha256: Sha256): Markup | string {
  if (!signature) return '';
  const { state, objection } = signature;
  if (state === 'none') return 'SHA256SUMS of this version is not kept here.';
  if (state === 'unsigned') return 'Upstream does not sign SHA256SUMS of this version.';
  if (state === 'doubtful') return objection ?? 'The signature cannot be relied on.';
  return signature.lists(sha256)
    ? "One of the registry's keys signed SHA256SUMS, which names this archive."
    : 'SHA256SUMS is signed, but does not name these bytes.';
}
