// The page: opens models and bundles, and shows what the library says about them.
import './style.css';
import { intervals } from './charts/intervals';
import { Core, type Started } from './core';
import { announce, debounce, h } from './dom';
import { csv, save, savePng, svgText } from './download';
import { bandwidth, count, plural, time } from './format';
import { labelled, nameOf } from './label';
import type { BundleCard, OpenDimension } from './generated/core.js';
import { comparison } from './panels/compare';
import { devices, filters } from './panels/devices';
import { Sampler } from './panels/sampler';
import { sizes } from './panels/sizes';
import { placeOf, rateAt, split } from './panels/split';
import { why } from './panels/why';
import { TABS, empty, fileName, fromHash, isForecast, sorted, splitOldFilters, toHash, visible, type Entry, type Slot, type State, type Tab } from './state';

/** Bundles that are loaded before anybody asks: the smallest, up to so many bytes together. */
const FIRST_BYTES = 1.6e6;
const TAB_NAMES: Record<Tab, string> = { why: 'Why that long?', sizes: 'Image size', compare: 'Compare', split: 'Split', sampler: 'Search space' };
const NO_DIMENSIONS = {};
/** Bundles that are fetched and opened at the same time. */
const LANES = 3;
const onItsWay = () => [h('p', { class: 'quiet' }, 'The bundle is on its way.')];

interface Index {
  /** Whether transfers cost nothing: the host is this machine. */
  local?: boolean;
  bundles: { card: BundleCard; file: string; bytes: number }[];
}

type Place = 0 | 1;

export class App {
  state: State = empty();
  core: Core;
  private started?: Started;
  private view = {
    drop: h('div', {}),
    model: h('div', {}),
    problem: h('div', { role: 'alert' }),
    filters: h('div', {}),
    devices: h('div', {}),
    panel: h('div', { class: 'panel', role: 'tabpanel', id: 'panel', tabindex: 0 }),
    tabs: h('div', { class: 'tabs', role: 'tablist', 'aria-label': 'About the forecast' }),
    count: h('p', { class: 'quiet small' }),
  };
  private sampler: Sampler;
  private asked = 0;
  private shown = 0;
  /** A shipped model that is open, and not shown. */
  private warmed?: Promise<number>;

  constructor(private root: HTMLElement) {
    this.core = new Core(() => void this.restart());
    this.sampler = new Sampler(this);
  }

  entry(name: string): Entry | undefined {
    return this.state.entries.find((entry) => entry.card.name === name);
  }

  fail(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.view.problem.replaceChildren(h('p', { class: 'problem' }, message, h('button', { type: 'button', class: 'plain', onclick: () => this.view.problem.replaceChildren() }, 'Close')));
  }

  /** The link follows what is shown. */
  remember(): void {
    history.replaceState(null, '', `#${toHash(this.state)}`);
  }

  async start(): Promise<void> {
    this.layout();
    const restored = fromHash(this.state, location.hash);
    const index = fetch('bundles/index.json').then((response) => (response.ok ? (response.json() as Promise<Index>) : Promise.reject(new Error(`bundles/index.json: ${response.status} ${response.statusText}`))));
    try {
      this.started = await this.core.start();
      document.getElementById('build')!.textContent = `vitempo ${this.started.version}`;
    } catch (error) {
      return this.fail(error);
    }
    this.drawDrop();
    try {
      const { bundles, local } = await index;
      this.state.entries = labelled(bundles.map(({ card, file, bytes }) => ({ card, file, bytes, status: 'absent' as const, forecasts: [] })));
      splitOldFilters(this.state);
      void this.load(this.first(local ?? false));
    } catch (error) {
      this.fail(error);
    }
    if (restored.model) await this.openExample(restored.model, 0, restored.size);
    if (restored.with) await this.openExample(restored.with, 1);
    if (restored.file) await this.openUrl(restored.file);
    this.draw();
    document.body.dataset.ready = 'true';
  }

  /** After the library stopped, nothing is open any more. */
  private async restart(): Promise<void> {
    for (const entry of this.state.entries) Object.assign(entry, { status: 'absent', forecasts: [] });
    this.state.slots = [undefined, undefined];
    this.warmed = undefined;
    this.started = await this.core.start();
    void this.load(this.first(false));
    this.draw();
  }

  private first(local: boolean): Entry[] {
    const wanted = new Set([this.state.selected, this.state.server, this.state.other]);
    let sum = 0;
    return [...this.state.entries].sort((a, b) => a.bytes - b.bytes).filter((entry) => {
      const fits = (sum += entry.bytes) <= FIRST_BYTES;
      return entry.file && (local || fits || wanted.has(entry.card.name));
    });
  }

  /** Fetches bundles, and forecasts with each as soon as it is there. */
  load = async (entries: Entry[]): Promise<void> => {
    const each = async (entry: Entry) => {
      try {
        const response = await fetch(entry.file!);
        if (!response.ok) throw new Error(`${entry.file}: ${response.status} ${response.statusText}`);
        await this.core.send('addBundle', `${entry.card.name}.vtb`, new Uint8Array(await response.arrayBuffer()));
        entry.status = 'open';
        if (this.state.slots[0]) await this.forecast(entry);
        else await this.warm(entry);
      } catch (error) {
        entry.status = 'failed';
        entry.problem = (error as Error).message;
      }
      if ([this.state.selected, this.state.server, this.state.other].includes(entry.card.name)) this.draw();
      else this.drawSoon();
    };
    // Few at a time, so that a model that is dropped meanwhile does not wait for all of them.
    const waiting = entries.filter(({ file, status }) => file && (status === 'absent' || status === 'failed'));
    for (const entry of waiting) entry.status = 'loading';
    this.drawSoon();
    const lane = async () => {
      for (let next = waiting.shift(); next; next = waiting.shift()) await each(next);
    };
    await Promise.all(Array.from({ length: LANES }, lane));
    await this.settle();
  };

  /** A browser compiles what runs often, and bundles unfold when first asked: both before a model comes. */
  private async warm(entry: Entry): Promise<void> {
    const [example] = this.started?.examples ?? [];
    if (!example) return;
    this.warmed ??= this.core.call('example', example).then((card) => card.id);
    await this.core.call('forecast', await this.warmed, undefined, entry.card.name).catch(() => undefined);
    if (this.state.slots[0]) await this.forecast(entry);
  }

  private async forecast(entry: Entry): Promise<void> {
    const { slots } = this.state;
    const ask = async (slot: Slot | undefined) => (slot ? this.core.call('forecast', slot.card.id, slot.size, entry.card.name).catch((error: Error) => error) : undefined);
    const found = await Promise.all(slots.map(ask));
    if (slots.every((slot, place) => slot === this.state.slots[place])) entry.forecasts = found;
  }

  /** Forecasts with all open bundles. */
  private async forecastAll(): Promise<void> {
    const asked = ++this.asked;
    const begun = performance.now();
    const open = this.state.entries.filter((entry) => entry.status === 'open');
    await Promise.all(open.map((entry) => this.forecast(entry)));
    if (asked !== this.asked) return;
    document.body.dataset.forecastMs = String(performance.now() - begun);
    await this.settle();
  }

  /** Chooses a device where none is chosen, and shows everything. */
  private async settle(): Promise<void> {
    const [best] = sorted(visible(this.state)).filter((entry) => isForecast(entry.forecasts[0]));
    const selected = this.state.selected ? this.entry(this.state.selected) : undefined;
    if (best && !(selected && (selected.status === 'loading' || isForecast(selected.forecasts[0])))) this.state.selected = best.card.name;
    this.draw();
    if (best && isForecast(best.forecasts[0])) {
      const open = this.state.entries.filter((entry) => isForecast(entry.forecasts[0])).length;
      announce(`Forecasts by ${plural(open, 'bundle')}. The fastest: ${nameOf(best)}, ${time(best.forecasts[0].latency.point)}.`);
    }
  }

  // Models

  private async take(slot: Slot, place: Place): Promise<void> {
    const before = this.state.slots[place];
    if (before) void this.core.call('close', before.card.id);
    const slots = [...this.state.slots];
    slots[place] = slot;
    this.state.slots = slots;
    for (const entry of this.state.entries) entry.forecasts = entry.forecasts.map((of, at) => (at === place ? undefined : of));
    this.view.problem.replaceChildren();
    await this.forecastAll();
  }

  async openExample(name: string, place: Place, size?: string): Promise<void> {
    try {
      const card = await this.core.call('example', name);
      await this.take({ card, example: name, size }, place);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Opens a file of this host, as `vitempo explore` does. */
  private async openUrl(path: string): Promise<void> {
    const url = new URL(path, document.baseURI);
    if (url.origin !== location.origin) return this.fail(`${path} is not on this host`);
    try {
      const response = await fetch(url);
      if (!response.ok) throw new Error(`${path}: ${response.status} ${response.statusText}`);
      await this.openModel(url.pathname.split('/').pop() ?? 'model.onnx', await response.blob(), 0);
    } catch (error) {
      this.fail(error);
    }
  }

  async openFiles(files: Iterable<File>, place: Place): Promise<void> {
    for (const file of files) {
      try {
        if (file.name.endsWith('.vtb')) await this.openBundle(file.name, await file.arrayBuffer());
        else await this.openModel(file.name, file, place);
      } catch (error) {
        this.fail(error);
      }
    }
  }

  private async openBundle(name: string, content: ArrayBuffer): Promise<void> {
    const size = content.byteLength;
    const card = await this.core.send('addBundle', name, new Uint8Array(content));
    const others = this.state.entries.filter((other) => other.card.name !== card.name);
    this.state.entries = labelled([...others, { card, bytes: size, status: 'open' as const, forecasts: [] }]);
    const entry = this.entry(card.name)!;
    this.state.selected = card.name;
    await this.forecast(entry);
    await this.settle();
  }

  private async openModel(name: string, content: Blob, place: Place, dimensions: Record<string, number> = NO_DIMENSIONS): Promise<void> {
    const begun = performance.now();
    const read = await this.core.send('read', name, new Uint8Array(await content.arrayBuffer()), dimensions as never);
    document.body.dataset.readMs = String(performance.now() - begun);
    if (read.kind === 'open') return this.askDimensions(name, content, place, read.dimensions);
    const { kind: _, ...card } = read;
    await this.take({ card }, place);
  }

  /** Dimensions that the file leaves open get their values from people. */
  private askDimensions(name: string, content: Blob, place: Place, open: OpenDimension[]): void {
    const inputs = open.map((of, index) => ({ of, field: h('input', { type: 'number', id: `dimension-${index}`, min: 1, max: 65536, value: 1, required: true }) }));
    const form = h(
      'form',
      { class: 'dimensions' },
      h('h2', {}, `${name} leaves ${plural(open.length, 'dimension')} open`),
      ...inputs.map(({ of, field }) => h('p', {}, h('label', { for: field.id }, h('code', {}, of.symbol), h('span', { class: 'quiet' }, ` of input ${of.input}, dimension ${of.index}`)), field)),
      h('div', { class: 'tools' }, h('button', { type: 'submit', class: 'primary' }, 'Forecast'), h('button', { type: 'button', class: 'plain', onclick: () => this.drawDrop() }, 'Cancel')),
    );
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      const dimensions = Object.fromEntries(inputs.map(({ of, field }) => [of.symbol, field.valueAsNumber]));
      this.drawDrop();
      void this.openModel(name, content, place, dimensions).catch((error) => this.fail(error));
    });
    this.view.drop.replaceChildren(form);
    inputs[0]?.field.focus();
  }

  // Views

  private layout(): void {
    const { view } = this;
    const tab = (of: Tab) => h('button', { type: 'button', role: 'tab', id: `tab-${of}`, 'aria-controls': 'panel', onclick: () => this.choose(of) }, TAB_NAMES[of]);
    view.tabs.replaceChildren(...TABS.map(tab));
    view.tabs.addEventListener('keydown', (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step === undefined) return;
      const next = TABS[(TABS.indexOf(this.state.tab) + step + TABS.length) % TABS.length]!;
      this.choose(next);
      document.getElementById(`tab-${next}`)?.focus();
    });
    const pictures = h(
      'div',
      { class: 'tools', role: 'group', 'aria-label': 'Download the forecasts' },
      ...(['CSV', 'JSON', 'SVG', 'PNG'] as const).map((kind) => h('button', { type: 'button', class: 'plain', onclick: () => void this.download(kind) }, kind)),
    );
    this.root.replaceChildren(
      view.problem,
      view.drop,
      view.model,
      h(
        'div',
        { class: 'columns' },
        h('section', { class: 'left', 'aria-labelledby': 'devices-title' }, h('div', { class: 'title' }, h('h2', { id: 'devices-title' }, 'Devices'), view.count, pictures), h('details', { class: 'filter-box' }, h('summary', {}, 'Filter'), view.filters), view.devices),
        h('section', { class: 'right', 'aria-label': 'About the forecast' }, view.tabs, view.panel),
      ),
    );
    this.dropping();
  }

  private dropping(): void {
    const over = (on: boolean) => document.body.classList.toggle('over', on);
    window.addEventListener('dragover', (event) => { event.preventDefault(); over(true); });
    window.addEventListener('dragleave', (event) => { if (!event.relatedTarget) over(false); });
    window.addEventListener('drop', (event) => {
      event.preventDefault();
      over(false);
      void this.openFiles(event.dataTransfer?.files ?? [], 0);
    });
  }

  private picker(id: string, place: Place, text: string): HTMLElement {
    const input = h('input', { type: 'file', id, accept: '.onnx,.tflite,.vtb', multiple: true, class: 'hidden-input' });
    input.addEventListener('change', () => {
      void this.openFiles([...(input.files ?? [])], place).then(() => { input.value = ''; });
    });
    return h('span', { class: 'file' }, input, h('label', { for: id, class: 'primary button' }, text));
  }

  private examples(place: Place): HTMLElement[] {
    return (this.started?.examples ?? []).map((name) => h('button', { type: 'button', class: 'chip', 'data-example': name, onclick: () => void this.openExample(name, place) }, name));
  }

  private drawDrop(): void {
    const small = this.state.slots[0] !== undefined;
    this.view.drop.replaceChildren(
      h(
        'section',
        { class: small ? 'drop small' : 'drop', 'aria-label': 'Open a model' },
        small ? null : h('h1', {}, 'How fast is this model on that device?'),
        small ? null : h('p', { class: 'lead' }, `Drop an ONNX or TensorFlow Lite file. Its latency with an interval on phones, boards, NPUs, GPUs and servers, why it takes that long, and where to cut it. The file stays on this machine.`),
        h('div', { class: 'pick' }, this.picker('file', 0, small ? 'Another model' : 'Choose a file'), h('span', { class: 'quiet' }, small ? 'or' : 'or drop it anywhere, or try'), ...this.examples(0)),
      ),
    );
  }

  private drawModel(): void {
    const slot = this.state.slots[0];
    if (!slot) return this.view.model.replaceChildren();
    const { card } = slot;
    const facts = [card.inputs.join(', '), plural(card.operators, 'operator'), `${count(card.flops)}FLOPs`.replace('\u202f', ' '), `${count(card.parameters)} parameters`.replace('\u202f', ' ')];
    this.view.model.replaceChildren(
      h('section', { class: 'model', 'aria-label': 'The model' }, h('div', {}, h('h1', { id: 'model-name' }, card.name), h('p', { class: 'quiet' }, facts.join(' · ')), ...card.notes.map((note) => h('p', { class: 'hint' }, note))), this.sizeControl(slot)),
    );
  }

  private sizeControl(slot: Slot): HTMLElement | null {
    const own = slot.card.image;
    if (!own) return null;
    const now = (slot.size ?? `${own.height}x${own.width}`).split('x').map(Number) as [number, number];
    const [height, width] = now.map((side, at) => h('input', { type: 'number', id: at === 0 ? 'height' : 'width', min: 1, max: 65536, value: side, 'aria-label': at === 0 ? 'Height of the image, pixels' : 'Width of the image, pixels' })) as [HTMLInputElement, HTMLInputElement];
    const unit = [64, 32, 16, 8, 7, 4].find((of) => own.height % of === 0 && own.width % of === 0) ?? 1;
    const slider = h('input', { type: 'range', id: 'size', min: unit, max: Math.max(own.height * 3, 512), step: unit, 'aria-label': 'Height of the image, pixels; the width follows' });
    slider.value = String(now[0]);
    const apply = debounce(120, () => void this.resize(slot, height.valueAsNumber, width.valueAsNumber));
    slider.addEventListener('input', () => {
      height.value = slider.value;
      width.value = String(Math.max(1, Math.round((slider.valueAsNumber * own.width) / own.height)));
      apply();
    });
    for (const field of [height, width]) field.addEventListener('change', () => { slider.value = height.value; apply(); });
    const back = h('button', { type: 'button', class: 'plain', onclick: () => { height.value = String(own.height); width.value = String(own.width); slider.value = String(own.height); apply(); } }, 'Reset');
    return h('div', { class: 'size', role: 'group', 'aria-label': 'Size of images' }, h('label', { for: 'size', class: 'small' }, 'Image'), slider, h('span', { class: 'sides' }, height, ' × ', width), back);
  }

  private async resize(slot: Slot, height: number, width: number): Promise<void> {
    const own = slot.card.image;
    if (this.state.slots[0] !== slot || !own || !(height > 0) || !(width > 0)) return;
    const next: Slot = { ...slot, size: height === own.height && width === own.width ? undefined : `${height}x${width}` };
    const asked = ++this.asked;
    try {
      // The first answer says whether the model works at this size.
      await this.core.call('atSize', slot.card.id, `${height}x${width}`, []).then((row) => { if (row.problem) throw new Error(row.problem); });
    } catch (error) {
      if (asked === this.asked) this.fail(error);
      return;
    }
    if (asked !== this.asked) return;
    this.view.problem.replaceChildren();
    // The control stays, so that it keeps the focus: only its slot is another.
    Object.assign(slot, next);
    this.state.slots = [...this.state.slots];
    await this.forecastAll();
  }

  drawSoon = debounce(40, () => this.draw(false));

  /** Everything but the model, whose controls keep the focus. */
  private draw(all = true): void {
    const { view, state } = this;
    const name = state.slots[0]?.card.name;
    if (view.model.dataset.of !== String(state.slots[0]?.card.id)) {
      view.model.dataset.of = String(state.slots[0]?.card.id);
      this.drawDrop();
      this.drawModel();
    }
    document.title = name ? `${name} · vitempo explorer` : 'vitempo explorer: how fast is this model on that device?';
    this.root.classList.toggle('empty', !name);
    const focused = document.activeElement as HTMLElement | null;
    const { facet, value, bundle } = focused?.dataset ?? {};
    view.filters.replaceChildren(filters(state, () => void this.settle()));
    view.devices.replaceChildren(devices(state, { choose: (chosen) => void this.select(chosen), load: (entries) => void this.load(entries) }));
    if (facet) this.root.querySelector<HTMLElement>(`[data-facet="${CSS.escape(facet)}"][data-value="${CSS.escape(value ?? '')}"]`)?.focus();
    if (bundle) this.root.querySelector<HTMLElement>(`[data-bundle="${CSS.escape(bundle)}"]`)?.focus();
    const shown = visible(state);
    view.count.textContent = `${shown.filter((entry) => entry.status === 'open').length} of ${plural(state.entries.length, 'bundle')}`;
    for (const of of TABS) {
      const button = document.getElementById(`tab-${of}`);
      button?.setAttribute('aria-selected', String(of === state.tab));
      button?.setAttribute('tabindex', of === state.tab ? '0' : '-1');
    }
    view.panel.setAttribute('aria-labelledby', `tab-${state.tab}`);
    this.remember();
    if (all) void this.drawPanel();
  }

  private choose(tab: Tab): void {
    this.state.tab = tab;
    this.draw();
  }

  private async select(name: string): Promise<void> {
    this.state.selected = name;
    this.draw();
  }

  /** The chosen panel; a later one wins. */
  private async drawPanel(): Promise<void> {
    const shown = ++this.shown;
    const still = () => shown === this.shown;
    const { panel } = this.view;
    panel.setAttribute('aria-busy', 'true');
    try {
      const content = await this.panel(still);
      if (still() && content) panel.replaceChildren(...content);
    } catch (error) {
      if (still()) panel.replaceChildren(h('p', { class: 'problem' }, (error as Error).message));
    }
    if (still()) {
      panel.setAttribute('aria-busy', 'false');
      document.body.dataset.panel = this.state.tab;
    }
  }

  private async panel(still: () => boolean): Promise<Node[] | undefined> {
    const { state, core } = this;
    const slot = state.slots[0];
    const entry = state.selected ? this.entry(state.selected) : undefined;
    if (state.tab === 'sampler') return this.samplerPanel();
    if (!slot) return [h('p', { class: 'quiet' }, 'Open a model, and its forecast is explained here.')];
    if (entry?.status === 'loading') return onItsWay();
    if (!entry || entry.status !== 'open') return [h('p', { class: 'quiet' }, 'Choose a device.')];
    switch (state.tab) {
      case 'why': {
        const details = await core.call('details', slot.card.id, slot.size, entry.card.name);
        return [why(details, entry, slot)];
      }
      case 'sizes':
        return [await sizes(this, still)];
      case 'compare':
        return this.comparePanel(slot, entry);
      case 'split':
        return this.splitPanel(slot, entry);
    }
  }

  private async comparePanel(slot: Slot, entry: Entry): Promise<Node[]> {
    const second = this.state.slots[1];
    const close = () => {
      this.state.slots = [slot, undefined];
      for (const each of this.state.entries) each.forecasts = [each.forecasts[0]];
      this.draw();
    };
    const pick = h('div', { class: 'pick' }, this.picker('second', 1, second ? 'Another second model' : 'Choose a second model'), ...this.examples(1).filter((of) => of.dataset.example !== slot.card.name), second ? h('button', { type: 'button', class: 'plain', onclick: close }, 'Without') : null);
    if (!second) return [h('p', {}, `Which model stands beside ${slot.card.name}?`), pick];
    const found = await this.core.call('compare', slot.card.id, slot.size, second.card.id, second.size, entry.card.name);
    return [pick, comparison(found, [slot.card.name, second.card.name], nameOf(entry)), h('p', { class: 'hint' }, `Among the devices, ${second.card.name} is the ring.`)];
  }

  /** Whether a bundle, which a link may name, is being fetched. */
  private isComing(name: string | undefined): boolean {
    return name !== undefined && this.entry(name)?.status === 'loading';
  }

  private openEntries(): Entry[] {
    return this.state.entries.filter((entry) => entry.status === 'open');
  }

  private chooser(id: string, text: string, chosen: string | undefined, onchange: (name: string) => void): HTMLElement {
    const select = h('select', { id }, ...this.openEntries().map((entry) => h('option', { value: entry.card.name, selected: entry.card.name === chosen }, nameOf(entry))));
    select.addEventListener('change', () => onchange(select.value));
    return h('p', { class: 'field' }, h('label', { for: id }, text), select);
  }

  private async splitPanel(slot: Slot, entry: Entry): Promise<Node[]> {
    const { state } = this;
    if (this.isComing(state.server)) return onItsWay();
    if (!state.server || this.entry(state.server)?.status !== 'open') {
      // The fastest of the others.
      state.server = sorted(this.openEntries()).find((of) => of !== entry && isForecast(of.forecasts[0]))?.card.name;
    }
    const result = h('div', { class: 'result' });
    const rate = h('output', { for: 'bandwidth' }, bandwidth(state.bandwidth));
    let asked = 0;
    const update = async () => {
      const mine = ++asked;
      rate.textContent = bandwidth(state.bandwidth);
      slider.setAttribute('aria-valuetext', rate.textContent);
      this.remember();
      try {
        const found = await this.core.call('split', slot.card.id, slot.size, entry.card.name, state.server ?? '', state.bandwidth, state.roundTripMs * 1e6);
        if (mine === asked) result.replaceChildren(split(found, state.bandwidth));
      } catch (error) {
        if (mine === asked) result.replaceChildren(h('p', { class: 'problem' }, (error as Error).message));
      }
    };
    const soon = debounce(60, () => void update());
    const slider = h('input', { type: 'range', id: 'bandwidth', min: 0, max: 100, step: 0.5 });
    slider.value = String(placeOf(state.bandwidth));
    slider.addEventListener('input', () => { state.bandwidth = rateAt(slider.valueAsNumber); soon(); });
    const trip = h('input', { type: 'number', id: 'round-trip', min: 0, max: 10000, step: 1, value: state.roundTripMs });
    trip.addEventListener('change', () => { state.roundTripMs = Math.max(0, trip.valueAsNumber || 0); soon(); });
    await update();
    return [
      h('p', {}, `Device: ${nameOf(entry)}.`),
      this.chooser('server', 'Server', state.server, (name) => { state.server = name; soon(); }),
      h('p', { class: 'field' }, h('label', { for: 'bandwidth' }, 'Bandwidth'), slider, rate),
      h('p', { class: 'field' }, h('label', { for: 'round-trip' }, 'Round trip, ms'), trip),
      result,
    ];
  }

  private async samplerPanel(): Promise<Node[]> {
    const { state } = this;
    if (this.isComing(state.selected) || this.isComing(state.other)) return onItsWay();
    if (!state.selected || this.entry(state.selected)?.status !== 'open') state.selected = this.openEntries()[0]?.card.name;
    if (!state.other || state.other === state.selected || this.entry(state.other)?.status !== 'open') {
      state.other = this.openEntries().find(({ card }) => card.name !== state.selected)?.card.name;
    }
    const first = this.chooser('sample-device', 'Device', state.selected, (name) => { state.selected = name; this.draw(); });
    const second = this.chooser('other-device', 'Beside', state.other, (name) => { state.other = name; this.remember(); void this.sampler.latencies(); });
    await this.sampler.show();
    return [first, second, this.sampler.element];
  }

  private async download(kind: 'CSV' | 'JSON' | 'SVG' | 'PNG'): Promise<void> {
    const slot = this.state.slots[0];
    const name = slot?.card.name ?? 'model';
    const size = slot?.size;
    const file = slot ? fileName(slot) : name;
    const rows = sorted(visible(this.state)).filter((entry) => isForecast(entry.forecasts[0]));
    const of = rows.map((entry) => ({ entry, forecast: entry.forecasts[0] as Exclude<Entry['forecasts'][0], Error | undefined> }));
    const title = `${name}${size ? ` at ${size}` : ''}`;
    if (kind === 'CSV') {
      save(`${file}.csv`, 'text/csv', csv([['model', 'size', 'bundle', 'environment', 'latency_ns', 'lower_ns', 'upper_ns', 'level', 'operators', 'fallback', 'extrapolating'], ...of.map(({ entry, forecast: { latency, coverage } }) => [name, size, entry.card.name, entry.card.description, latency.point, latency.lower, latency.upper, latency.level, coverage.operators, coverage.fallback, coverage.extrapolating])]));
    } else if (kind === 'JSON') {
      save(`${file}.json`, 'application/json', JSON.stringify({ model: name, size: size ?? null, forecasts: of.map(({ entry, forecast }) => ({ ...forecast, environment: entry.card.description })) }, null, 2));
    } else if (kind === 'SVG') save(`${file}.svg`, 'image/svg+xml', svgText(intervals(title, rows)));
    else await savePng(`${file}.png`, intervals(title, rows));
  }
}

function theme(): void {
  const button = document.getElementById('theme')!;
  const dark = () => (document.documentElement.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  const show = () => button.setAttribute('aria-pressed', String(dark()));
  button.addEventListener('click', () => { document.documentElement.dataset.theme = dark() ? 'light' : 'dark'; show(); });
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', show);
  show();
}

function linkButton(): void {
  const button = document.getElementById('link')!;
  button.addEventListener('click', () => {
    void navigator.clipboard.writeText(location.href).then(
      () => announce('The link is copied. It restores what is shown, without the model.'),
      () => announce('The link is in the address bar.'),
    );
  });
}

theme();
linkButton();
const app = new App(document.getElementById('app')!);
void app.start().catch((error) => app.fail(error));
