# SPDX-License-Identifier: Apache-2.0
"""The script of the HTML page: it zooms and moves a time line with wheel, mouse, keys and buttons.

Without the script the picture is static. The script creates only text nodes and SVG elements, never markup.
"""

from __future__ import annotations

TIMELINE_SCRIPT = """
'use strict';
const WIDE = 900, NAMES = 190, RIGHT = 20, LATE = 130, PRESSURE = 70, LANE = 22, AXIS = 30, TOP = 18;
const INNER = WIDE - NAMES - RIGHT;
const PRESSURES = ['var(--arm-1)', 'var(--arm-2)', 'var(--arm-3)'];

const make = (name, attributes, text) => {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const shown = (seconds, step) => seconds.toFixed(Math.min(6, Math.max(0, Math.ceil(-Math.log10(step)))));
const named = (mark, text) => { mark.append(make('title', {}, text)); return mark; };

for (const figure of document.querySelectorAll('figure.timeline')) {
  const told = JSON.parse(figure.dataset.timeline);
  const still = figure.querySelector('.plot');
  const height = TOP + LATE + (told.pressures.length ? PRESSURE + 14 : 0) + told.lanes.length * LANE + 14 + AXIS;
  const least = Math.max((told.end - told.begin) / 1e6, 1e-3);
  let from = told.begin, to = told.end;
  const picture = make('svg', { viewBox: '0 0 ' + WIDE + ' ' + height, width: WIDE, role: 'img', tabindex: 0 });
  picture.setAttribute('aria-label', 'time line; plus and minus zoom, arrows move, 0 shows all');
  const said = document.createElement('p');
  said.className = 'note';
  said.setAttribute('aria-live', 'polite');
  const bar = document.createElement('p');
  bar.className = 'zoom';
  const x = seconds => NAMES + (seconds - from) / (to - from) * INNER;
  const edge = seconds => Math.min(NAMES + INNER, Math.max(NAMES, x(seconds)));

  const lates = top => {
    const highest = Math.max(...told.late.map(one => one[1]), 1e-6);
    picture.append(make('text', { x: NAMES - 8, y: top + 10, 'text-anchor': 'end', 'font-size': 11,
      fill: 'var(--muted)' }, highest < 1 ? (highest * 1e3).toPrecision(3) + ' ms' : highest.toPrecision(3) + ' s'));
    picture.append(make('text', { x: NAMES - 8, y: top + LATE, 'text-anchor': 'end', 'font-size': 11,
      fill: 'var(--ink)' }, 'stutters'));
    for (const [at, took] of told.late) {
      if (at + took < from || at > to) continue;
      const wide = Math.max(1.6, edge(at + took) - edge(at)), tall = Math.max(1, took / highest * (LATE - 4));
      picture.append(named(make('rect', { x: edge(at), y: top + LATE - tall, width: wide, height: tall,
        fill: 'var(--worse)', 'class': 'late' }), 'at ' + at.toFixed(3) + ' s, ' + (took * 1e3).toFixed(1) + ' ms'));
    }
  };
  const pressures = top => {
    told.pressures.forEach((one, number) => {
      let path = '', joined = false;
      one.values.forEach((value, place) => {
        const at = told.begin + place * one.step;
        if (value === null || at + one.step < from || at > to) { joined = false; return; }
        const y = (top + PRESSURE - value * (PRESSURE - 2)).toFixed(1);
        path += (joined ? 'L' : 'M') + edge(at).toFixed(1) + ' ' + y + 'H' + edge(at + one.step).toFixed(1);
        joined = true;
      });
      picture.append(make('path', { d: path, fill: 'none', stroke: PRESSURES[number % 3],
        'stroke-width': 1.2, 'class': 'pressure' }));
      picture.append(make('text', { x: NAMES - 8, y: top + 14 + number * 18, 'text-anchor': 'end', 'font-size': 11,
        fill: PRESSURES[number % 3] }, one.name));
    });
  };
  const lanes = top => {
    told.lanes.forEach((lane, number) => {
      const y = top + number * LANE, colour = lane.named ? 'var(--worse)' : 'var(--muted)';
      picture.append(make('text', { x: NAMES - 8, y: y + 14, 'text-anchor': 'end', 'font-size': 11,
        fill: 'var(--ink)' }, lane.name));
      let begin = null, end = null, first = 0, last = 0;
      const put = () => {
        if (begin === null) return;
        picture.append(named(make('rect', { x: begin, y: y + 6, width: Math.max(1, end - begin), height: 10,
          fill: colour, 'class': 'span' }), lane.name + ', ' + first.toFixed(3) + ' to ' + last.toFixed(3) + ' s'));
      };
      for (const [one, other] of lane.spans) {
        if (other < from || one > to) continue;
        if (begin !== null && edge(one) <= end + 1) { end = Math.max(end, edge(other)); last = other; continue; }
        put();
        begin = edge(one); end = edge(other); first = one; last = other;
      }
      put();
    });
  };
  const axis = top => {
    const wanted = (to - from) / 8, power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map(one => one * power).find(one => one >= wanted);
    picture.append(make('line', { x1: NAMES, x2: NAMES + INNER, y1: top, y2: top, stroke: 'var(--muted)' }));
    for (let place = Math.ceil(from / step); place * step <= to; place++) {
      const at = x(place * step);
      picture.append(make('line', { x1: at, x2: at, y1: top, y2: top + 4, stroke: 'var(--muted)' }));
      picture.append(make('text', { x: at, y: top + 16, 'text-anchor': 'middle', 'font-size': 11,
        fill: 'var(--muted)', 'class': 'tick' }, shown(place * step, step)));
    }
    picture.append(make('text', { x: NAMES - 8, y: top + 16, 'text-anchor': 'end', 'font-size': 11,
      fill: 'var(--muted)' }, 'seconds'));
  };
  const draw = () => {
    picture.replaceChildren();
    for (const [at, name] of told.phases) {
      if (at > to) continue;
      const place = edge(at);
      if (at >= from) picture.append(make('line', { x1: place, x2: place, y1: TOP, y2: height - AXIS,
        stroke: 'var(--muted)', 'stroke-dasharray': '4 3' }));
      const where = { x: place + 3, y: 12, 'font-size': 11, fill: 'var(--muted)' };
      if (at >= from) picture.append(make('text', where, name));
    }
    let top = TOP;
    lates(top);
    top += LATE + 14;
    if (told.pressures.length) { pressures(top); top += PRESSURE + 14; }
    lanes(top);
    axis(height - AXIS);
    said.textContent = from === told.begin && to === told.end ? 'whole recording'
      : 'from ' + shown(from, (to - from) / 100) + ' to ' + shown(to, (to - from) / 100) + ' s';
  };
  const look = (begin, end) => {
    const wide = Math.min(told.end - told.begin, Math.max(least, end - begin));
    from = Math.max(told.begin, Math.min(begin + (end - begin - wide) / 2, told.end - wide));
    to = from + wide;
    draw();
  };
  const zoom = (factor, at) => look(at - (at - from) * factor, at + (to - at) * factor);
  const move = share => look(from + (to - from) * share, to + (to - from) * share);
  const middle = () => (from + to) / 2;
  const seconds = event => {
    const box = picture.getBoundingClientRect();
    const inside = ((event.clientX - box.left) / box.width * WIDE - NAMES) / INNER;
    return from + Math.min(1, Math.max(0, inside)) * (to - from);
  };
  picture.addEventListener('wheel', event => {
    event.preventDefault();
    zoom(event.deltaY < 0 ? 0.8 : 1.25, seconds(event));
  }, { passive: false });
  let held = null;
  picture.addEventListener('pointerdown', event => {
    held = seconds(event);
    picture.setPointerCapture(event.pointerId);
  });
  picture.addEventListener('pointerup', () => { held = null; });
  picture.addEventListener('pointermove', event => {
    if (held === null) return;
    const by = held - seconds(event);
    look(from + by, to + by);
  });
  picture.addEventListener('dblclick', () => look(told.begin, told.end));
  const keys = {
    '+': () => zoom(0.5, middle()), '=': () => zoom(0.5, middle()), '-': () => zoom(2, middle()),
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), '0': () => look(told.begin, told.end),
    Home: () => look(told.begin, told.begin + to - from), End: () => look(told.end - to + from, told.end),
  };
  picture.addEventListener('keydown', event => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  for (const [text, key] of [['closer', '+'], ['farther', '-'], ['earlier', 'ArrowLeft'], ['later', 'ArrowRight'],
    ['all', '0']]) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = text;
    button.addEventListener('click', keys[key]);
    bar.append(button, ' ');
  }
  still.replaceChildren(picture);
  still.after(bar, said);
  draw();
}
""".strip()
TIMELINE_STYLE = """
main > h1 { margin-top: 2.2rem; }
.zoom button { font: inherit; font-size: .88rem; color: var(--ink); background: var(--soft); cursor: pointer;
  border: 1px solid var(--rule); border-radius: 5px; padding: .1rem .6rem; }
.timeline .plot svg { touch-action: pan-y; cursor: grab; }
.timeline .plot svg:focus-visible { outline-offset: -2px; }
@media print { .zoom { display: none; } }
""".strip()
