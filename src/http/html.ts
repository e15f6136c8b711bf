/** Markup that may go into a page as it is. Only `html` makes it. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** What may stand in a template: text is escaped, markup and lists of it are not, `undefined` and `false` are nothing. */
export type HtmlValue = string | number | Markup | readonly Markup[] | undefined | false;

/** A piece of HTML in which every value is escaped, for element content and for quoted attributes. */
export function html(strings: TemplateStringsArray, ...values: readonly HtmlValue[]): Markup {
  return new Markup(strings.map((text, index) => text + render(values[index])).join(''));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

function render(value: HtmlValue): string {
  if (value === undefined || value === false) return '';
  if (value instanceof Markup) return value.text;
  if (typeof value === 'object') return value.map((item) => item.text).join('');
  return String(value).replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}
