# SPDX-License-Identifier: Apache-2.0
"""The script of the page: it sorts tables, hides arms, and shows the table row of the mark under the pointer.

The page shows the same facts without the script. The script creates only text nodes, never markup.
"""

from __future__ import annotations

SCRIPT = """
'use strict';
const body = document.body;
body.classList.remove('no-script');

for (const box of document.querySelectorAll('.arms input')) {
  box.addEventListener('change', () => body.classList.toggle('h' + box.value, !box.checked));
  body.classList.toggle('h' + box.value, !box.checked);
}

const number = text => {
  const found = parseFloat(text.replace(/[\\u2212]/g, '-').replace(/^[<\\u00d7+]\\s*/, '').replace(/,/g, ''));
  return Number.isNaN(found) ? -Infinity : found;
};
const said = document.getElementById('said');

for (const table of document.querySelectorAll('table.sort')) {
  table.querySelectorAll('thead th').forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener('click', () => {
      const down = head.getAttribute('aria-sort') === 'ascending';
      for (const other of head.parentNode.children) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const of = row => row.children[column].textContent;
      const numeric = head.classList.contains('n');
      const rows = [...table.tBodies[0].rows];
      rows.sort((one, two) => numeric ? number(of(one)) - number(of(two)) : of(one).localeCompare(of(two)));
      table.tBodies[0].append(...(down ? rows.reverse() : rows));
      said.textContent = 'sorted by ' + button.textContent + (down ? ', descending' : ', ascending');
    });
  });
}

const tip = document.createElement('dl');
tip.className = 'tip';
tip.hidden = true;
body.append(tip);
let lit = null;

const hide = () => {
  if (lit) lit.classList.remove('on');
  lit = null;
  tip.hidden = true;
};

const show = (mark, head, row, aloud) => {
  hide();
  lit = mark;
  mark.classList.add('on');
  tip.replaceChildren();
  [...row.cells].forEach((cell, at) => {
    const name = document.createElement('dt');
    const value = document.createElement('dd');
    name.textContent = head[at];
    value.textContent = cell.textContent;
    tip.append(name, value);
  });
  tip.hidden = false;
  const place = mark.getBoundingClientRect();
  const own = tip.getBoundingClientRect();
  const left = Math.min(Math.max(8, place.left + place.width / 2 - own.width / 2), innerWidth - own.width - 8);
  const above = place.top - own.height - 10;
  tip.style.left = left + scrollX + 'px';
  tip.style.top = (above > 8 ? above : place.bottom + 10) + scrollY + 'px';
  if (aloud) said.textContent = [...row.cells].map((cell, at) => head[at] + ' ' + cell.textContent).join(', ');
};

for (const figure of document.querySelectorAll('figure.marks')) {
  const table = figure.querySelector('table');
  const head = [...table.tHead.rows[0].cells].map(cell => cell.textContent);
  const rows = [...table.tBodies[0].rows];
  for (const plot of figure.querySelectorAll('.plot')) {
    const marks = [...plot.querySelectorAll('.m')];
    const seen = at => marks[at].getClientRects().length > 0;
    let at = -1;
    const nearest = event => {
      let best = -1, least = 24 * 24;
      marks.forEach((mark, number) => {
        const box = mark.getBoundingClientRect();
        if (!box.width && !box.height) return;
        const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
        const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
        const far = x * x + y * y;
        if (far < least) { least = far; best = number; }
      });
      return best;
    };
    const point = event => {
      at = nearest(event);
      if (at < 0) hide(); else show(marks[at], head, rows[at], false);
    };
    plot.addEventListener('pointermove', point);
    plot.addEventListener('pointerdown', point);
    plot.addEventListener('pointerleave', hide);
    plot.addEventListener('blur', hide);
    plot.tabIndex = 0;
    plot.addEventListener('keydown', event => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === 'Escape') hide();
      else if (event.key === 'Home') at = -1;
      if (!step && event.key !== 'Home') return;
      event.preventDefault();
      for (let tried = 0; tried < marks.length; tried++) {
        at = (at + (step || 1) + marks.length) % marks.length;
        if (seen(at)) { show(marks[at], head, rows[at], true); break; }
      }
    });
  }
}

const reveal = () => {
  const wanted = document.getElementById(location.hash.slice(1));
  if (wanted && wanted.tagName === 'DETAILS') wanted.open = true;
};
addEventListener('hashchange', reveal);
reveal();

addEventListener('beforeprint', () => {
  for (const one of document.querySelectorAll('details.small')) one.open = true;
});
""".strip()
