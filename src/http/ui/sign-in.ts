import { html, type Markup } from '../html.ts';
import { hidden } from './page.ts';

/** Where somebody shows a token, or learns how to make one. */
export function signInPage({
  hasOperators,
  wanted,
  problem,
  hasEnded,
}: {
  /** Whether there is any token that could be shown here. */
  hasOperators: boolean;
  /** The page that they came for. */
  wanted: string;
  problem?: string | undefined;
  hasEnded?: boolean;
}): Markup {
  if (!hasOperators) return withoutOperators();
  return html`${hasEnded === true && problem === undefined && html`<p class="notice">You were signed out: it was too long ago, or the token is another one now.</p>`}
<form method="post" action="sign-in" class="sign-in">
${problem !== undefined && html`<p class="notice bad" role="alert" id="problem">${problem}</p>`}
${hidden('to', wanted)}
<label for="token">Token of an operator</label>
<input type="password" id="token" name="token" required autofocus autocomplete="current-password" aria-describedby="token-help${problem !== undefined && ' problem'}"${problem !== undefined && html` aria-invalid="true"`}>
<p id="token-help" class="note">One of <code>access.tokens</code> that has the role <code>admin</code>, or what <code>LARDER_ADMIN_TOKEN</code> holds.</p>
<button type="submit" class="primary">Sign in</button>
</form>`;
}

function withoutOperators(): Markup {
  return html`<p class="notice warn">Nobody can sign in yet: no token has the role <code>admin</code>.</p>
<p>Give the server one, and start it again. Either by a variable:</p>
<pre role="group" aria-label="Shell"><code>export LARDER_ADMIN_TOKEN="$(openssl rand -hex 32)"
echo "$LARDER_ADMIN_TOKEN"    # with this you sign in
larder serve    # or: npm start</code></pre>
<p>or in the configuration, with the token in a file that only the server reads:</p>
<pre role="group" aria-label="Configuration"><code>access:
  tokens:
    - { name: ops, tokenFile: /run/secrets/ops, roles: [read, admin] }</code></pre>`;
}
