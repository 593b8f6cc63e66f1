// What pages of a report gain where scripts run: tables that are sorted by their headings, and a
// search above the list of models. Everything is on the page without it.
'use strict';

const FEWEST_ROWS = 4;

const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};

/** The number in a cell; NaN for a dash. */
const numberOf = (cell) => parseFloat(cell.textContent.replace(/[^0-9.+-]/g, ''));

const compare = (column, numeric, sign) => (one, other) => {
  const [a, b] = [one, other].map((row) => row.cells[column]);
  if (!numeric) return sign * a.textContent.localeCompare(b.textContent, 'en', { numeric: true });
  const [x, y] = [numberOf(a), numberOf(b)];
  // What has no number is last, either way.
  if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
  return sign * (x - y);
};

const sortBy = (table, heading) => {
  const headings = [...table.tHead.rows[0].cells];
  const column = headings.indexOf(heading);
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const numeric = rows.some((row) => row.cells[column].classList.contains('n'));
  const before = heading.getAttribute('aria-sort');
  const descending = before === null ? numeric : before === 'ascending';
  headings.forEach((other) => other.removeAttribute('aria-sort'));
  heading.setAttribute('aria-sort', descending ? 'descending' : 'ascending');
  rows.sort(compare(column, numeric, descending ? -1 : 1));
  body.append(...rows);
};

for (const table of document.querySelectorAll('table')) {
  if (table.tBodies[0].rows.length < FEWEST_ROWS) continue;
  for (const heading of table.tHead.rows[0].cells) {
    const button = make('button', { type: 'button', title: 'Sort by this column' });
    button.append(...heading.childNodes);
    button.addEventListener('click', () => sortBy(table, heading));
    heading.append(button);
  }
}

for (const list of document.querySelectorAll('[data-filter]')) {
  const items = [...list.children];
  const kinds = [...new Set(items.map((item) => item.dataset.kind))];
  const input = make('input', { type: 'search', autocomplete: 'off' });
  const count = make('span', { className: 'quiet small', role: 'status' });
  const chosen = new Set();
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const item of items) {
      const text = item.textContent.toLowerCase();
      const fits = words.every((word) => text.includes(word));
      item.hidden = !fits || (chosen.size > 0 && !chosen.has(item.dataset.kind));
      shown += item.hidden ? 0 : 1;
    }
    count.textContent = `${shown} of ${items.length} ${list.dataset.filter}`;
  };
  const chips = kinds.map((kind) => {
    const chip = make('button', { type: 'button', className: 'chip' }, kind);
    chip.setAttribute('aria-pressed', 'false');
    chip.addEventListener('click', () => {
      chosen.has(kind) ? chosen.delete(kind) : chosen.add(kind);
      chip.setAttribute('aria-pressed', String(chosen.has(kind)));
      show();
    });
    return chip;
  });
  const label = make('label', {}, 'Search', input);
  list.before(make('div', { className: 'filter' }, label, ...(kinds.length > 1 ? chips : []), count));
  input.addEventListener('input', show);
  show();
}
