import { UpstreamInvalid } from '../../errors.ts';
import { accessHint } from './git-host-access.ts';
import { type GitRefs, GitRefsReader } from './git-refs.ts';

const FLUSH = 0;
const LENGTH_DIGITS = 4;
const SERVICE = '# service=git-upload-pack';

/**
 * Reads the answer to `GET …/info/refs?service=git-upload-pack`: the smart HTTP protocol's list of references.
 * https://git-scm.com/docs/gitprotocol-http#_smart_server_response
 * @throws UpstreamInvalid when it is something else: a web page, or a repository served as plain files
 */
export function parseAdvertisement(bytes: Buffer, host: string): GitRefs {
  const nonsense = (what: string) =>
    new UpstreamInvalid(host, `answered ${what} where a git repository was asked for`, {
      hint: `Some hosts answer so to whoever shows no credentials. ${accessHint(host, 'token')}`,
    });
  const lines = packetLines(bytes);
  const first = lines.next();
  if (first.done || first.value.trimEnd() !== SERVICE) {
    throw nonsense(/^\s*</.test(bytes.toString('latin1', 0, 100)) ? 'a web page' : 'something else');
  }
  const reader = new GitRefsReader();
  let defaultBranch: string | undefined;
  for (const line of lines) {
    if (line.startsWith('ERR ')) throw nonsense('an error');
    const [reference = '', capabilities = ''] = line.split('\0');
    defaultBranch ??= / symref=HEAD:(\S+)/.exec(` ${capabilities.trimEnd()}`)?.[1];
    const space = reference.indexOf(' ');
    reader.add(reference.slice(space + 1).trimEnd(), reference.slice(0, space));
  }
  return reader.finish(defaultBranch);

  /** Each begins with its own length in hex, these four digits included. */
  function* packetLines(all: Buffer): Generator<string, void> {
    for (let at = 0; at < all.length; ) {
      const digits = all.toString('latin1', at, at + LENGTH_DIGITS);
      const length = /^[0-9a-f]{4}$/i.test(digits) ? Number.parseInt(digits, 16) : Number.NaN;
      if (length === FLUSH) {
        at += LENGTH_DIGITS;
        continue;
      }
      if (!(length >= LENGTH_DIGITS && at + length <= all.length)) {
        // Nothing of the protocol at all reads better as what it is.
        if (at === 0) return;
        throw nonsense('a list of references that is damaged');
      }
      yield all.toString('utf8', at + LENGTH_DIGITS, at + length);
      at += length;
    }
  }
}
