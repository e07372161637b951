# SPDX-License-Identifier: Apache-2.0
"""The style sheet of the page: light and dark mode, print, phones."""

from __future__ import annotations

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1d2329; --muted: #57616b; --rule: #dde2e7; --band: #eaeef2; --soft: #f5f7f9;
  --link: #0b5ea8; --better: #00796b; --worse: #c2410c; --equal: #57616b; --open: #57616b; --doubt: #8a5a00;
  --arm-0: #535b61; --arm-1: #18579c; --arm-2: #ae448b; --arm-3: #9c4d00;
  --arm-4: #157bb4; --arm-5: #6751c9; --arm-6: #3d8023; --arm-7: #8b5a3f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14181c; --ink: #e4e8ec; --muted: #a3adb7; --rule: #333b44; --band: #262d34; --soft: #1b2026;
    --link: #7cc0f5; --better: #4fc4ad; --worse: #ff9461; --equal: #a3adb7; --open: #a3adb7; --doubt: #e0b64a;
    --arm-0: #a4acab; --arm-1: #64b6f4; --arm-2: #e58bca; --arm-3: #e3b94c;
    --arm-4: #9bd8ff; --arm-5: #8d89ed; --arm-6: #91cf74; --arm-7: #c19473;
  }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --ink: #000000; --muted: #444444; --rule: #cccccc; --band: #e8e8e8; --soft: #ffffff;
    --link: #000000; --better: #00695c; --worse: #a83608; --equal: #444444; --open: #444444; --doubt: #5c3d00;
    --arm-0: #535b61; --arm-1: #18579c; --arm-2: #ae448b; --arm-3: #9c4d00;
    --arm-4: #157bb4; --arm-5: #6751c9; --arm-6: #3d8023; --arm-7: #8b5a3f;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; scroll-padding-top: 3.5rem; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", Arial, sans-serif;
}
body > * { max-width: 60rem; margin-inline: auto; padding-inline: 1.25rem; }
a { color: var(--link); text-underline-offset: 2px; }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; border-radius: 3px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: .5rem; background: var(--paper); padding: .4rem .8rem; z-index: 5; }
header { padding-top: 2.2rem; }
.title { color: var(--muted); font-size: 1rem; font-weight: 500; margin: 0 0 .6rem; overflow-wrap: anywhere; }
.answer { font-size: 1.45rem; line-height: 1.35; font-weight: 600; margin: 0 0 .7rem; overflow-wrap: anywhere;
  text-wrap: pretty; letter-spacing: -.006em; }
.scope { color: var(--muted); margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.8rem 0 .8rem; padding-top: 1rem;
  border-top: 1px solid var(--rule); }
h3 { font-size: 1.02rem; margin: 2rem 0 .4rem; overflow-wrap: anywhere; }
h3 .role { font-weight: 400; color: var(--muted); }
h4 { font-size: .95rem; margin: 1.2rem 0 .3rem; }
p, li, dd, figcaption, summary { overflow-wrap: anywhere; }
p { margin: .4rem 0; max-width: 46rem; }
ul { margin: .4rem 0; padding-left: 1.2rem; max-width: 46rem; }
li { margin: .25rem 0; }
code, pre { font: .875em/1.5 ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; }
pre { background: var(--soft); border: 1px solid var(--rule); border-radius: 6px; padding: .7rem .9rem; margin: .6rem 0;
  overflow-x: auto; }
.note { color: var(--muted); font-size: .9rem; }
nav ul { list-style: none; display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; padding: 0; margin: 1rem 0 0;
  max-width: none; font-size: .9rem; }
nav li { margin: 0; }
nav a { display: inline-block; padding: .2rem 0; }
.arms { position: sticky; top: 0; z-index: 3; background: var(--paper); border-bottom: 1px solid var(--rule);
  display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; align-items: center; padding-block: .45rem; margin-top: 1.2rem;
  font-size: .9rem; border-top: 0; border-left: 0; border-right: 0; min-width: 0; margin-inline: 0; padding-inline: 0; }
.arms legend { float: left; padding: 0; margin-right: .4rem; color: var(--muted); }
.arms label { display: inline-flex; align-items: center; gap: .4rem; cursor: pointer; font-weight: 600;
  padding: .15rem 0; max-width: 100%; overflow-wrap: anywhere; border-bottom: 3px solid; }
.arms label span { color: var(--ink); }
.arms input { width: 1.05rem; height: 1.05rem; margin: 0; accent-color: currentColor; flex: none; }
.no-script .arms { position: static; }
.no-script .arms input { display: none; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); font-size: .9rem; padding: 0 0 .4rem; }
th, td { text-align: left; vertical-align: top; padding: .36rem .9rem .36rem 0; border-bottom: 1px solid var(--rule); }
th { font-weight: 600; }
thead th { color: var(--muted); font-weight: 500; white-space: nowrap; border-bottom-color: var(--muted); }
tbody th { font-weight: 600; overflow-wrap: anywhere; min-width: 8rem; }
.about { display: block; color: var(--muted); font-weight: 400; font-size: .85em; }
td.n, th.n { text-align: right; white-space: nowrap; }
td.v { white-space: nowrap; }
td.t { overflow-wrap: anywhere; min-width: 12rem; }
th button { all: unset; cursor: pointer; color: inherit; }
th button:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
th button::after { content: "\\2195"; margin-left: .25em; opacity: .45; font-size: .85em; }
th[aria-sort=ascending] button::after { content: "\\2191"; opacity: 1; }
th[aria-sort=descending] button::after { content: "\\2193"; opacity: 1; }
.scroll { overflow-x: auto; max-width: 100%; margin: .5rem 0; }
.verdict { font-weight: 600; white-space: nowrap; }
.better { color: var(--better); } .worse { color: var(--worse); } .equal { color: var(--equal); }
.open { color: var(--open); }
.doubt { color: var(--doubt); font-weight: 600; }
.refuse { color: var(--worse); font-weight: 600; }
.notices { list-style: none; padding: 0; }
.notices li { padding: .45rem 0 .45rem .9rem; border-left: 3px solid var(--rule); margin: .5rem 0; }
.notices .l-better { border-left-color: var(--better); } .notices .l-worse { border-left-color: var(--worse); }
.notices .l-trade-off { border-left-color: var(--doubt); }
figure { margin: .8rem 0 1.4rem; min-width: 0; }
figure .chart { font-size: .95rem; font-weight: 600; margin: 0 0 .3rem; }
figcaption { color: var(--muted); font-size: .85rem; max-width: 46rem; }
.plot { overflow-x: auto; border-radius: 4px; }
.plot svg { display: block; max-width: 100%; height: auto; font-family: inherit; overflow: visible; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: .4rem 2rem; }
.narrow { display: none; }
.k0 { color: var(--arm-0); } .k1 { color: var(--arm-1); } .k2 { color: var(--arm-2); } .k3 { color: var(--arm-3); }
.k4 { color: var(--arm-4); } .k5 { color: var(--arm-5); } .k6 { color: var(--arm-6); } .k7 { color: var(--arm-7); }
.h0 svg .k0, .h1 svg .k1, .h2 svg .k2, .h3 svg .k3,
.h4 svg .k4, .h5 svg .k5, .h6 svg .k6, .h7 svg .k7 { display: none; }
.h0 tr.r0, .h1 tr.r1, .h2 tr.r2, .h3 tr.r3, .h4 tr.r4, .h5 tr.r5, .h6 tr.r6, .h7 tr.r7 { display: none; }
.m.on { stroke: var(--ink); stroke-width: 2px; }
details { margin: .4rem 0; }
summary { cursor: pointer; color: var(--link); font-size: .88rem; padding: .25rem 0; width: fit-content; }
dl.tip { position: absolute; z-index: 4; pointer-events: none; margin: 0; background: var(--ink); color: var(--paper);
  border-radius: 5px; padding: .4rem .65rem; font-size: .82rem; line-height: 1.4; max-width: 20rem;
  display: grid; grid-template-columns: auto 1fr; gap: 0 .7rem; font-variant-numeric: tabular-nums; }
dl.tip[hidden] { display: none; }
dl.tip dt { opacity: .75; } dl.tip dd { margin: 0; }
.only-heard { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
footer { color: var(--muted); font-size: .88rem; padding-bottom: 3rem; margin-top: 2rem; }
@media (max-width: 40rem) {
  body { font-size: 15px; }
  body > * { padding-inline: 1rem; }
  header { padding-top: 1.2rem; }
  .answer { font-size: 1.22rem; }
  .wide { display: none; }
  .narrow { display: block; }
  .stack thead { display: none; }
  .stack, .stack caption, .stack tbody, .stack tr { display: block; width: 100%; }
  .stack tr { border-bottom: 1px solid var(--rule); padding: .6rem 0; }
  .stack th, .stack td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: .1rem 0;
    text-align: right; white-space: normal; overflow-wrap: anywhere; min-width: 0; }
  .stack th[scope=row] { justify-content: flex-start; text-align: left; }
  .stack td::before { content: attr(data-h); color: var(--muted); text-align: left; flex: none; }
  .stack td.t { text-align: left; display: block; }
  .stack td.t::before { margin-right: .6rem; }
  .stack td:empty { display: none; }
}
@media print {
  body { font-size: 10pt; }
  body > * { max-width: none; padding-inline: 0; }
  nav, .skip, .arms input, summary, .only-heard { display: none; }
  .arms { position: static; }
  figure, tr, li { break-inside: avoid; }
  h2, h3, h4, .chart { break-after: avoid; }
  th button::after { content: none; }
}
@media (prefers-reduced-motion: no-preference) { html { scroll-behavior: smooth; } }
""".strip()
