import type { HclCursor } from './hcl-cursor.ts';
import { HclFault, type HclString } from './hcl-syntax.ts';

const ESCAPES: Readonly<Record<string, string>> = { n: '\n', r: '\r', t: '\t', '"': '"', '\\': '\\' };
const CODE_POINT = /u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})/y;
/** Nothing special in it. */
const PLAIN = /[^"\\$%\r\n]+/y;
const HEREDOC = /<<(-?)([\p{ID_Start}_][\p{ID_Continue}-]*)\r?\n/uy;
const TEMPLATE = /[$%]\{/;

/** `"…"`, on one line. The cursor stands at the opening quote. */
export function readQuoted(cursor: HclCursor): HclString {
  const start = cursor.offset;
  cursor.offset += 1;
  let value = '';
  let isTemplate = false;
  while (!cursor.take('"')) {
    const plain = cursor.match(PLAIN)?.[0];
    if (plain !== undefined) {
      value += plain;
    } else if (cursor.take('$${') || cursor.take('%%{')) {
      value += cursor.text.slice(cursor.offset - 2, cursor.offset);
    } else if (cursor.looksAt('${') || cursor.looksAt('%{')) {
      isTemplate = true;
      value += readTemplate(cursor);
    } else if (cursor.take('\\')) {
      value += readEscape(cursor);
    } else if (cursor.isAtEnd || cursor.next === '\n' || cursor.next === '\r') {
      throw new HclFault('the text that begins here is not closed on its line', start);
    } else {
      value += cursor.next;
      cursor.offset += 1;
    }
  }
  return { kind: 'string', value, isTemplate, range: cursor.rangeFrom(start) };
}

/** `<<EOT` and `<<-EOT`, the latter without the indentation that all lines share. `undefined` when there is none here. */
export function readHeredoc(cursor: HclCursor): HclString | undefined {
  const start = cursor.offset;
  const [, dash, marker] = cursor.match(HEREDOC) ?? [];
  if (marker === undefined) return undefined;
  const bodyStart = cursor.offset;
  const found = lineOf(marker, cursor.text, bodyStart);
  if (!found) throw new HclFault('the text that begins here is not ended by its marker', start);
  cursor.offset = found.end;
  const lines =
    cursor.text
      .slice(bodyStart, found.start)
      .match(/[^\n]*\n/g)
      ?.map((line) => line.replace(/\r\n$/, '\n')) ?? [];
  const indentations = lines.filter((line) => line.trim() !== '').map((line) => /^[ \t]*/.exec(line)?.[0].length ?? 0);
  const indentation = dash === '-' ? indentations.reduce((least, one) => Math.min(least, one), 1_000) : 0;
  const value = lines.map((line) => (line.trim() === '' ? '\n' : line.slice(indentation))).join('');
  return {
    kind: 'string',
    value: value.replaceAll('$${', '${').replaceAll('%%{', '%{'),
    isTemplate: TEMPLATE.test(value.replaceAll('$${', '').replaceAll('%%{', '')),
    range: cursor.rangeFrom(start),
  };
}

const BLANK = /[ \t]*/y;
const BLANK_TO_END = /[ \t]*\r?(?:\n|(?![\s\S]))/y;

/**
 * The first line with nothing but the marker on it, up to the marker's end: what follows, the line end included, does
 * not belong to the text. No expression is made of the marker: compiling one that is long enough ends the process.
 */
function lineOf(marker: string, text: string, from: number): { start: number; end: number } | undefined {
  for (let start = from; ; ) {
    BLANK.lastIndex = start;
    BLANK.test(text);
    const end = BLANK.lastIndex + marker.length;
    BLANK_TO_END.lastIndex = end;
    if (text.startsWith(marker, BLANK.lastIndex) && BLANK_TO_END.test(text)) return { start, end };
    const lineEnd = text.indexOf('\n', start);
    if (lineEnd < 0) return undefined;
    start = lineEnd + 1;
  }
}

function readEscape(cursor: HclCursor): string {
  const start = cursor.offset - 1;
  const simple = ESCAPES[cursor.next];
  if (simple !== undefined) {
    cursor.offset += 1;
    return simple;
  }
  const [, short, long] = cursor.match(CODE_POINT) ?? [];
  const code = Number.parseInt(short ?? long ?? '', 16);
  // Halves of a surrogate pair and what is beyond Unicode name no character.
  if (!(code <= 0x10ffff) || (code >= 0xd800 && code <= 0xdfff)) {
    throw new HclFault('this escape is unknown; known are \\n, \\r, \\t, \\", \\\\, \\uNNNN and \\UNNNNNNNN', start);
  }
  return String.fromCodePoint(code);
}

/** As it is written, up to its closing brace. Quotes within it may hold braces. */
function readTemplate(cursor: HclCursor): string {
  const start = cursor.offset;
  cursor.offset += 2;
  let depth = 1;
  let isQuoted = false;
  while (depth > 0) {
    const { next } = cursor;
    if (next === '' || next === '\n') throw new HclFault('the template that begins here is not closed', start);
    if (isQuoted && next === '\\') cursor.offset += 1;
    else if (next === '"') isQuoted = !isQuoted;
    else if (!isQuoted && next === '{') depth += 1;
    else if (!isQuoted && next === '}') depth -= 1;
    cursor.offset += 1;
  }
  return cursor.text.slice(start, cursor.offset);
}
