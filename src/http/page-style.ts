/** The look of the pages for people: system fonts, the reader's light or dark preference, nothing from elsewhere. */
export const PAGE_STYLE = `
:root {
  color-scheme: light dark;
  --ground: #fbfaf7;
  --panel: #ffffff;
  --ink: #22211d;
  --soft: #5f5b51;
  --line: #e2ded3;
  --accent: #8a4b0f;
  --code: #f3f0e8;
  --good: #2e7d43;
  --warn: #a15c00;
  --bad: #b3261e;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #181713;
    --panel: #211f1a;
    --ink: #ece8dd;
    --soft: #aaa595;
    --line: #38352c;
    --accent: #efb26b;
    --code: #12110e;
    --good: #7ccf92;
    --warn: #f0b35a;
    --bad: #ff8a80;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0;
  background: var(--ground);
  color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif;
  overflow-wrap: break-word;
}
.wrap { max-width: 64rem; margin: 0 auto; padding: 0 1.25rem; }
main p, main ul { max-width: 46rem; }
header { border-bottom: 1px solid var(--line); background: var(--panel); }
header .wrap { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; justify-content: space-between; align-items: baseline; padding-block: .9rem; }
header p { margin: 0; }
.brand { font-weight: 700; letter-spacing: .02em; color: var(--accent); font-size: 1.15rem; }
.status { font-size: .9rem; color: var(--soft); }
.dot { display: inline-block; width: .6rem; height: .6rem; border-radius: 50%; margin-right: .5rem; background: var(--bad); }
.ready .dot { background: var(--good); }
.degraded .dot { background: var(--warn); }
h1 { font-size: clamp(1.7rem, 5vw, 2.3rem); line-height: 1.2; letter-spacing: -.015em; margin: 2.5rem 0 .5rem; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .5rem; }
.lead { font-size: 1.1rem; color: var(--soft); margin: 0; }
a { color: var(--accent); }
a:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
code { font: .9em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; }
:not(pre) > code { background: var(--code); border-radius: .25rem; padding: .1em .3em; }
pre {
  background: var(--code);
  border: 1px solid var(--line);
  border-left: 4px solid var(--accent);
  border-radius: .4rem;
  padding: 1rem 1.1rem;
  margin: 1rem 0;
  /* Nothing is hidden at the right: the slash at the end of a URL has to be seen. What does not fit goes on indented. */
  white-space: pre-wrap;
  overflow-wrap: anywhere;
  text-indent: 6ch hanging each-line;
}
pre code { -webkit-user-select: all; user-select: all; }
ul { padding-left: 1.25rem; }
li { margin: .4rem 0; }
.warning { color: var(--bad); }
.note { color: var(--soft); font-size: .9rem; }
.fingerprint { overflow-wrap: anywhere; }
footer { margin-top: 3rem; margin-bottom: 2rem; color: var(--soft); font-size: .9rem; }
footer p { border-top: 1px solid var(--line); padding-top: 1rem; }
`.trimStart();
