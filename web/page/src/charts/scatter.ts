// Points with two quantities that are both better when small, and the front that no other beats.
import { s } from '../dom';
import { short } from '../format';
import { linearScale, logScale } from './axis';

export interface Point {
  x: number;
  y: number;
  title: string;
}

interface Options {
  label: string;
  xName: string;
  yName: string;
  x: (value: number) => string;
  y: (value: number) => string;
  onchoose?: (index: number) => void;
  chosen?: number;
  /** Both axes begin at zero. */
  linear?: boolean;
}

const WIDTH = 620;
const HEIGHT = 380;
const EDGE = { left: 76, right: 20, top: 18, bottom: 52 };

/** `front`: indices of points, in the order of the line; they can be chosen. */
export function scatter(points: Point[], front: number[], options: Options): SVGSVGElement {
  const axis = options.linear ? linearScale : logScale;
  const { scale: x, ticks: xTicks } = axis(points.map((p) => p.x), EDGE.left, WIDTH - EDGE.right);
  const { scale: y, ticks: yTicks } = axis(points.map((p) => p.y), HEIGHT - EDGE.bottom, EDGE.top);
  const svg = s('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, class: 'chart', role: 'group', 'aria-label': options.label });
  for (const tick of yTicks) svg.append(s('line', { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: y(tick), y2: y(tick), class: 'rule' }), s('text', { x: EDGE.left - 8, y: y(tick) + 4, class: 'tick', 'text-anchor': 'end' }, short(options.y(tick))));
  for (const tick of xTicks) svg.append(s('line', { x1: x(tick), x2: x(tick), y1: EDGE.top, y2: HEIGHT - EDGE.bottom, class: 'rule' }), s('text', { x: x(tick), y: HEIGHT - EDGE.bottom + 18, class: 'tick', 'text-anchor': 'middle' }, short(options.x(tick))));
  svg.append(
    s('text', { x: (EDGE.left + WIDTH - EDGE.right) / 2, y: HEIGHT - 8, class: 'tick', 'text-anchor': 'middle' }, options.xName),
    s('text', { x: -(EDGE.top + HEIGHT - EDGE.bottom) / 2, y: 14, class: 'tick', 'text-anchor': 'middle', transform: 'rotate(-90)' }, options.yName),
  );
  const isFront = new Set(front);
  // Thousands of points are one element.
  const cloud = points.map((p, index) => (isFront.has(index) ? '' : `M${x(p.x).toFixed(1)} ${y(p.y).toFixed(1)}h0`)).join('');
  svg.append(s('path', { d: cloud, class: 'cloud' }));
  const way = front.map((index, at) => `${at === 0 ? 'M' : 'L'}${x(points[index]!.x).toFixed(1)} ${y(points[index]!.y).toFixed(1)}`).join('');
  svg.append(s('path', { d: way, class: 'line s0' }));
  for (const index of front) {
    const point = points[index]!;
    const choose = () => options.onchoose?.(index);
    const onkeydown = (event: Event) => {
      if (['Enter', ' '].includes((event as KeyboardEvent).key)) {
        event.preventDefault();
        choose();
      }
    };
    const can = options.onchoose ? { role: 'button', tabindex: 0, 'aria-label': point.title, 'aria-pressed': String(options.chosen === index), onclick: choose, onkeydown } : {};
    svg.append(s('circle', { cx: x(point.x), cy: y(point.y), r: options.chosen === index ? 8 : 5, class: 'dot s0', ...can }, s('title', {}, point.title)));
  }
  return svg;
}
