"""How the pages look: light and dark, one column on a phone, plain on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --ground: #fbfaf7; --card: #ffffff; --ink: #22262b; --soft: #626a73; --line: #dedcd5;
  --accent: #2458a6; --right: #2f8052; --wrong: #bd3b2e; --open: #b9b4a7; --note: #fdf3d8;
  --wrong-tint: #fbe6e2; --part-tint: #fdf3d8; --head: #f1efe9;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #15181b; --card: #1d2125; --ink: #e5e4e0; --soft: #9ea5ac; --line: #353b41;
    --accent: #8ab4f2; --right: #63bd88; --wrong: #f08778; --open: #5d6269; --note: #3a3116;
    --wrong-tint: #47231f; --part-tint: #3a3116; --head: #262b30;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
}
main { max-width: 74rem; margin: 0 auto; padding: 1.5rem 1.25rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .25rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .3rem 0; max-width: 46rem; }
a { color: var(--accent); }
.soft { color: var(--soft); }
.small { font-size: .85rem; }
a.small { font-size: .75rem; white-space: nowrap; }
.note { background: var(--note); border-radius: .5rem; padding: .6rem .9rem; margin: .8rem 0;
  overflow-wrap: anywhere; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: .6rem;
  padding: .9rem 1.1rem; }
.next { border-left: .3rem solid var(--accent); }
.next strong { font-size: 1.1rem; }
.cluster { margin: .8rem 0; }
.cluster h3 { margin: 0 0 .4rem; }
.cluster details { border-bottom: 0; }
.answers { width: auto; margin: .4rem 0; }
.answers code { background: none; white-space: pre-wrap; }
.side-by-side { display: grid; gap: 0 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(22rem, 100%), 1fr)); }
.side-by-side p { margin: 0; } .side-by-side div { min-width: 0; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(8rem, 1fr)); gap: .8rem;
  margin: 1rem 0; }
.figures b { display: block; font-size: 1.6rem; line-height: 1.2;
  font-variant-numeric: tabular-nums; }
.columns { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(30rem, 100%), 1fr));
  gap: 0 2rem; align-items: start; }
code, pre { font: .86em/1.45 ui-monospace, "SF Mono", Menlo, Consolas, monospace; }
code { background: var(--head); border-radius: .25rem; padding: .1em .35em;
  overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; margin: .4rem 0 .8rem; padding: .6rem .8rem;
  background: var(--head); border-radius: .4rem; max-height: 30rem; overflow-y: auto; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead th { font-weight: 600; font-size: .85rem; color: var(--soft); vertical-align: bottom; }
.n { text-align: right; white-space: nowrap; }
thead .n { white-space: normal; }
.bar { display: block; width: 100%; min-width: 5rem; height: .65rem; border-radius: .3rem;
  background: var(--line); align-self: center; }
.bar .right { fill: var(--right); } .bar .wrong { fill: var(--wrong); }
.bar .open { fill: var(--open); }
td.wide { width: 40%; vertical-align: middle; }
.chart { width: 100%; height: auto; display: block; }
.chart rect { fill: var(--accent); }
.chart text { fill: var(--soft); font-size: 11px; text-anchor: middle; }
.chart .count { fill: var(--ink); } .chart line { stroke: var(--line); }
details { border-bottom: 1px solid var(--line); }
summary { cursor: pointer; padding: .4rem 0; overflow-wrap: anywhere; }
.kind { color: var(--wrong); font-size: .85rem; white-space: nowrap; margin-left: .4rem; }
.kind.open { color: var(--soft); }
.filters { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; margin: .6rem 0; }
.filters label { display: grid; font-size: .8rem; color: var(--soft); gap: .15rem; }
input, select, button { font: inherit; color: inherit; background: var(--card);
  border: 1px solid var(--line); border-radius: .4rem; padding: .35rem .6rem; max-width: 100%; }
button { cursor: pointer; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.plain { border: 0; background: none; padding: 0; color: var(--accent); text-align: left;
  text-decoration: underline; overflow-wrap: anywhere; }
.everyone .scroll { max-height: 92vh; overflow: auto; }
.class { font-size: .86rem; border-collapse: separate; border-spacing: 0; }
.class td, .class th { padding: .3rem .4rem; }
.class thead th { position: sticky; top: 0; background: var(--ground); z-index: 1; }
.class thead th:first-child { left: 0; z-index: 2; }
.class th button { border: 0; background: none; padding: 0; font-weight: 600; color: inherit;
  text-align: left; }
.class th.problem button { writing-mode: vertical-rl; transform: rotate(180deg); max-height: 11rem;
  line-height: 1.15; }
.class th[aria-sort] button { color: var(--accent); }
.class th[aria-sort=ascending] button::after { content: " \\2191"; }
.class th[aria-sort=descending] button::after { content: " \\2193"; }
.class th.problem[aria-sort=ascending] button::after { content: " \\2192"; }
.class th.problem[aria-sort=descending] button::after { content: " \\2190"; }
.class tbody th { font-weight: 500; position: sticky; left: 0; background: var(--ground);
  min-width: 8.5rem; max-width: 16rem; overflow-wrap: anywhere; }
.class td.part { background: var(--part-tint); } .class td.none { background: var(--wrong-tint); }
.class td.full { color: var(--soft); }
.class td.remark { min-width: 9rem; max-width: 24rem; overflow-wrap: anywhere; }
.class tbody tr:hover > * { background: var(--head); }
[hidden] { display: none !important; }
@media (max-width: 40rem) {
  main { padding: 1rem .8rem 3rem; }
  h1 { font-size: 1.35rem; }
  td.wide { width: 25%; }
  .filters label, .filters input, .filters select { width: 100%; }
  .class tbody th { min-width: 7rem; max-width: 9rem; }
  .drop { display: none; }
}
@media print {
  :root { --ground: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #bbb; --head: #f4f4f4; }
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  .filters, .screen { display: none; }
  .scroll, .everyone .scroll { overflow: visible; max-height: none; }
  .class { font-size: 7pt; }
  .class td.remark, .class tbody th { min-width: 0; }
  .class thead th, .class tbody th { position: static; }
  pre { max-height: none; }
  tr, .card, summary { break-inside: avoid; }
  h2, h3, summary { break-after: avoid; }
  svg, td { print-color-adjust: exact; }
  details::details-content { content-visibility: visible; display: block; height: auto; }
}
"""
