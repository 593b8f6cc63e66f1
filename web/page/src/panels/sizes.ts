// Latency over the size of images, for the chosen device and the three fastest beside it.
import { lines, type Series } from '../charts/lines';
import type { Latency, SizeRow } from '../generated/core.js';
import { h } from '../dom';
import { percent, time } from '../format';
import { csv, save } from '../download';
import type { App } from '../main';
import { isForecast, sorted, visible } from '../state';
import { nameOf } from '../label';

const FACTORS = [0.5, 0.75, 1, 1.25, 1.5, 2, 2.5, 3];
const OTHERS = 3;

export async function sizes(app: App, still: () => boolean): Promise<HTMLElement> {
  const slot = app.state.slots[0];
  const own = slot?.card.image;
  if (!slot || !own) return h('p', { class: 'quiet' }, 'The model has no input of four dimensions, so there is no size of images to change.');
  const names = [app.state.selected, ...sorted(visible(app.state)).filter((entry) => isForecast(entry.forecasts[0])).map((entry) => entry.card.name)];
  const chosen = [...new Set(names.filter((name): name is string => name !== undefined && app.entry(name)?.status === 'open'))].slice(0, OTHERS + 1);
  const rows: SizeRow[] = [];
  for (const factor of FACTORS) {
    if (!still()) return h('div', {});
    const side = (pixels: number) => Math.max(1, Math.round(pixels * factor));
    rows.push(await app.core.call('atSize', slot.card.id, `${side(own.height)}x${side(own.width)}`, chosen));
  }
  const good = rows.filter((row) => !row.problem);
  const series: Series[] = chosen.map((name, index) => ({
    name: nameOf(app.entry(name)!),
    points: good.flatMap((row) => {
      const latency = row.latencies[index];
      return latency ? [{ x: row.size.height, point: latency.point, lower: latency.lower, upper: latency.upper }] : [];
    }),
  }));
  const bad = rows.filter((row) => row.problem);
  const shown = slot.size ? Number(slot.size.split('x')[0]) : own.height;
  const text = (row: SizeRow) => `${row.size.height}×${row.size.width}`;
  const head = (name: string, index: number) => {
    const { device, runtime } = app.entry(name)!.label;
    return h('th', { scope: 'col', class: 'number series' }, h('span', { class: `swatch s${index}`, 'aria-hidden': 'true' }), device, h('span', { class: 'runtime' }, runtime));
  };
  const cell = (of: Latency | null | undefined) => h('td', { class: 'number', title: of ? `${time(of.lower)} – ${time(of.upper)}` : '' }, of ? time(of.point) : 'none');
  const table = h(
    'table',
    {},
    h('caption', { class: 'hidden' }, 'Latency by size of images'),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Image'), ...chosen.map(head))),
    h('tbody', {}, ...good.map((row) => h('tr', {}, h('th', { scope: 'row' }, text(row)), ...chosen.map((_, index) => cell(row.latencies[index]))))),
  );
  const level = good[0]?.latencies[0]?.level;
  const download = () => save(`${slot.card.name}-sizes.csv`, 'text/csv', csv([['bundle', 'height', 'width', 'latency_ns', 'lower_ns', 'upper_ns'], ...chosen.flatMap((name, index) => good.map((row) => [name, row.size.height, row.size.width, row.latencies[index]?.point, row.latencies[index]?.lower, row.latencies[index]?.upper]))]));
  return h(
    'div',
    {},
    good.length > 1 ? lines(series, shown, 'height of the image, pixels', (x) => String(x)) : null,
    level === undefined ? null : h('p', { class: 'hint' }, `Bands: ${percent(level)} intervals. The vertical line is the size chosen above.`),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Latency by size of images' }, table),
    bad.length > 0 ? h('details', {}, h('summary', {}, `${bad.length} of ${rows.length} sizes do not fit the model`), h('ul', {}, ...bad.map((row) => h('li', { class: 'small' }, `${text(row)}: ${row.problem}`)))) : null,
    h('div', { class: 'tools' }, h('button', { type: 'button', class: 'plain', onclick: download }, 'Sizes as CSV')),
  );
}
