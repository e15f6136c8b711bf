// @ts-check
// Saves reloads. Everything works without it, by the same links and forms.

const PAUSE_MS = 250;
/** Screen readers are told of progress no more often than this. */
const ANNOUNCE_MS = 5_000;
/** A drop of more files than this is a mistake. */
const MAX_FILES = 10_000;
/** Directories that hold nothing that was written by hand. */
const PASSED_OVER = /^(\.git|\.terraform|\.terragrunt-cache|node_modules)$/;
const READ = /(\.(tf|tofu)(\.json)?|\.lock\.hcl|\.(json|ya?ml|txt))$/;

/** @param {string} text */
function announce(text) {
  const news = document.getElementById('news');
  if (!news) return;
  const line = document.createElement('p');
  line.className = 'away';
  line.textContent = text;
  news.replaceChildren(line);
}

/**
 * The same parts of another page in the place of those of this one.
 * @param {string} url
 * @param {readonly string[]} ids
 * @param {{ signal?: AbortSignal }} [options]
 * @returns {Promise<boolean>} whether that page is the same one with something else in it
 */
async function swap(url, ids, { signal } = {}) {
  const answer = await fetch(url, { signal: signal ?? null, headers: { Accept: 'text/html' } });
  const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
  return answer.ok && replaceParts(page, ids);
}

/**
 * @param {Document} page
 * @param {readonly string[]} ids
 */
function replaceParts(page, ids) {
  const pairs = ids.map((id) => [document.getElementById(id), page.getElementById(id)]);
  if (!pairs.some(([here, there]) => here && there)) return false;
  const focused = document.activeElement;
  for (const [here, there] of pairs) {
    if (!here || !there) continue;
    const isWithin = here.contains(focused);
    here.replaceWith(document.adoptNode(there));
    if (isWithin) sameAs(there, focused)?.focus();
  }
  return true;
}

/**
 * What has the place of an element that was replaced: for whoever goes by the keyboard.
 * @param {Element} within
 * @param {Element | null} gone
 * @returns {HTMLElement | undefined}
 */
function sameAs(within, gone) {
  const words = (/** @type {Element} */ element) => (element.textContent ?? '').replace(/[↑↓\d,]/g, '').trim();
  const candidates = /** @type {HTMLElement[]} */ ([...within.querySelectorAll('a, button')]);
  return gone ? candidates.find((one) => words(one) === words(gone)) : undefined;
}

// Searching, sorting and paging.

let under = new AbortController();

/**
 * @param {string} url
 * @param {boolean} isStep whether the browser's way back leads through it
 */
async function show(url, isStep) {
  under.abort();
  under = new AbortController();
  try {
    if (!(await swap(url, ['found'], under))) return location.assign(url);
    if (isStep) history.pushState(null, '', url);
    seen = location.pathname + location.search;
    const found = document.querySelector('#found [data-announce]')?.textContent;
    const sorted = document.querySelector('#found [aria-sort]');
    const order = sorted
      ? ` Sorted by ${sorted.textContent?.replace(/[↑↓]/g, '').trim()}, ${sorted.getAttribute('aria-sort')}.`
      : '';
    if (found) announce(found + order);
  } catch (error) {
    if (!(error instanceof DOMException && error.name === 'AbortError')) location.assign(url);
  }
}

/** @param {HTMLFormElement} form */
function addressOf(form) {
  const url = new URL(form.action);
  for (const [name, value] of new FormData(form)) {
    if (typeof value === 'string' && value !== '' && value !== 'all') url.searchParams.set(name, value);
  }
  return url.href;
}

document.addEventListener('click', (event) => {
  const link = event.target instanceof Element ? event.target.closest('a[data-swap]') : null;
  if (!(link instanceof HTMLAnchorElement) || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  void show(link.href, true);
});

document.addEventListener('submit', (event) => {
  const form = event.target;
  if (!(form instanceof HTMLFormElement) || !form.matches('[data-swap]')) return;
  event.preventDefault();
  void show(addressOf(form), true);
});

/** @type {number | undefined} */
let typing;
document.addEventListener('input', (event) => {
  const form = event.target instanceof Element ? event.target.closest('form[data-swap]') : null;
  if (!(form instanceof HTMLFormElement)) return;
  clearTimeout(typing);
  typing = setTimeout(() => {
    const url = addressOf(form);
    history.replaceState(null, '', url);
    void show(url, false);
  }, PAUSE_MS);
});

let seen = location.pathname + location.search;
addEventListener('popstate', () => {
  // Not for steps within a page.
  const here = location.pathname + location.search;
  if (here !== seen) location.reload();
});

// What changes by itself.

/** @param {HTMLElement} part */
function keepFresh(part) {
  const seconds = Number(part.dataset['refresh']);
  const { id } = part;
  const timer = setInterval(async () => {
    const here = document.getElementById(id);
    if (!here?.dataset['refresh']) return clearInterval(timer);
    if (document.hidden || here.contains(document.activeElement)) return;
    await swap(location.href, [id]).catch(() => {});
  }, seconds * 1000);
}
for (const part of document.querySelectorAll('[data-refresh]')) if (part instanceof HTMLElement) keepFresh(part);

// A job that runs.

const STATES = /** @type {const} */ ({
  planning: ['plain', 'Planning'],
  running: ['plain', 'Running'],
  paused: ['warn', 'Paused'],
  finished: ['good', 'Finished'],
  cancelled: ['warn', 'Cancelled'],
  failed: ['bad', 'Failed'],
});
const ITEM_OUTCOMES = /** @type {const} */ ({
  stored: ['good', 'Stored'],
  present: ['good', 'Present'],
  unsupported: ['warn', 'Unsupported'],
  failed: ['bad', 'Failed'],
});
const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/**
 * @typedef {{ items: number, present: number, stored: number, unsupported: number, failed: number, waiting: number }} Totals
 * @typedef {{ state: keyof typeof STATES, reason?: string, totals: Totals, bytes: number }} Progress
 * @typedef {{ name: string, outcome?: keyof typeof ITEM_OUTCOMES, reason?: string, note?: string, bytes?: number }} Item
 */

/** @param {number} bytes */
function size(bytes) {
  let value = bytes;
  let unit = 0;
  while (value >= 1023.95 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? value : value.toFixed(1)} ${UNITS[unit]}`;
}

/** @param {readonly [string, string]} meaning */
function tag([kind, word]) {
  const element = document.createElement('span');
  element.className = `tag ${kind}`;
  element.textContent = word;
  return element;
}

const grouped = new Intl.NumberFormat('en');

/** @param {HTMLElement} job */
function follow(job) {
  const events = new EventSource(job.dataset['events'] ?? '');
  let announcedAt = Date.now();
  let isLooking = false;

  /** @param {string} name @param {(element: Element) => void} change */
  const each = (name, change) => document.querySelectorAll(`#job [data-job="${name}"]`).forEach(change);
  /** @param {string} name @param {string} text */
  const write = (name, text) =>
    each(name, (element) => {
      if (element.textContent !== text) element.textContent = text;
    });

  /** @param {Progress} progress */
  const showProgress = ({ state, reason, totals, bytes }) => {
    const done = totals.items - totals.waiting;
    each('state', (element) => element.replaceChildren(tag(STATES[state])));
    each('progress', (element) => {
      if (element instanceof HTMLProgressElement)
        Object.assign(element, { max: Math.max(1, totals.items), value: done });
    });
    write('reason', reason ?? '');
    write('done', `${grouped.format(done)} of ${grouped.format(totals.items)}`);
    write('bytes', size(bytes));
    for (const name of /** @type {const} */ (['stored', 'present', 'unsupported', 'failed'])) {
      write(name, grouped.format(totals[name]));
    }
    for (const count of document.querySelectorAll('[data-count]')) {
      const name = /** @type {keyof Totals | 'all'} */ (count.getAttribute('data-count'));
      count.textContent = grouped.format(totals[name === 'all' ? 'items' : name]);
    }
    if (Date.now() - announcedAt < ANNOUNCE_MS) return;
    announcedAt = Date.now();
    announce(`${done} of ${totals.items} done`);
  };

  /** Items that were not known when the page was made. */
  const lookAgain = () => {
    if (isLooking) return;
    isLooking = true;
    setTimeout(() => {
      isLooking = false;
      void swap(location.href, ['found']).catch(() => {});
    }, PAUSE_MS * 2);
  };

  /** @param {Item} item */
  const showItem = ({ name, outcome, reason, note, bytes }) => {
    const row = [...document.querySelectorAll('[data-item]')].find((one) => one.getAttribute('data-item') === name);
    if (!row) return lookAgain();
    /** @param {string} cell */
    const cellOf = (cell) => row.querySelector(`[data-cell="${cell}"]`);
    cellOf('outcome')?.replaceChildren(tag(outcome ? ITEM_OUTCOMES[outcome] : ['plain', 'Waiting']));
    const cells = {
      bytes: outcome === 'stored' && bytes !== undefined ? size(bytes) : '',
      reason: [reason, note].filter(Boolean).join('; '),
    };
    for (const [cell, text] of Object.entries(cells)) {
      const element = cellOf(cell);
      if (element) element.textContent = text;
    }
  };

  /** @param {string} type @param {(data: any) => void} take */
  const on = (type, take) =>
    events.addEventListener(type, (event) => take(JSON.parse(/** @type {MessageEvent} */ (event).data)));
  on('progress', showProgress);
  on('item', showItem);
  on('planned', lookAgain);
  on('end', async (/** @type {Progress} */ progress) => {
    events.close();
    showProgress(progress);
    await swap(location.href, ['job', 'found']).catch(() => {});
    const { stored, present, failed } = progress.totals;
    announce(
      `The job has ended: ${STATES[progress.state][1]}. ${stored} stored, ${present} present before, ${failed} failed.`,
    );
  });
  addEventListener('pagehide', () => events.close());
}
const job = document.querySelector('#job[data-events]');
if (job instanceof HTMLElement) follow(job);

// Files that are dropped.

/**
 * @param {FileSystemEntry} entry
 * @param {string} before
 * @param {{ path: string, file: File }[]} found
 * @returns {Promise<void>}
 */
async function walk(entry, before, found) {
  if (found.length >= MAX_FILES) return;
  const path = `${before}${entry.name}`;
  if (entry.isFile) {
    if (before !== '' && !READ.test(entry.name)) return;
    found.push({
      path,
      file: await new Promise((resolve, reject) => /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject)),
    });
    return;
  }
  if (PASSED_OVER.test(entry.name)) return;
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (entries.length === 0) return;
    for (const one of entries) await walk(one, `${path}/`, found);
  }
}

/** @param {HTMLFormElement} form */
function takeDrops(form) {
  const input = form.querySelector('input[type="file"]');
  const list = form.querySelector('[data-chosen]');
  if (!(input instanceof HTMLInputElement) || !(list instanceof HTMLElement)) return;
  /** @type {{ path: string, file: File }[]} */
  let dropped = [];

  const showChosen = () => {
    const paths =
      dropped.length > 0 ? dropped.map(({ path }) => path) : [...(input.files ?? [])].map(({ name }) => name);
    const shown = paths.slice(0, 20).concat(paths.length > 20 ? [`and ${paths.length - 20} more`] : []);
    list.replaceChildren(
      ...shown.map((path) => {
        const line = document.createElement('li');
        line.textContent = path;
        return line;
      }),
    );
    list.hidden = paths.length === 0;
    if (paths.length > 0) announce(`${paths.length === 1 ? paths[0] : `${paths.length} files`} chosen`);
  };

  for (const hint of form.querySelectorAll('[data-drop-hint]')) hint.removeAttribute('hidden');
  input.addEventListener('change', () => {
    dropped = [];
    showChosen();
  });
  form.addEventListener('dragover', (event) => {
    event.preventDefault();
    form.classList.add('over');
  });
  form.addEventListener('dragleave', (event) => {
    if (!(event.relatedTarget instanceof Node && form.contains(event.relatedTarget))) form.classList.remove('over');
  });
  form.addEventListener('drop', async (event) => {
    event.preventDefault();
    form.classList.remove('over');
    const { items, files } = event.dataTransfer ?? {};
    const entries = [...(items ?? [])].flatMap((item) => item.webkitGetAsEntry() ?? []);
    const plain = [...(files ?? [])].map((file) => ({ path: file.name, file }));
    /** @type {typeof dropped} */
    const found = [];
    for (const entry of entries) await walk(entry, '', found);
    dropped = found.length > 0 ? found : plain;
    input.value = '';
    showChosen();
    if (dropped.length === 0) announce('Nothing in it can be read');
  });
  form.addEventListener('submit', async (event) => {
    if (dropped.length === 0) return;
    event.preventDefault();
    const body = new FormData(form);
    body.delete('files');
    for (const { path, file } of dropped) body.append('files', file, path);
    const button = form.querySelector('button[type="submit"]');
    if (button instanceof HTMLButtonElement) button.disabled = true;
    try {
      const answer = await fetch(form.action, { method: 'POST', body });
      if (answer.redirected) return location.assign(answer.url);
      const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
      if (answer.ok && replaceParts(page, ['result'])) {
        announce(document.querySelector('#result [data-announce]')?.textContent ?? '');
        document.getElementById('report')?.scrollIntoView();
      } else {
        document
          .getElementById('content')
          ?.replaceWith(document.adoptNode(page.getElementById('content') ?? page.body));
        document.getElementById('content')?.focus();
      }
    } catch {
      announce('The server could not be reached');
    } finally {
      if (button instanceof HTMLButtonElement) button.disabled = false;
    }
  });
}
for (const form of document.querySelectorAll('form[data-drop]')) if (form instanceof HTMLFormElement) takeDrops(form);
