// Device or server: the best cut, the front of latency and bytes, and the best cut over bandwidth.
import { scatter } from '../charts/scatter';
import type { Split, SplitPlan } from '../generated/core.js';
import { h } from '../dom';
import { bandwidth, bytes, plural, time } from '../format';

const RATES = { from: 1e4, to: 1.25e9 };

/** Bytes per second of a place on the slider, 0 to 100; and back. */
export const rateAt = (place: number): number => RATES.from * (RATES.to / RATES.from) ** (place / 100);
export const placeOf = (rate: number): number => (100 * Math.log(rate / RATES.from)) / Math.log(RATES.to / RATES.from);

function sentence(plan: SplitPlan): string {
  if (plan.deviceOperators === plan.operators) return 'Everything on the device.';
  if (plan.deviceOperators === 0) return `Everything on the server: the input crosses the link, ${bytes(plan.bytesSent)}.`;
  return `${plan.deviceOperators} of ${plan.operators} operators on the device, the rest on the server; ${bytes(plan.bytesSent)} cross the link.`;
}

/** What runs where, as long as it takes. */
function strip(plan: SplitPlan): HTMLElement {
  const parts: { name: string; note: string; ns: number; kind: string; begin: number }[] = [];
  let whole = 0;
  const add = (name: string, note: string, ns: number, kind: string) => {
    parts.push({ name, note, ns, kind, begin: whole });
    whole += ns;
  };
  const transfers = [...plan.transfers];
  for (const stage of plan.stages) {
    const before = parts.length > 0 || stage.processor === 'server' ? transfers.shift() : undefined;
    if (before) add(bytes(before.bytes), before.tensors.join(', '), before.latency.point, 'link');
    add(`${stage.processor}, ${plural(stage.count, 'operator')}`, `${stage.first} … ${stage.last}`, stage.latency.point, stage.processor);
  }
  for (const after of transfers) add(bytes(after.bytes), after.tensors.join(', '), after.latency.point, 'link');
  whole ||= 1;
  return h(
    'ol',
    { class: 'strip', 'aria-label': 'What runs where, in order' },
    ...parts.map((part) =>
      h(
        'li',
        { class: 'piece', title: part.note },
        h('span', { class: 'piece-name' }, part.kind === 'link' ? `link, ${part.name}` : part.name),
        h('span', { class: 'piece-bar', 'aria-hidden': 'true' }, h('span', { class: part.kind, style: { left: `${(100 * part.begin) / whole}%`, width: `${(100 * part.ns) / whole}%` } })),
        h('span', { class: 'piece-time' }, time(part.ns)),
      ),
    ),
  );
}

function ranges(split: Split, rate: number, operators: number): HTMLElement {
  const rows = split.ranges.map((of) => {
    const here = rate >= of.from && (of.to === undefined || of.to === null || rate < of.to);
    const share = operators > 0 ? of.deviceOperators / operators : 0;
    const where = of.deviceOperators === operators ? 'all on the device' : of.deviceOperators === 0 ? 'all on the server' : `${of.deviceOperators} of ${operators} on the device`;
    return h('tr', { class: here ? 'here' : '' }, h('th', { scope: 'row' }, of.from === 0 ? 'slower' : bandwidth(of.from)), h('td', {}, of.to === undefined || of.to === null ? 'faster' : bandwidth(of.to)), h('td', {}, where, here ? h('span', { class: 'hidden' }, ' (now)') : null), h('td', { class: 'bar-cell', 'aria-hidden': 'true' }, h('span', { class: 'bar', style: { width: `${100 * share}%` } })));
  });
  return h('table', { class: 'kinds' }, h('caption', {}, 'Best cut by bandwidth'), h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'From'), h('th', { scope: 'col' }, 'To'), h('th', { scope: 'col' }, 'Cut'), h('td', {}))), h('tbody', {}, ...rows));
}

/** The picture of the graph; it comes from the library as a document of its own. */
function picture(text: string): HTMLElement {
  const parsed = new DOMParser().parseFromString(text, 'image/svg+xml').documentElement;
  const shown = h('div', { class: 'scroll graph', tabindex: 0, role: 'region', 'aria-label': 'Graph of the model with the cut' });
  if (parsed.localName === 'svg') shown.append(document.importNode(parsed, true));
  return h('details', {}, h('summary', {}, 'The graph with the cut'), shown);
}

export function split(of: Split, rate: number): HTMLElement {
  const gain = of.device.point - of.best.latency.point;
  const better = gain > 0 ? `${time(gain)} less than on the device alone (${time(of.device.point)}).` : `The device alone takes ${time(of.device.point)}.`;
  const plans = of.front;
  const points = plans.map((plan) => ({ x: plan.bytesSent, y: plan.latency.point, title: `${time(plan.latency.point)}, ${bytes(plan.bytesSent)} sent: ${sentence(plan)}` }));
  const chosen = h('div', {});
  const choose = (index: number) => chosen.replaceChildren(h('p', {}, sentence(plans[index]!), ` ${time(plans[index]!.latency.point)}.`), strip(plans[index]!));
  return h(
    'div',
    { class: 'split' },
    h('p', { class: 'big', id: 'split-latency', 'data-ns': String(of.best.latency.point) }, time(of.best.latency.point)),
    h('p', {}, h('span', { class: 'interval' }, `${time(of.best.latency.lower)} – ${time(of.best.latency.upper)}. `), sentence(of.best), ' ', better),
    strip(of.best),
    picture(of.picture),
    h('div', { class: 'two' }, h('div', {}, h('h3', {}, 'Fewer bytes or less time'), plans.length > 1 ? scatter(points, plans.map((_, index) => index), { label: 'Pareto front of latency and bytes sent', xName: 'bytes to the server', linear: true, yName: 'latency', x: bytes, y: time, onchoose: choose }) : h('p', { class: 'quiet' }, 'One split is the best in both.'), of.isComplete ? null : h('p', { class: 'hint' }, 'There may be more of these.'), chosen), ranges(of, rate, of.best.operators)),
  );
}
