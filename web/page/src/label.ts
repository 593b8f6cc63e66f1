// What bundles are called on the page.
import type { BundleCard } from './generated/core.js';
import type { Entry, Label } from './state';

function label(card: BundleCard): Label {
  const threads = card.threads > 1 ? ` · ${card.threads} threads` : '';
  const batchFormat = card.name.includes('channels-last') ? ' channels last' : '';
  return { device: card.device, runtime: `${card.framework} · ${card.processor} · ${card.precision}${batchFormat}${threads}` };
}

const joined = ({ device, runtime }: Label): string => `${device} · ${runtime}`;

/** Device, engine and precision of a bundle; its name where others are the same in all of these. */
export const nameOf = (entry: Entry): string => joined(entry.label);

/** The same entries, each with a label unlike those of the others. */
export function labelled<Of extends Omit<Entry, 'label'>>(entries: Of[]): (Of & { label: Label })[] {
  const counts = new Map<string, number>();
  for (const { card } of entries) {
    const name = joined(label(card));
    counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return entries.map((entry) => {
    const own = label(entry.card);
    const isShared = (counts.get(joined(own)) ?? 0) > 1;
    return Object.assign(entry, { label: isShared ? { ...own, runtime: `${own.runtime} · ${entry.card.name}` } : own });
  });
}
