import { TextDecoder } from 'node:util';
import { z } from 'zod';
import { Platform } from '../../address/platform.ts';
import { normalisePath } from '../../configuration/configuration-files.ts';
import { kindOf, nameByContent } from '../../configuration/file-kinds.ts';
import type { Wish } from '../../mirror/wanted.ts';
import { html, type Markup } from '../html.ts';
import { RequestError } from '../request-error.ts';
import { parsed, parseRequest } from '../request-schema.ts';
import type { Form, FormFile } from './form-request.ts';
import { hidden } from './page.ts';

const MAX_FILES = 10_000;
const MAX_PATH_LENGTH = 1_024;
const MAX_PLATFORMS = 100;

/** A form for what somebody has: files chosen or dropped, or a list that is typed. Works without script, too. */
export function bringForm({
  action,
  formToken,
  client,
  button,
  idle,
}: {
  action: string;
  formToken: string;
  /** Whose rules hold unless somebody chooses. */
  client: Wish['client'];
  button: string;
  /** What is shown while nothing is chosen. */
  idle: string;
}): Markup {
  return html`<form method="post" action="${action}" enctype="multipart/form-data" class="bring" data-drop>
${hidden('form', formToken)}
<div class="drop"><label for="files">Lock files, configuration or warm lists</label>
<input type="file" id="files" name="files" multiple aria-describedby="files-help">
<p id="files-help" class="note">.terraform.lock.hcl, .tf, .tofu and their .json forms, warm lists as .yaml, .json or .txt. <span data-drop-hint hidden>Drop files or whole directories anywhere on this form.</span></p>
<ul class="chosen" data-chosen aria-label="Chosen files" hidden></ul></div>
<details class="more"><summary>Or write a list</summary><label for="list">One address per line, with a version constraint behind @</label>
<textarea id="list" name="list" rows="4" spellcheck="false" placeholder="hashicorp/random@~> 3.6&#10;registry.opentofu.org/acme/vpc/aws@5.8.1"></textarea></details>
<div class="bar"><label class="grow">Platforms <input type="text" name="platforms" placeholder="as configured" autocomplete="off" spellcheck="false" aria-describedby="platforms-help"></label>
<label>Client <select name="client">${(['opentofu', 'terraform'] as const).map(
    (one) =>
      html`<option value="${one}"${one === client && html` selected`}>${one === 'opentofu' ? 'OpenTofu' : 'Terraform'}</option>`,
  )}</select></label>
<button type="submit" class="primary">${button}</button></div>
<p id="platforms-help" class="note">Such as linux_amd64 darwin_arm64. ${idle}</p>
</form>`;
}

const asked = z.object({
  platforms: z
    .string()
    .transform((text) => text.split(/[\s,]+/).filter(Boolean))
    .pipe(z.array(parsed(Platform.parse)).max(MAX_PLATFORMS)),
  client: z.enum(['opentofu', 'terraform']).optional(),
});

/** What somebody brought with the form. @throws RequestError when it is nothing, or nothing that can be read */
export function wishIn(form: Form, defaultClient: Wish['client']): Wish {
  const { platforms, client = defaultClient } = parseRequest(asked, {
    platforms: form.text('platforms'),
    client: form.text('client') || undefined,
  });
  const list = form.text('list').replace(/\r\n/g, '\n');
  const files = [
    ...form.files.map(wishFile),
    ...(list.trim() === '' ? [] : [{ path: nameByContent(list), text: list }]),
  ];
  if (files.length === 0) {
    throw new RequestError(400, 'INVALID_REQUEST', 'there is nothing in this: no file and no list', {
      hint: 'choose a lock file or configuration, or write a list',
    });
  }
  if (files.length > MAX_FILES) {
    throw new RequestError(400, 'INVALID_REQUEST', `these are more than ${MAX_FILES} files`, {
      hint: 'bring the directories one after another',
    });
  }
  return { files: apart(files), platforms, client };
}

function wishFile({ path, bytes }: FormFile): Wish['files'][number] {
  const name = path.replaceAll('\\', '/').replace(/^\/+/, '') || 'warm-list.txt';
  if (name.length > MAX_PATH_LENGTH || name.includes('\0')) {
    throw new RequestError(400, 'INVALID_REQUEST', 'the name of one of the files is too long, or is no path');
  }
  // Pictures and archives come along with directories; they are told of, and not read.
  if (kindOf(name) === 'other') return { path: name, text: '' };
  try {
    return { path: name, text: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes) };
  } catch {
    throw new RequestError(400, 'INVALID_REQUEST', `${name} is not UTF-8`);
  }
}

/** Browsers say only the names of files that are chosen: those of two directories may have the same. */
function apart(files: Wish['files']): Wish['files'] {
  const seen = new Map<string, number>();
  return files.map((file) => {
    const path = normalisePath(file.path);
    const times = (seen.get(path) ?? 0) + 1;
    seen.set(path, times);
    return times === 1 ? file : { ...file, path: `${times}/${path}` };
  });
}
