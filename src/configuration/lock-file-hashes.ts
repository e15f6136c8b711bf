import type { Hash } from '../address/hash.ts';
import { attributeOf } from './hcl.ts';
import { HclCursor } from './hcl-cursor.ts';
import type { HclAttribute, HclBlock, HclValue } from './hcl-syntax.ts';
import type { LockFile } from './lock-file.ts';

/** A stretch of the text, and what stands there from now on. */
interface Edit {
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
}

type HclList = Extract<HclValue, { kind: 'list' }>;

/**
 * The text of a lock file with other hashes, by provider (`HOSTNAME/NAMESPACE/TYPE`). What has these very hashes
 * already is not touched, and neither is anything but the lists: every other byte stays, comments within the lists
 * too. New lists look as the CLI writes them. Items that are no hashes of a known scheme are kept.
 *
 * `lock` is what was read of this very text. Providers it does not hold are not added.
 */
export function withHashes(text: string, lock: LockFile, changes: ReadonlyMap<string, readonly Hash[]>): string {
  const cursor = new HclCursor(text);
  const lineEnd = /\r?\n/.exec(text)?.[0] ?? '\n';
  const edits = lock.entries.flatMap(({ address, hashes, block }) => {
    const wanted = changes.get(String(address));
    if (!wanted || isSame(hashes, wanted)) return [];
    return new BlockEditing(cursor, block, lineEnd).edits(wanted);
  });
  let result = '';
  let end = 0;
  for (const edit of edits.sort((a, b) => a.start - b.start)) {
    result += text.slice(end, edit.start) + edit.replacement;
    end = edit.end;
  }
  return result + text.slice(end);
}

function isSame(given: readonly Hash[], wanted: readonly Hash[]): boolean {
  const set = new Set(given);
  return wanted.every((hash) => set.has(hash)) && new Set(wanted).size === set.size;
}

class BlockEditing {
  readonly #cursor: HclCursor;
  readonly #text: string;
  readonly #block: HclBlock;
  readonly #lineEnd: string;

  constructor(cursor: HclCursor, block: HclBlock, lineEnd: string) {
    this.#cursor = cursor;
    this.#text = cursor.text;
    this.#block = block;
    this.#lineEnd = lineEnd;
  }

  edits(wanted: readonly Hash[]): Edit[] {
    const attribute = attributeOf(this.#block.body, 'hashes');
    if (!attribute) return this.#inserted(wanted);
    const { value } = attribute;
    // Whatever this is, it is the author's to mend.
    if (value.kind !== 'list') return [];
    return this.#hasComments(value) ? this.#changedItems(value, wanted) : [this.#replaced(attribute, value, wanted)];
  }

  #replaced(attribute: HclAttribute, list: HclList, wanted: readonly Hash[]): Edit {
    const foreign = list.items.map((item) => this.#written(item)).filter((written) => !isHash(written));
    const literals = [...new Set([...wanted.map((hash) => `"${hash}"`), ...foreign])];
    const start = attribute.range.start.offset;
    // A list on one line may have been aligned with its neighbours; one on several lines is not.
    const isAligned = /^hashes[ \t]*=[ \t]*$/.test(this.#text.slice(start, list.range.start.offset));
    const replacement = this.#list(literals, this.#indentationOf(start));
    if (!isAligned) return { start: list.range.start.offset, end: list.range.end.offset, replacement };
    return { start, end: list.range.end.offset, replacement: `hashes = ${replacement}` };
  }

  /** Takes single items out and puts others in, around the comments. */
  #changedItems({ items, range }: HclList, wanted: readonly Hash[]): Edit[] {
    const present = items.map((item) => ({ written: this.#written(item), range: item.range }));
    const literals = new Set(wanted.map((hash) => `"${hash}"`));
    const known = new Set(present.map(({ written }) => written));
    const kept = present.filter(({ written }) => !isHash(written) || literals.has(written));
    const edits: Edit[] = present
      .filter(({ written }) => isHash(written) && !literals.has(written))
      .flatMap(({ range: { start, end } }) => this.#removed(start.offset, end.offset));
    for (const literal of [...literals].filter((one) => !known.has(one)).sort(byBytes)) {
      const next = kept.find(({ written }) => isHash(written) && written > literal);
      const start = next?.range.start.offset ?? range.end.offset - 1;
      edits.push(next ? this.#before(start, literal) : this.#atEnd(kept.at(-1)?.range.end.offset, start, literal));
    }
    return edits;
  }

  /** With its comma and, when it stands alone on its line, with that line. */
  #removed(start: number, end: number): Edit[] {
    const comma = this.#commaBehind(end);
    if (comma !== undefined && this.#text.slice(end, comma).trim() !== '') {
      return [
        { start, end, replacement: '' },
        { start: comma, end: comma + 1, replacement: '' },
      ];
    }
    const behind = comma === undefined ? end : comma + 1;
    const lineStart = this.#lineStart(start);
    const rest = /[ \t]*\r?\n/y;
    rest.lastIndex = behind;
    const restLength = rest.exec(this.#text)?.[0].length;
    const isAlone = this.#text.slice(lineStart, start).trim() === '' && restLength !== undefined;
    return [
      isAlone
        ? { start: lineStart, end: behind + restLength, replacement: '' }
        : { start, end: behind, replacement: '' },
    ];
  }

  #before(offset: number, literal: string): Edit {
    const lead = this.#text.slice(this.#lineStart(offset), offset);
    const isAlone = lead.trim() === '';
    return { start: offset, end: offset, replacement: `${literal},${isAlone ? this.#lineEnd + lead : ' '}` };
  }

  /** Before the closing bracket, behind the last item and its comma. */
  #atEnd(lastItemEnd: number | undefined, bracket: number, literal: string): Edit {
    const lineStart = this.#lineStart(bracket);
    const lead = this.#text.slice(lineStart, bracket);
    if (lastItemEnd !== undefined && this.#commaBehind(lastItemEnd) === undefined) {
      return {
        start: lastItemEnd,
        end: lastItemEnd,
        replacement: `,${this.#lineEnd}${this.#indentationOf(lastItemEnd)}${literal}`,
      };
    }
    if (lead.trim() !== '') return { start: bracket, end: bracket, replacement: `${literal},` };
    return { start: lineStart, end: lineStart, replacement: `${lead}  ${literal},${this.#lineEnd}` };
  }

  /** Comments and line ends may stand before it. */
  #commaBehind(offset: number): number | undefined {
    const cursor = this.#cursor;
    cursor.offset = offset;
    cursor.skipLines();
    return cursor.next === ',' ? cursor.offset : undefined;
  }

  /** A list where there was none: behind the last argument. */
  #inserted(wanted: readonly Hash[]): Edit[] {
    const last = this.#block.body.at(-1);
    if (wanted.length === 0 || !last) return [];
    const { bodyRange, range } = this.#block;
    const outer = this.#indentationOf(range.start.offset);
    const indentation =
      bodyRange.start.line === last.range.start.line ? `${outer}  ` : this.#indentationOf(last.range.start.offset);
    const list = `${indentation}hashes = ${this.#list([...new Set(wanted.map((hash) => `"${hash}"`))], indentation)}`;
    const end = last.range.end.offset;
    if (bodyRange.end.line > last.range.end.line) {
      const at = this.#lineEndAfter(end);
      return [{ start: at, end: at, replacement: this.#lineEnd + list }];
    }
    // The closing brace stands on the line of the last argument.
    const edits = [
      { start: end, end: bodyRange.end.offset, replacement: `${this.#lineEnd}${list}${this.#lineEnd}${outer}` },
    ];
    if (bodyRange.start.line === last.range.start.line) {
      const first = this.#block.body[0]?.range.start.offset ?? end;
      edits.unshift({ start: bodyRange.start.offset, end: first, replacement: this.#lineEnd + indentation });
    }
    return edits;
  }

  /** As the CLI writes them: one a line, sorted by bytes, a comma behind each. */
  #list(literals: readonly string[], indentation: string): string {
    if (literals.length === 0) return '[]';
    const lines = [...literals].sort(byBytes).map((literal) => `${indentation}  ${literal},${this.#lineEnd}`);
    return `[${this.#lineEnd}${lines.join('')}${indentation}]`;
  }

  /** Whether anything but blanks and commas stands between the items. */
  #hasComments({ items, range }: HclList): boolean {
    let offset = range.start.offset + 1;
    for (const end of [
      ...items.map((item) => item.range),
      { start: { offset: range.end.offset - 1 }, end: range.end },
    ]) {
      if (/[^\s,]/.test(this.#text.slice(offset, end.start.offset))) return true;
      offset = end.end.offset;
    }
    return false;
  }

  #written({ range }: HclValue): string {
    return this.#text.slice(range.start.offset, range.end.offset);
  }

  #lineStart(offset: number): number {
    return offset === 0 ? 0 : this.#text.lastIndexOf('\n', offset - 1) + 1;
  }

  #lineEndAfter(offset: number): number {
    const cursor = this.#cursor;
    cursor.offset = offset;
    cursor.skipBlanks();
    const at = this.#text.slice(cursor.offset).search(/\r?\n|$/);
    return cursor.offset + at;
  }

  #indentationOf(offset: number): string {
    return /^[ \t]*/.exec(this.#text.slice(this.#lineStart(offset)))?.[0] ?? '';
  }
}

/** The schemes whose hashes are given; others are nobody's business here. */
function isHash(written: string): boolean {
  return /^"(?:h1:[A-Za-z0-9+/]{43}=|zh:[0-9a-f]{64})"$/.test(written);
}

function byBytes(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}
