// Architectures of the hybrid space: one that is changed by sliders, and many on two devices.
import { scatter } from '../charts/scatter';
import type { Drawn, Latency, Sample } from '../generated/core.js';
import { announce, h } from '../dom';
import { plural, time } from '../format';
import { csv, save } from '../download';
import type { App } from '../main';
import { nameOf } from '../label';

export const SPACE = 'hybrid-vit';
const DRAWN = 10_000;
/** So many at a time that the page can show how far it is. */
const CHUNK = 250;

const NAMES: Record<string, string> = { mlp_ratio: 'MLP ratio' };

export class Sampler {
  readonly element: HTMLElement;
  private outputs = h('div', { class: 'outputs', role: 'status' });
  private controls = h('div', { class: 'sliders' });
  private encoding = h('code', { class: 'encoding' });
  private cloud = h('div', {});
  private asked = 0;
  private seed = 1;

  constructor(private app: App) {
    const draw = h('button', { type: 'button', class: 'primary', id: 'draw-one', onclick: () => void this.another() }, 'Draw another');
    const many = h('button', { type: 'button', id: 'draw-many', onclick: () => void this.many(many) }, `Draw ${DRAWN.toLocaleString('en')} on both devices`);
    this.element = h('div', { class: 'sampler' }, h('p', {}, 'An architecture of the hybrid space, convolutions and attention mixed. Each slider offers what keeps it in the space.'), h('div', { class: 'tools' }, draw, many), this.encoding, this.outputs, this.controls, this.cloud);
  }

  private devices(): string[] {
    const { selected, other } = this.app.state;
    return [...new Set([selected, other].filter((name): name is string => name !== undefined && this.app.entry(name)?.status === 'open'))];
  }

  async show(): Promise<void> {
    const { core, state } = this.app;
    if (state.encoding) {
      try {
        return await this.take(await core.call('sampled', SPACE, state.encoding));
      } catch (error) {
        this.app.fail(error);
      }
    }
    await this.another();
  }

  private async another(): Promise<void> {
    this.seed = Math.floor(Math.random() * 2 ** 31);
    await this.take(await this.app.core.call('sample', SPACE, this.seed));
  }

  private async take(sample: Sample): Promise<void> {
    this.app.state.encoding = sample.encoding;
    this.app.remember();
    this.encoding.textContent = sample.encoding;
    this.draw(sample);
    await this.latencies();
  }

  /** Only what a slider changes is drawn anew, so that it keeps the focus. */
  private draw(sample: Sample): void {
    const focused = document.activeElement?.id;
    const stages = new Map<number, HTMLElement[]>();
    for (const choice of sample.choices) {
      const id = `choice-${choice.stage ?? 0}-${choice.name}`;
      const value = h('output', { for: id }, choice.values[choice.current] ?? '');
      const slider = h('input', { type: 'range', id, min: 0, max: choice.values.length - 1, step: 1, 'aria-valuetext': choice.values[choice.current] });
      slider.value = String(choice.current);
      slider.addEventListener('input', () => {
        const encoding = choice.encodings[slider.valueAsNumber];
        value.textContent = choice.values[slider.valueAsNumber] ?? '';
        slider.setAttribute('aria-valuetext', value.textContent);
        if (encoding) {
          this.app.state.encoding = encoding;
          this.encoding.textContent = encoding;
          void this.latencies();
        }
      });
      // What the others may be follows when the slider is let go.
      slider.addEventListener('change', () => void this.app.core.call('sampled', SPACE, this.app.state.encoding ?? '').then((next) => this.take(next), (error) => this.app.fail(error)));
      const row = h('div', { class: 'slider' }, h('label', { for: id }, NAMES[choice.name] ?? choice.name), slider, value);
      stages.set(choice.stage ?? 0, [...(stages.get(choice.stage ?? 0) ?? []), row]);
    }
    this.controls.replaceChildren(...[...stages].map(([stage, rows]) => h('fieldset', {}, h('legend', {}, stage === 0 ? 'Image' : `Stage ${stage}`), ...rows)));
    if (focused) document.getElementById(focused)?.focus();
  }

  async latencies(): Promise<void> {
    const { core, state } = this.app;
    const encoding = state.encoding;
    if (!encoding) return;
    const asked = ++this.asked;
    const devices = this.devices();
    const found = await Promise.all(devices.map((name) => core.call('sampleLatency', SPACE, encoding, name).catch((error: Error) => error))) as (Latency | Error)[];
    if (asked !== this.asked) return;
    this.outputs.replaceChildren(...found.map((of, index) => h('div', { class: 'card' }, h('p', { class: 'quiet small' }, nameOf(this.app.entry(devices[index]!)!)), of instanceof Error ? h('p', { class: 'problem' }, of.message) : h('p', { class: 'big', 'data-ns': String(of.point) }, time(of.point)), of instanceof Error ? null : h('p', { class: 'interval' }, `${time(of.lower)} – ${time(of.upper)}`))));
    if (devices.length === 0) this.outputs.replaceChildren(h('p', { class: 'quiet' }, 'Choose a device above.'));
  }

  private async many(button: HTMLButtonElement): Promise<void> {
    const devices = this.devices();
    if (devices.length < 2) {
      this.cloud.replaceChildren(h('p', { class: 'problem' }, 'Two different devices are needed: choose one among the devices, and the other one here.'));
      return;
    }
    button.disabled = true;
    const progress = h('progress', { max: DRAWN * 2, value: 0, 'aria-label': 'Architectures forecast' });
    const text = h('p', { class: 'hint' });
    this.cloud.replaceChildren(progress, text);
    try {
      const begun = performance.now();
      const encodings = await this.app.core.call('draw', SPACE, DRAWN, this.seed);
      const latencies: Float64Array[] = [];
      let done = 0;
      for (const device of devices) {
        const all = new Float64Array(encodings.length);
        for (let at = 0; at < encodings.length; at += CHUNK) {
          const some = encodings.slice(at, at + CHUNK);
          all.set(await this.app.core.call('latencies', SPACE, device, some), at);
          progress.value = done += some.length;
          text.textContent = `${done.toLocaleString('en')} forecasts, ${Math.round((1e3 * done) / (performance.now() - begun)).toLocaleString('en')} per second`;
        }
        latencies.push(all);
      }
      const seconds = (performance.now() - begun) / 1e3;
      this.front(await this.app.core.front(encodings, latencies[0]!, latencies[1]!), devices, `${(2 * encodings.length).toLocaleString('en')} forecasts in ${seconds.toFixed(1)} s`);
    } catch (error) {
      this.cloud.replaceChildren();
      this.app.fail(error);
    } finally {
      button.disabled = false;
    }
  }

  private front(drawn: Drawn, devices: string[], text: string): void {
    const [first, second] = devices.map((name) => nameOf(this.app.entry(name)!)) as [string, string];
    const points = drawn.encodings.map((encoding, index) => ({ x: drawn.first[index]!, y: drawn.second[index]!, title: `${time(drawn.first[index]!)} and ${time(drawn.second[index]!)}: ${encoding}` }));
    const choose = (index: number) => void this.app.core.call('sampled', SPACE, drawn.encodings[index]!).then((sample) => this.take(sample), (error) => this.app.fail(error));
    const rows = drawn.front.map((index) => h('tr', {}, h('th', { scope: 'row', class: 'path' }, drawn.encodings[index]!), h('td', { class: 'number' }, time(drawn.first[index]!)), h('td', { class: 'number' }, time(drawn.second[index]!))));
    const download = () => save('samples.csv', 'text/csv', csv([['encoding', `${devices[0]}_ns`, `${devices[1]}_ns`, 'front'], ...drawn.encodings.map((encoding, index) => [encoding, drawn.first[index], drawn.second[index], drawn.front.includes(index)])]));
    const summary = `${plural(drawn.front.length, 'architecture')} that no other beats on both devices. ${text}.`;
    this.cloud.replaceChildren(
      h('h3', {}, 'The front of both devices'),
      h('p', { id: 'front-summary' }, summary),
      scatter(points, drawn.front, { label: 'Latency on both devices', xName: first, yName: second, x: time, y: time, onchoose: choose }),
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': 'Architectures of the front' }, h('table', {}, h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Encoding'), h('th', { scope: 'col', class: 'number' }, first), h('th', { scope: 'col', class: 'number' }, second))), h('tbody', {}, ...rows))),
      h('div', { class: 'tools' }, h('button', { type: 'button', class: 'plain', onclick: download }, 'All as CSV')),
    );
    announce(summary);
  }
}
