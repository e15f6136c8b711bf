import type { Seal } from '../../mirror/seal.ts';
import { html, type Markup } from '../html.ts';
import { hidden } from './page.ts';
import { counted } from './words.ts';

/** That others may still do as before, where they could not be told. */
export function unsharedNotice({ sealed, unshared }: ReturnType<Seal['state']>): Markup | undefined {
  if (!unshared) return undefined;
  return html`<p class="notice warn">This replica is ${sealed ? 'sealed' : 'open'}, but <strong>others may not be</strong>: the metadata store could not be told. Those with a data directory of their own follow when it answers.</p>`;
}

/** What sealing, or opening, would mean at this moment, and the button that does it. */
export function sealPage({
  seal,
  runningJobs,
  formToken,
}: {
  seal: ReturnType<Seal['state']>;
  runningJobs: number;
  /** Without it whoever looks may not. */
  formToken: string | undefined;
}): Markup {
  if (formToken === undefined) {
    return html`<p class="notice warn">Changing the seal takes a token that is for everything; yours is for some addresses only.</p>`;
  }
  if (seal.configured) {
    return html`<p class="notice warn">The configuration seals this mirror: take <code>sealed: true</code> out of it and start Larder again.</p><p><a class="button" href="./">Back</a></p>`;
  }
  const form = (
    word: string,
  ) => html`<form method="post" action="seal" class="bar">${hidden('form', formToken)}${hidden('sealed', String(!seal.sealed))}
<button type="submit" class="primary">${word}</button> <a class="button" href="./">Leave it as it is</a></form>`;
  if (seal.sealed) {
    return html`${unsharedNotice(seal)}<ul><li>Upstreams are asked again for what is missing or out of date.</li><li>Jobs that wait go on.</li></ul>${form('Open this mirror')}`;
  }
  return html`${unsharedNotice(seal)}<ul>
<li>Nothing leaves any more, on any replica that can be told, within seconds: downloads that are under way are broken off. If the metadata store does not answer, the next page says so.</li>
<li>Clients get what is stored. On everything else <code>init</code> fails, and is told what is missing.</li>
<li>Nothing is removed to make room while it is sealed.</li>
${runningJobs > 0 && html`<li><strong>${counted(runningJobs, 'job')} would stop</strong> until it is opened again.</li>`}
</ul>
<p><a href="gaps">See first what would be missing</a></p>
${form('Seal this mirror')}`;
}
