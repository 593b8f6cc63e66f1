// The time of a model by its parts: a row per level of the node paths, wide parts take long.
import { hierarchy, partition, type HierarchyRectangularNode } from 'd3-hierarchy';
import type { Block } from '../generated/core.js';
import { h } from '../dom';
import { percent, plural, time } from '../format';

const LEVELS = 5;
const ROW = 34;
const NARROWEST = 0.002;

type Node = HierarchyRectangularNode<Block>;

/** Time of kernels that lie in a block itself, as a part of their own where there are others. */
function tree(root: Block): Node {
  const of = hierarchy(root, (block) => block.children)
    .sum(() => 0)
    .each((node) => {
      (node as { value: number }).value = node.data.latency;
    });
  return partition<Block>().size([1, of.height + 1])(of);
}

const path = (node: Node): string => node.ancestors().reverse().slice(1).map((of) => of.data.name).join('/');

/** `blocks.0` in `blocks` is `0`. */
function within(node: Node, name: string): string {
  const around = node.parent?.data.name.split('/').pop();
  return around && name.startsWith(`${around}.`) ? name.slice(around.length + 1) : name;
}

export function flame(root: Block, model: string): HTMLElement {
  const whole = tree(root);
  let focus = whole;
  const crumbs = h('nav', { class: 'crumbs', 'aria-label': 'Part of the model' });
  const chart = h('div', { class: 'flame' });
  const show = (node: Node, withFocus = false) => {
    focus = node;
    draw();
    if (withFocus) chart.querySelector('button')?.focus();
  };
  const crumb = (node: Node, name: string) =>
    node === focus ? h('span', { 'aria-current': 'true' }, name) : h('button', { type: 'button', class: 'crumb', onclick: () => show(node) }, name);

  const draw = () => {
    const inside = focus.x1 - focus.x0 || 1;
    const shown = focus.descendants().filter((node) => node.depth - focus.depth < LEVELS && (node.x1 - node.x0) / inside > NARROWEST);
    const deepest = Math.max(...shown.map((node) => node.depth - focus.depth));
    chart.style.setProperty('height', `${(deepest + 1) * ROW}px`);
    crumbs.replaceChildren(...focus.ancestors().reverse().flatMap((node, index) => (index === 0 ? [crumb(node, model)] : [document.createTextNode(' › '), crumb(node, node.data.name)])));
    chart.replaceChildren(
      ...shown.map((node) => {
        const share = root.latency > 0 ? node.data.latency / root.latency : 0;
        const name = node.data.name || model;
        const width = (node.x1 - node.x0) / inside;
        return h(
          'button',
          {
            type: 'button',
            class: `part${node.children ? '' : ' leaf'}${width > 0.03 ? '' : ' narrow'}`,
            title: `${path(node) || model}\n${time(node.data.latency)}, ${percent(share, 1)} of all kernels, ${plural(node.data.count, 'kernel')}`,
            'aria-label': `${within(node, name)} ${time(node.data.latency)}, ${percent(share, 1)}, ${plural(node.data.count, 'kernel')}: ${path(node) || model}`,
            onclick: () => node.children && show(node === focus && node.parent ? node.parent : node, true),
            style: {
              left: `${(100 * (node.x0 - focus.x0)) / inside}%`,
              width: `calc(${100 * width}% - 1px)`,
              top: `${(node.depth - focus.depth) * ROW}px`,
              '--heat': `${Math.round(10 + 34 * Math.min(1, Math.sqrt(node.data.latency / (focus.data.latency || 1))))}%`,
            },
          },
          width > 0.03 ? h('span', { class: 'part-name' }, within(node, name)) : null,
          width > 0.11 ? ' ' : null,
          width > 0.11 ? h('span', { class: 'part-time' }, time(node.data.latency)) : null,
        );
      }),
    );
  };
  draw();
  return h('div', {}, crumbs, chart, h('p', { class: 'hint' }, 'As wide as they take long. Choose a part to open it; the uppermost row goes back.'));
}
