// WebAssembly beside the library as the program has it, in turns: `make web-bench`. Times are wall
// times, medians over the repetitions; each repetition begins with an empty session.
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Explorer, initSync } from '../src/generated/core.js';

const page = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = join(page, '../..');
const MODEL = 'vit_tiny_patch16_224.onnx';
const SPACE = 'hybrid-vit';
const REPETITIONS = 9;
const SPACES = [[10_000, 'epyc-onnxruntime-f32-1t'], [10_000, 'samsung-galaxy-s24-tflite-npu-f16'], [1000, 'epyc-openvino-f32-1t']];

const model = readFileSync(join(root, 'tests/models', MODEL));
const bundles = ['bundles/adapted', 'bundles'].flatMap((folder) =>
  readdirSync(join(root, folder)).filter((file) => file.endsWith('.vtb')).sort().map((file) => [file, readFileSync(join(root, folder, file))]));
initSync({ module: readFileSync(join(page, 'src/generated/core.wasm')) });

function timed(work) {
  const begun = performance.now();
  return [work(), performance.now() - begun];
}

function repetition(count, of) {
  const explorer = new Explorer();
  const names = bundles.map(([file, bytes]) => explorer.addBundle(file, bytes).name);
  const all = (id) => names.forEach((name) => explorer.forecast(id, undefined, name));
  const [{ id }, read] = timed(() => explorer.read(MODEL, model, {}));
  const [, first] = timed(() => all(id));
  explorer.close(id);
  const once = explorer.read(MODEL, model, {}).id;
  const [, again] = timed(() => all(once));
  const drawn = explorer.draw(SPACE, count, 1);
  const [, space] = timed(() => explorer.latencies(SPACE, of, drawn));
  explorer.free();
  return { read, first, again, space };
}

const native = spawn('cargo', ['bench', '--quiet', '--locked', '-p', 'vitempo-web', '--bench', 'explorer'], { cwd: root, stdio: ['pipe', 'pipe', 'inherit'] });
const lines = createInterface({ input: native.stdout })[Symbol.asyncIterator]();
async function natively(count, of) {
  native.stdin.write(`${count} ${of}\n`);
  for (;;) {
    const { value, done } = await lines.next();
    if (done) throw new Error('the native benchmark ended');
    if (value.startsWith('{')) return JSON.parse(value);
  }
}

function median(numbers) {
  return numbers.toSorted((a, b) => a - b)[Math.floor(numbers.length / 2)];
}

function line(what, pairs) {
  const of = (index) => median(pairs.map((pair) => pair[index]));
  const ratios = pairs.map(([a, b]) => b / a).toSorted((a, b) => a - b);
  console.log(`${what.padEnd(64)} ${of(0).toFixed(1).padStart(9)} ${of(1).toFixed(1).padStart(9)} ${median(ratios).toFixed(2).padStart(6)}  ${ratios[0].toFixed(2)} to ${ratios.at(-1).toFixed(2)}`);
}

console.log(`${''.padEnd(64)} native ms   wasm ms  ratio, and its range over ${REPETITIONS} pairs`);
for (const [place, [count, of]] of SPACES.entries()) {
  const pairs = [];
  for (let run = 0; run < REPETITIONS; run++) pairs.push([await natively(count, of), repetition(count, of)]);
  const pick = (name) => pairs.map(([a, b]) => [a[name], b[name]]);
  if (place === 0) {
    line(`${MODEL} read`, pick('read'));
    line(`its forecasts on ${bundles.length} bundles, first`, pick('first'));
    line('again, after it was closed and read', pick('again'));
  }
  line(`${count} of ${SPACE}, ${of}`, pick('space'));
}
native.stdin.end();
