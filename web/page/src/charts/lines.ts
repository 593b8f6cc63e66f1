// Latency over a quantity: lines with their intervals as bands.
import { area, line } from 'd3-shape';
import { scaleLinear } from 'd3-scale';
import { s } from '../dom';
import { short, time } from '../format';
import { logScale } from './axis';

export interface Series {
  name: string;
  points: { x: number; point: number; lower: number; upper: number }[];
}

const WIDTH = 600;
const HEIGHT = 330;
const EDGE = { left: 60, right: 16, top: 14, bottom: 48 };

export function lines(series: Series[], mark: number | undefined, xName: string, name: (x: number) => string): SVGSVGElement {
  const points = series.flatMap((of) => of.points);
  const xs = [...new Set(points.map((point) => point.x))].sort((a, b) => a - b);
  const x = scaleLinear().domain([xs[0] ?? 0, xs[xs.length - 1] ?? 1]).range([EDGE.left, WIDTH - EDGE.right]);
  const { scale: y, ticks } = logScale(points.flatMap((point) => [point.lower, point.upper]), HEIGHT - EDGE.bottom, EDGE.top);
  const svg = s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, class: 'chart', role: 'img', 'aria-label': `Latency over ${xName} of ${series.map((of) => of.name).join(', ')}` });
  for (const tick of ticks) {
    svg.append(s('line', { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y(tick), y2: y(tick), class: 'rule' }), s('text', { x: EDGE.left - 8, y: y(tick) + 4, class: 'tick', 'text-anchor': 'end' }, short(time(tick))));
  }
  const few = xs.filter((_, index) => xs.length <= 9 || index % 2 === 0);
  for (const of of few) svg.append(s('text', { x: x(of), y: HEIGHT - EDGE.bottom + 20, class: 'tick', 'text-anchor': 'middle' }, name(of)));
  svg.append(s('text', { x: (EDGE.left + WIDTH - EDGE.right) / 2, y: HEIGHT - 6, class: 'tick', 'text-anchor': 'middle' }, xName));
  if (mark !== undefined && mark >= (xs[0] ?? 0) && mark <= (xs[xs.length - 1] ?? 0)) {
    svg.append(s('line', { x1: x(mark), x2: x(mark), y1: EDGE.top, y2: HEIGHT - EDGE.bottom, class: 'mark' }));
  }
  series.forEach((of, index) => {
    if (of.points.length === 0) return;
    const band = area<Series['points'][number]>().x((p) => x(p.x)).y0((p) => y(p.lower)).y1((p) => y(p.upper));
    const way = line<Series['points'][number]>().x((p) => x(p.x)).y((p) => y(p.point));
    svg.append(s('path', { d: band(of.points) ?? '', class: `band s${index}` }), s('path', { d: way(of.points) ?? '', class: `line s${index}` }));
    for (const p of of.points) {
      svg.append(s('circle', { cx: x(p.x), cy: y(p.point), r: 3.5, class: `dot s${index}` }, s('title', {}, `${of.name}, ${name(p.x)}: ${time(p.point)} [${time(p.lower)} .. ${time(p.upper)}]`)));
    }
  });
  return svg;
}
