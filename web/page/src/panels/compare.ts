// Two models on one device: how they differ, and by which kinds.
import type { Comparison } from '../generated/core.js';
import { h } from '../dom';
import { percent, signed, time } from '../format';

export function comparison(of: Comparison, names: [string, string], device: string): HTMLElement {
  const most = Math.max(...of.kinds.map((kind) => Math.abs(kind.latencies[1] - kind.latencies[0])), 1);
  const rows = of.kinds.map((kind) => {
    const change = kind.latencies[1] - kind.latencies[0];
    const width = (50 * Math.abs(change)) / most;
    return h(
      'tr',
      {},
      h('th', { scope: 'row' }, kind.kind),
      h('td', { class: 'number' }, `${kind.counts[0]} → ${kind.counts[1]}`),
      h('td', { class: 'number' }, time(kind.latencies[0])),
      h('td', { class: 'number' }, time(kind.latencies[1])),
      h('td', { class: 'number' }, change === 0 ? '0' : signed(change)),
      h('td', { class: 'bar-cell middle', 'aria-hidden': 'true' }, h('span', { class: change < 0 ? 'bar less' : 'bar grows', style: { width: `${width}%`, left: `${change < 0 ? 50 - width : 50}%` } })),
    );
  });
  const sure = of.sameArchitecture ? 'Both have the same operators with the same shapes.' : `The change lies between ${signed(of.least)} and ${signed(of.most)} in at least ${percent(of.level)} of cases, whatever the two errors have in common.`;
  return h(
    'div',
    {},
    h('p', { class: 'big' }, of.change === 0 ? 'no difference' : signed(of.change)),
    h('p', {}, `${names[1]} instead of ${names[0]}, on ${device}. ${sure}`),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Change by kind' }, h('table', { class: 'kinds' }, h('caption', { class: 'hidden' }, 'Change by kind of kernel'), h('thead', {}, h('tr', {}, ...['Kind', 'Count', names[0], names[1], 'Change'].map((name, at) => h('th', { scope: 'col', class: at > 0 ? 'number' : '' }, name)), h('td', {}))), h('tbody', {}, ...rows))),
  );
}
