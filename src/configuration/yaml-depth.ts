import { Lexer } from 'yaml';

const OPENING: ReadonlySet<string> = new Set(['{', '[']);
const CLOSING: ReadonlySet<string> = new Set(['}', ']']);
const INDICATORS: ReadonlySet<string> = new Set(['-', '?', ':']);
const INDENTATION = /^ +$/;

/**
 * Whether things are within each other in a YAML document more than `most` levels deep, or might be, for all that its
 * tokens tell. Parsing one that is deep enough ends the process: no error is thrown where the stack is used up while an
 * expression is being compiled.
 */
export function isDeeperThan(most: number, text: string): boolean {
  let brackets = 0;
  /** Of this line: a level for each column of its indentation and each indicator is more than there can be. */
  let levels = 0;
  let isLineStart = true;
  for (const token of new Lexer().lex(text)) {
    if (OPENING.has(token)) brackets += 1;
    else if (CLOSING.has(token)) brackets = Math.max(0, brackets - 1);
    else if (token === '\n' || token === '\r\n') levels = 0;
    else if (isLineStart && INDENTATION.test(token)) levels += token.length;
    else if (brackets === 0 && INDICATORS.has(token)) levels += 1;
    isLineStart = token.endsWith('\n');
    if (brackets + levels > most) return true;
  }
  return false;
}
