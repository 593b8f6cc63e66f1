// What a forecast consists of: coverage, kinds, parts of the model, memory, every operator.
import { flame } from '../charts/flame';
import type { Details, Operator } from '../generated/core.js';
import { h } from '../dom';
import { bytes, percent, plural, time } from '../format';
import { csv, save } from '../download';
import { nameOf } from '../label';
import { command, fileName, type Entry, type Slot } from '../state';

const FIRST_ROWS = 100;

/** What the forecast rests on, in sentences. */
export function coverage(details: Details, entry: Entry): HTMLElement {
  const { operators, trained, fallback, extrapolating, unsupported } = details.coverage;
  const adapted = entry.card.kind === 'adapted';
  const lines: [boolean, string][] = [];
  if (adapted) {
    lines.push([false, `${plural(operators, 'operator')}, by costs adapted from end-to-end latencies that others published. No operator was measured on this device.`]);
  } else {
    lines.push([trained < operators, `${trained.toLocaleString('en')} of ${plural(operators, 'kernel')} by trained predictors: ${percent(details.trainedShare, 1)} of the time.`]);
    if (fallback > 0) lines.push([true, `${plural(fallback, 'kernel')} without a predictor, estimated from FLOPs and bytes: ${details.fallbackKinds.join(', ')}.`]);
  }
  if (extrapolating > 0) lines.push([true, `${percent(details.extrapolatingShare, 1)} of the time lies outside of the training data (${plural(extrapolating, 'kernel')}): ${details.extrapolatingKinds.join(', ')}.`]);
  if (unsupported.length > 0) lines.push([true, `${plural(unsupported.length, 'operator')} not supported: ${[...new Set(unsupported.map(([, operator]) => operator))].join(', ')}.`]);
  if (details.measured !== undefined && details.measured !== null) lines.push([false, `Measured on this very model: ${time(details.measured)}.`]);
  return h('ul', { class: 'coverage' }, ...lines.map(([warns, text]) => h('li', { class: warns ? 'warns' : '' }, h('span', { class: 'sign', 'aria-hidden': 'true' }, warns ? '▲' : '✓'), h('span', {}, warns ? h('span', { class: 'hidden' }, 'Caution: ') : null, text))));
}

function kinds(details: Details): HTMLElement {
  const whole = details.latency.point || 1;
  const most = Math.max(...details.kinds.map((kind) => kind.latency), 1);
  const rows = details.kinds.map((kind) =>
    h('tr', {}, h('th', { scope: 'row' }, kind.kind), h('td', { class: 'number' }, String(kind.count)), h('td', { class: 'number' }, time(kind.latency)), h('td', { class: 'number quiet' }, percent(kind.latency / whole, 1)), h('td', { class: 'bar-cell', 'aria-hidden': 'true' }, h('span', { class: 'bar', style: { width: `${(100 * kind.latency) / most}%` } }))),
  );
  const rest = details.latency.point - details.kinds.reduce((sum, kind) => sum + kind.latency, 0);
  rows.push(h('tr', { class: 'quiet' }, h('th', { scope: 'row' }, 'calibration'), h('td', {}), h('td', { class: 'number' }, `${rest < 0 ? '−' : ''}${time(Math.abs(rest))}`), h('td', { class: 'number' }, percent(rest / whole, 1)), h('td', {})));
  return h('table', { class: 'kinds' }, h('caption', { class: 'hidden' }, 'Time by kind of kernel'), h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Kind'), h('th', { scope: 'col', class: 'number' }, 'Count'), h('th', { scope: 'col', class: 'number' }, 'Time'), h('th', { scope: 'col', class: 'number' }, 'Share'), h('td', {}))), h('tbody', {}, ...rows));
}

function memory(details: Details): HTMLElement | null {
  if (!details.memory) return null;
  const { peak, level, weights, activations, freed } = details.memory;
  const loading = freed ? `, and what loading frees and the process keeps ${bytes(freed)}` : '';
  return h('p', { class: 'memory' }, h('b', {}, bytes(peak.point)), ` of memory [${bytes(peak.lower)} – ${bytes(peak.upper)}, ${percent(level)}], with weights ${bytes(weights)} and activations ${bytes(activations)}${loading}.`);
}

type Order = 'run' | 'latency';

function operators(details: Details): HTMLElement {
  let order: Order = 'latency';
  let most = FIRST_ROWS;
  const body = h('tbody', {});
  const found = h('p', { class: 'hint', role: 'status' });
  const search = h('input', { type: 'search', id: 'operator-search', placeholder: 'Name or kind', autocomplete: 'off' });
  const more = h('button', { type: 'button', class: 'plain' }, 'Show more');
  const source = (of: Operator) => [of.trained ? '' : 'estimated', of.extrapolating ? 'outside' : ''].filter(Boolean).join(', ');
  const draw = () => {
    const text = search.value.trim().toLowerCase();
    const rows = details.operators.filter((of) => !text || of.name.toLowerCase().includes(text) || of.kind.includes(text));
    if (order === 'latency') rows.sort((a, b) => b.latency - a.latency);
    const sum = rows.reduce((total, of) => total + of.latency, 0);
    found.textContent = `${plural(rows.length, 'kernel')}, ${time(sum)} together`;
    body.replaceChildren(...rows.slice(0, most).map((of) => h('tr', {}, h('th', { scope: 'row', class: 'path' }, of.name), h('td', {}, of.kind), h('td', { class: 'number' }, time(of.latency)), h('td', { class: 'quiet' }, source(of)))));
    more.hidden = rows.length <= most;
  };
  search.addEventListener('input', () => { most = FIRST_ROWS; draw(); });
  more.addEventListener('click', () => { most *= 4; draw(); });
  const by = h('button', { type: 'button', class: 'plain' }, 'In the order of the model');
  by.addEventListener('click', () => {
    order = order === 'latency' ? 'run' : 'latency';
    by.textContent = order === 'latency' ? 'In the order of the model' : 'The slowest first';
    draw();
  });
  draw();
  return h(
    'section',
    { class: 'operators', 'aria-labelledby': 'operators-title' },
    h('h3', { id: 'operators-title' }, 'Operators'),
    h('div', { class: 'tools' }, h('label', { for: 'operator-search' }, 'Search'), search, by),
    found,
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Table of operators' }, h('table', {}, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Kernel'), h('th', { scope: 'col' }, 'Kind'), h('th', { scope: 'col', class: 'number' }, 'Time'), h('th', { scope: 'col' }, 'Source'))), body)),
    more,
  );
}

export function why(details: Details, entry: Entry, slot: Slot): HTMLElement {
  const { latency } = details;
  const model = slot.card.name;
  const file = `${fileName(slot)}-${entry.card.name}`;
  const download = () => save(`${file}.csv`, 'text/csv', csv([['kernel', 'kind', 'latency_ns', 'trained', 'extrapolating'], ...details.operators.map((of) => [of.name, of.kind, of.latency, of.trained, of.extrapolating])]));
  const json = () => save(`${file}.json`, 'application/json', JSON.stringify({ model, size: slot.size ?? null, environment: entry.card.description, ...details }, null, 2));
  return h(
    'div',
    { class: 'why' },
    h(
      'div',
      { class: 'headline' },
      h('p', { class: 'big', 'data-ns': String(latency.point) }, time(latency.point)),
      h('div', {}, h('p', { class: 'interval' }, `${time(latency.lower)} – ${time(latency.upper)}`), h('p', { class: 'quiet' }, Number.isFinite(latency.upper) ? `${percent(latency.level)} interval` : 'no upper end: operators are missing')),
    ),
    h('p', { class: 'environment' }, nameOf(entry), h('span', { class: 'quiet' }, ` ${entry.card.framework_version === 'unknown' ? '' : entry.card.framework_version}`)),
    h('p', { class: 'quiet small' }, h('code', {}, command(slot, entry))),
    coverage(details, entry),
    memory(details),
    h('h3', {}, 'By part of the model'),
    flame(details.blocks, model),
    h('h3', {}, 'By kind of kernel'),
    kinds(details),
    operators(details),
    h('div', { class: 'tools' }, h('button', { type: 'button', class: 'plain', onclick: download }, 'Operators as CSV'), h('button', { type: 'button', class: 'plain', onclick: json }, 'All as JSON')),
  );
}
