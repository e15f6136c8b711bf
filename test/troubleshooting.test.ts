import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { describeWith, requirement } from './support/requirements.ts';

const ROOT = join(import.meta.dirname, '..');
const page = readFileSync(join(ROOT, 'docs/troubleshooting.md'), 'utf8');

/** Shorter pieces could be found anywhere. */
const TELLING = 8;

/** What only OpenTofu says, or what clients put together of several pieces. */
const NOT_IN_TERRAFORM = [
  'unsuccessful request to',
  'does not offer a OpenTofu provider registry',
  'incorrect response size: expected',
  'bytes, but got',
  'does not provide a modules service',
  'Bad Gateway returned from',
  'Bad Gateway returned from larder',
  'failed to request discovery document: Get',
  'is available for your current platform',
];

/** Bold quotes at the beginning of paragraphs, by the section that they are in. */
function quotesOf(section: string): string[] {
  const [, text = ''] = page.split(new RegExp(`^## ${section}$`, 'm'));
  const paragraphs = text.split(/^## /m)[0]?.split(/\n\n/) ?? [];
  const headings = paragraphs.filter((paragraph) => paragraph.startsWith('**`'));
  return headings.flatMap((paragraph) =>
    [...paragraph.matchAll(/\*\*(.+?)\*\*/gs)].flatMap(([, bold = '']) =>
      [...bold.matchAll(/`([^`]+)`/g)].map(([, quote = '']) => quote),
    ),
  );
}

/** What is the same whatever it is about. */
function fixedPieces(quote: string): string[] {
  return quote
    .split(/…|"[^"]*"|'[^']*'|\([^)]*\)|U\+\d+\w*|\d+|https?:\/\/\S+|larder\.corp\.example|resp:.*|401 Unauthorized/)
    .map((piece) => piece.replace(/^[\s:.,(]+|[\s:.,(]+$/g, ''))
    .filter((piece) => piece.length >= TELLING);
}

describeWith(['terraform'], 'messages of clients', () => {
  it('what is quoted is what Terraform says, word for word', () => {
    const program = readFileSync(requirement('terraform').path ?? '');
    const ours = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => readFileSync(join(ROOT, 'src', file), 'utf8'))
      .join('\n');
    const quotes = [...quotesOf('From the CLI'), ...quotesOf('Modules')];
    expect(quotes.length).toBeGreaterThan(40);
    const unknown = quotes
      .flatMap(fixedPieces)
      .filter((piece) => !NOT_IN_TERRAFORM.includes(piece) && !program.includes(piece) && !ours.includes(piece));
    expect(unknown).toEqual([]);
  });
});

describe('the page', () => {
  it('says of every message what to do', () => {
    for (const paragraph of page.split(/\n\n/).filter((one) => one.startsWith('**`'))) {
      const explanation = paragraph.replace(/\*\*.+?\*\*/gs, '').trim();
      expect(explanation.length, paragraph.slice(0, 80)).toBeGreaterThan(40);
    }
  });

  it('leads to places that exist', () => {
    for (const [, file = '', anchor] of page.matchAll(/\]\(([\w./-]+\.md)?(?:#([\w-]+))?\)/g)) {
      const target = file === '' ? page : readFileSync(join(ROOT, 'docs', file), 'utf8');
      if (anchor === undefined) continue;
      const anchors = [...target.matchAll(/^#+ (.+)$/gm)].map(([, title = '']) =>
        title
          .toLowerCase()
          .replace(/[^\w\s-]/g, '')
          .replace(/\s/g, '-'),
      );
      expect(anchors, `${file}#${anchor}`).toContain(anchor);
    }
  });
});
