// The devices, the fastest first: a dot, its interval, and what the forecast rests on.
import type { Forecast } from '../generated/core.js';
import { logScale } from '../charts/axis';
import { h } from '../dom';
import { bytes, percent, plural, short, time } from '../format';
import { FACETS, isForecast, sorted, visible, type Entry, type Facet, type State } from '../state';

const FACET_NAMES: Record<Facet, string> = { kind: 'Made by', processor: 'Processor', framework: 'Runtime', precision: 'Precision', device: 'Device' };
const KINDS: Record<string, string> = { trained: 'measured operators', adapted: 'published latencies' };

function marks(of: Forecast): string {
  const { fallback, extrapolating, unsupported } = of.coverage;
  const parts = [fallback > 0 && `${fallback} estimated`, extrapolating > 0 && `${extrapolating} outside`, unsupported.length > 0 && `${unsupported.length} unsupported`];
  return parts.filter(Boolean).join(', ');
}

interface Actions {
  choose: (name: string) => void;
  load: (entries: Entry[]) => void;
}

function track(entry: Entry, scale: (ns: number) => number): HTMLElement {
  const forecasts = entry.forecasts.filter(isForecast);
  const marks = forecasts.flatMap((of, slot) => [
    h('span', { class: `span m${slot}`, style: { left: `${scale(of.latency.lower)}%`, width: `${scale(of.latency.upper) - scale(of.latency.lower)}%` } }),
    h('span', { class: `point m${slot}`, style: { left: `${scale(of.latency.point)}%` } }),
  ]);
  return h('span', { class: forecasts.length > 0 ? 'track' : 'track bare', 'aria-hidden': 'true' }, ...marks);
}

function row(entry: Entry, state: State, scale: (ns: number) => number, actions: Actions): HTMLElement {
  const { device, runtime } = entry.label;
  const [first, second] = entry.forecasts;
  const name = h('span', { class: 'who' }, h('span', { class: 'device' }, device), h('span', { class: 'runtime' }, runtime));
  if (entry.status !== 'open') {
    const what = { absent: `load, ${bytes(entry.bytes)}`, loading: 'loading', failed: entry.problem ?? 'failed' }[entry.status];
    return h('li', {}, h('button', { type: 'button', class: 'row absent', disabled: entry.status === 'loading', title: entry.card.name, onclick: () => actions.load([entry]) }, name, h('span', { class: 'numbers' }, h('span', { class: 'value' }, what))));
  }
  if (first instanceof Error) {
    return h('li', {}, h('div', { class: 'row refused' }, name, h('span', { class: 'refusal' }, first.message)));
  }
  const pressed = state.selected === entry.card.name;
  const value = isForecast(first)
    ? [
        h('span', { class: 'numbers' }, h('span', { class: 'value' }, time(first.latency.point)), isForecast(second) ? h('span', { class: 'second' }, ` ${time(second.latency.point)}`) : null, h('span', { class: 'range' }, ` ${time(first.latency.lower)} – ${time(first.latency.upper)}`)),
        h('span', { class: 'marks' }, marks(first)),
      ]
    : [h('span', { class: 'numbers' }, state.slots[0] ? '…' : '')];
  return h('li', {}, h('button', { type: 'button', class: 'row', 'data-bundle': entry.card.name, title: `${entry.card.name}: ${entry.card.description}`, 'aria-pressed': String(pressed), onclick: () => actions.choose(entry.card.name) }, name, track(entry, scale), ...value));
}

/** Arrow keys go from row to row. */
function arrows(event: KeyboardEvent): void {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const list = (event.currentTarget as HTMLElement).querySelectorAll<HTMLButtonElement>('button.row:not([disabled])');
  const at = [...list].indexOf(document.activeElement as HTMLButtonElement);
  if (step === undefined || at < 0) return;
  event.preventDefault();
  list[Math.min(list.length - 1, Math.max(0, at + step))]?.focus();
}

/** Whether the list of absent bundles is open; it is drawn anew while bundles are loaded. */
let isMoreOpen = false;

export function devices(state: State, actions: Actions): HTMLElement {
  const shown = sorted(visible(state));
  const open = shown.filter((entry) => entry.status === 'open' || entry.status === 'failed');
  const rest = shown.filter((entry) => entry.status === 'absent' || entry.status === 'loading');
  const forecasts = open.flatMap((entry) => entry.forecasts.filter(isForecast));
  const { scale, ticks } = logScale(forecasts.flatMap(({ latency }) => [latency.lower, latency.upper]), 0, 100);
  const axis = h('div', { class: 'axis', 'aria-hidden': 'true' }, h('span', {}), h('div', { class: 'ticks' }, ...ticks.map((tick) => h('span', { style: { left: `${scale(tick)}%` } }, short(time(tick))))), h('span', {}));
  const level = forecasts[0]?.latency.level;
  const list = h('ul', { class: 'rows', onkeydown: arrows as EventListener }, ...open.map((entry) => row(entry, state, scale, actions)));
  const absent = rest.filter((entry) => entry.status === 'absent');
  const size = absent.reduce((sum, entry) => sum + entry.bytes, 0);
  const more =
    rest.length > 0
      ? h(
          'details',
          { class: 'more', open: isMoreOpen, ontoggle: (event: Event) => { isMoreOpen = (event.currentTarget as HTMLDetailsElement).open; } },
          h('summary', {}, `${plural(rest.length, 'bundle')} not loaded yet`),
          absent.length > 0 ? h('button', { type: 'button', class: 'primary', id: 'load-all', onclick: () => actions.load(absent) }, `Load ${absent.length === 1 ? 'it' : `all ${absent.length}`}, ${bytes(size)}`) : null,
          h('ul', { class: 'rows' }, ...rest.map((entry) => row(entry, state, scale, actions))),
        )
      : null;
  const legend = level === undefined ? null : h('p', { class: 'hint' }, `Dot: forecast. Bar: the interval that holds ${percent(level)} of models. Time grows to the right, by factors.`);
  return h('div', { class: 'devices' }, forecasts.length > 0 ? axis : null, list, legend, more);
}

/** Chips that choose among the values of each property. */
export function filters(state: State, onchange: () => void): HTMLElement {
  const groups = FACETS.map((facet) => {
    const counts = new Map<string, number>();
    for (const { card } of state.entries) counts.set(card[facet], (counts.get(card[facet]) ?? 0) + 1);
    if (counts.size < 2) return null;
    const chosen = state.filters.get(facet) ?? new Set<string>();
    const chip = ([value, of]: [string, number]) => {
      const toggle = () => {
        const next = new Set(state.filters.get(facet) ?? []);
        if (!next.delete(value)) next.add(value);
        state.filters.set(facet, next);
        onchange();
      };
      return h('button', { type: 'button', class: 'chip', 'aria-pressed': String(chosen.has(value)), 'data-facet': facet, 'data-value': value, onclick: toggle }, KINDS[value] ?? value, h('span', { class: 'quiet' }, ` ${of}`));
    };
    return h('fieldset', {}, h('legend', {}, FACET_NAMES[facet]), ...[...counts].sort((a, b) => a[0].localeCompare(b[0])).map(chip));
  });
  return h('div', { class: 'filters' }, ...groups);
}
