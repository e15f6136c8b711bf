import { posix } from 'node:path';

/** What a file is, as far as there is something to be read in it here. */
export type FileKind = 'configuration' | 'lock' | 'list' | 'other';

/** By its name alone. */
export function kindOf(path: string): FileKind {
  const name = posix.basename(path.replaceAll('\\', '/'));
  // Values and tests go by other rules, and require nothing.
  if (/\.(tfvars|tfvars\.json|tftest\.hcl|tftest\.json|tofutest\.hcl|tofutest\.json)$/.test(name)) return 'other';
  if (/\.(tf|tofu)(\.json)?$/.test(name)) return 'configuration';
  if (name.endsWith('.lock.hcl')) return 'lock';
  return /\.(json|ya?ml|txt)$/.test(name) ? 'list' : 'other';
}

/** In words, for whoever has something else. */
export const KINDS_READ =
  '.tf, .tofu and their .json forms, .terraform.lock.hcl, and warm lists named .yaml, .json or .txt';

/** The name that says how a file without one is to be read, guessed from what is in it. */
export function nameByContent(given: string): string {
  const text = given.replace(/^\uFEFF/, '');
  if (/^\s*[{[]/.test(text)) {
    return jsonName(documentIn(text)) ?? (LIST_KEY.test(text) ? 'warm-list.json' : 'main.tf.json');
  }
  if (/^[ \t]*provider[ \t]+"[^"/\s]+(\/[^"/\s]+)+"[ \t]*\{/m.test(text)) return '.terraform.lock.hcl';
  if (
    /^[ \t]*(terraform|provider|module|resource|data|variable|output|locals|ephemeral|import|moved)\b[^\n:@/]*\{/m.test(
      text,
    )
  ) {
    return 'main.tf';
  }
  return /^(---|["']?(providers|modules|platforms)["']?[ \t]*:)/m.test(text) ? 'warm-list.yaml' : 'warm-list.txt';
}

const LIST_KEY = /^\s*\{\s*"(providers|modules|platforms)"\s*:/;

/**
 * The same of a JSON document: a warm list knows three keys, and a configuration none of them. `undefined` when it says
 * nothing at all.
 */
export function jsonName(document: unknown): 'warm-list.json' | 'main.tf.json' | undefined {
  if (Array.isArray(document)) return document.length > 0 && document.every(isObject) ? 'main.tf.json' : undefined;
  const keys = isObject(document) ? Object.keys(document).filter((key) => key !== '//') : [];
  if (keys.length === 0) return undefined;
  return keys.some((key) => /^(providers|modules|platforms)$/.test(key)) ? 'warm-list.json' : 'main.tf.json';
}

function documentIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
