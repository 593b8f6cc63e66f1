// A picture to save: sorted latencies with their intervals.
import { s } from '../dom';
import { time } from '../format';
import { isForecast, type Entry } from '../state';
import { PAPER, logScale } from './axis';

const WIDTH = 960;
const ROW = 22;
const LEFT = 330;
const RIGHT = 200;

export function intervals(title: string, entries: Entry[]): SVGSVGElement {
  const rows = entries.flatMap((entry) => (isForecast(entry.forecasts[0]) ? [{ label: entry.label, latency: entry.forecasts[0].latency }] : []));
  const height = 92 + ROW * rows.length;
  const { scale, ticks } = logScale(rows.flatMap(({ latency }) => [latency.lower, latency.upper]), LEFT, WIDTH - RIGHT);
  const text = (x: number, y: number, of: string, more: Record<string, unknown> = {}) =>
    s('text', { x, y, 'font-family': 'system-ui, sans-serif', 'font-size': 12, fill: PAPER.ink, ...more }, of);
  const svg = s('svg', { xmlns: 'http://www.w3.org/2000/svg', width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}`, role: 'img', 'aria-label': title });
  svg.append(s('rect', { width: WIDTH, height, fill: PAPER.paper }), text(20, 30, title, { 'font-size': 16, 'font-weight': 600 }));
  for (const tick of ticks) {
    svg.append(
      s('line', { x1: scale(tick), x2: scale(tick), y1: 66, y2: height - 16, stroke: PAPER.rule }),
      text(scale(tick), 58, time(tick), { 'text-anchor': 'middle', fill: PAPER.quiet }),
    );
  }
  rows.forEach(({ label, latency }, index) => {
    const y = 80 + ROW * index;
    const { device, runtime } = label;
    svg.append(
      text(20, y + 4, device),
      text(LEFT - 14, y + 4, runtime, { 'text-anchor': 'end', fill: PAPER.quiet }),
      s('line', { x1: scale(latency.lower), x2: scale(latency.upper), y1: y, y2: y, stroke: PAPER.accent, 'stroke-width': 4, 'stroke-opacity': 0.35, 'stroke-linecap': 'round' }),
      s('circle', { cx: scale(latency.point), cy: y, r: 5, fill: PAPER.accent }),
      text(WIDTH - RIGHT + 16, y + 4, `${time(latency.point)}  [${time(latency.lower)} .. ${time(latency.upper)}]`),
    );
  });
  return svg;
}
