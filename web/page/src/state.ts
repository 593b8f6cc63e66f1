// What the page shows, and the link that restores it. The link never has the model.
import type { BundleCard, Forecast, ModelCard } from './generated/core.js';

/** What a bundle is for, in two short texts. */
export interface Label {
  device: string;
  runtime: string;
}

export interface Entry {
  card: BundleCard;
  /** Unlike that of any other bundle. */
  label: Label;
  /** Where its file is; none for a bundle that was dropped on the page. */
  file?: string;
  bytes: number;
  status: 'absent' | 'loading' | 'open' | 'failed';
  problem?: string;
  /** By slot of the model. */
  forecasts: (Forecast | Error | undefined)[];
}

export interface Slot {
  card: ModelCard;
  /** Height and width, where they are not those of the file. */
  size?: string;
  /** Name of the shipped model or encoding, which a link restores. */
  example?: string;
}

/** The command whose forecast is that of the page. */
export const command = ({ size }: Slot, { card }: Entry): string => `vitempo predict MODEL.onnx${size ? ` --size ${size}` : ''} --bundle ${card.name}`;

/** Begins the names of files about a model at its size. */
export const fileName = ({ card, size }: Slot): string => (size ? `${card.name}-${size}` : card.name);

export const TABS = ['why', 'sizes', 'compare', 'split', 'sampler'] as const;
export type Tab = (typeof TABS)[number];
export type Facet = 'device' | 'framework' | 'processor' | 'precision' | 'kind';
export const FACETS: Facet[] = ['kind', 'processor', 'framework', 'precision', 'device'];

export interface State {
  entries: Entry[];
  slots: (Slot | undefined)[];
  selected?: string;
  filters: Map<Facet, Set<string>>;
  tab: Tab;
  server?: string;
  bandwidth: number;
  roundTripMs: number;
  encoding?: string;
  other?: string;
}

export function empty(): State {
  return { entries: [], slots: [undefined, undefined], filters: new Map(), tab: 'why', bandwidth: 2.5e6, roundTripMs: 10 };
}

export function visible(state: State): Entry[] {
  const passes = (entry: Entry) => [...state.filters].every(([facet, values]) => values.size === 0 || values.has(entry.card[facet]));
  return state.entries.filter(passes);
}

export const isForecast = (of: Forecast | Error | undefined): of is Forecast => of !== undefined && !(of instanceof Error);

export function sorted(entries: Entry[]): Entry[] {
  const key = (entry: Entry) => (isForecast(entry.forecasts[0]) ? entry.forecasts[0].latency.point : Infinity);
  return [...entries].sort((a, b) => key(a) - key(b) || a.card.name.localeCompare(b.card.name));
}

export function toHash(state: State): string {
  const params = new URLSearchParams();
  const [first, second] = state.slots;
  if (first?.example) params.set('model', first.example);
  if (second?.example) params.set('with', second.example);
  if (first?.size) params.set('size', first.size);
  if (state.selected) params.set('bundle', state.selected);
  for (const [facet, values] of state.filters) for (const value of values) params.append(facet, value);
  if (state.tab !== 'why') params.set('tab', state.tab);
  if (state.server) params.set('server', state.server);
  if (state.tab === 'split') {
    params.set('bandwidth', String(Math.round(state.bandwidth)));
    params.set('rtt', String(state.roundTripMs));
  }
  if (state.other) params.set('other', state.other);
  if (state.encoding) params.set('sample', state.encoding);
  return params.toString();
}

export interface Restored {
  model?: string;
  with?: string;
  size?: string;
  file?: string;
}

/** Takes from a link what it has; what it has not, stays. */
export function fromHash(state: State, hash: string): Restored {
  const params = new URLSearchParams(hash.replace(/^#/, ''));
  const text = (name: string) => params.get(name) ?? undefined;
  const number = (name: string, otherwise: number) => {
    const value = Number(params.get(name) ?? NaN);
    return Number.isFinite(value) && value >= 0 ? value : otherwise;
  };
  state.selected = text('bundle') ?? state.selected;
  state.server = text('server') ?? state.server;
  state.other = text('other') ?? state.other;
  state.encoding = text('sample') ?? state.encoding;
  state.bandwidth = number('bandwidth', state.bandwidth) || state.bandwidth;
  state.roundTripMs = number('rtt', state.roundTripMs);
  const tab = text('tab');
  if (TABS.some((known) => known === tab)) state.tab = tab as Tab;
  for (const facet of FACETS) {
    const values = params.getAll(facet).filter((value) => value !== '');
    if (values.length > 0) state.filters.set(facet, new Set(values));
  }
  return { model: text('model'), with: text('with'), size: text('size'), file: text('file') };
}

/** Links of earlier versions join the values of a filter by commas: what no bundle has is taken apart. */
export function splitOldFilters(state: State): void {
  for (const [facet, values] of state.filters) {
    const known = new Set(state.entries.map(({ card }) => card[facet]));
    state.filters.set(facet, new Set([...values].flatMap((value) => (known.has(value) ? [value] : value.split(',')))));
  }
}
