// WebAssembly says what the program says: every shipped bundle over the shipped models, and over
// those of the folder VITEMPO_ZOO where that is set, to the last bit.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { gunzipSync } from 'node:zlib';
import { Explorer, initSync } from '../src/generated/core.js';

const page = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = join(page, '../..');
const dist = join(root, 'web/dist');
const program = process.env.VITEMPO_PROGRAM ?? join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), 'release/vitempo');

function open() {
  initSync({ module: gunzipSync(readFileSync(join(dist, 'core.bin'))) });
  const explorer = new Explorer();
  const { bundles } = JSON.parse(readFileSync(join(dist, 'bundles/index.json'), 'utf8'));
  for (const { card, file } of bundles) {
    assert.deepEqual(explorer.addBundle(basename(file), readFileSync(join(dist, file))), card);
  }
  return { explorer, names: bundles.map(({ card }) => card.name) };
}

function models(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name);
    if (statSync(path).isDirectory()) return models(path);
    return name.endsWith('.onnx') ? [path] : [];
  });
}



test('forecasts are those of the program', { skip: existsSync(program) ? false : `there is no ${program}` }, () => {
  const { explorer, names } = open();
  const files = models(join(root, 'tests/models')).concat(process.env.VITEMPO_ZOO ? models(process.env.VITEMPO_ZOO) : []);
  let compared = 0;
  for (const file of files) {
    const bundles = names.flatMap((name) => ['--bundle', join(dist, `bundles/${name}.vtb`)]);
    let text;
    try {
      text = execFileSync(program, ['predict', file, ...bundles, '--format', 'json'], { maxBuffer: 1 << 28, stdio: ['ignore', 'pipe', 'ignore'] });
    } catch (error) {
      // Some bundle refuses the model; the others are there.
      text = error.stdout;
    }
    const [{ forecasts, left_out: refused }] = JSON.parse(text).models ?? JSON.parse(text);
    const { id } = explorer.read(basename(file), readFileSync(file), {});
    for (const { bundle, latency_ns: expected, coverage } of forecasts) {
      const found = explorer.forecast(id, undefined, bundle);
      for (const end of ['point', 'lower', 'upper']) {
        assert.equal(found.latency[end], expected[end], `${file} ${bundle} ${end}`);
        compared += 1;
      }
      assert.equal(found.coverage.fallback, coverage.fallback);
    }
    for (const { bundle, reason } of refused) assert.throws(() => explorer.forecast(id, undefined, bundle), { message: reason });
    explorer.close(id);
  }
  console.log(`${files.length} models, ${names.length} bundles: ${compared} numbers equal to the last bit`);
  assert.ok(compared >= 3 * 3 * 30, `${compared}`);
});

test('files and texts of any content are answered', () => {
  const { explorer, names } = open();
  const whole = readFileSync(join(root, 'tests/models/mobilevit_xxs.onnx'));
  // The same numbers in every run.
  let state = 42;
  const random = (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state % below;
  };
  let [read, refused] = [0, 0];
  for (let run = 0; run < 400; run++) {
    const bytes = new Uint8Array(whole);
    for (let change = 0; change <= random(4); change++) bytes[random(bytes.length)] = random(256);
    const cut = random(3) === 0 ? bytes.slice(0, random(bytes.length)) : bytes;
    try {
      const answer = explorer.read(`model-${run}.${random(5) === 0 ? 'tflite' : 'onnx'}`, cut, {});
      read += 1;
      if (answer.kind !== 'model') continue;
      const name = names[random(names.length)];
      explorer.details(answer.id, undefined, name);
      explorer.close(answer.id);
    } catch (error) {
      assert.ok(!(error instanceof WebAssembly.RuntimeError), `${error}`);
      assert.ok(error.message.length > 0);
      refused += 1;
    }
  }
  assert.ok(read > 9 && refused > 99, `${read} read, ${refused} refused`);
  const wrong = [() => explorer.forecast(99, undefined, names[0]), () => explorer.atSize(1, 'wide', []), () => explorer.forecast(1, '0x0', names[0]), () => explorer.sample('no-space', 1), () => explorer.sampled('hybrid-vit', '\u0000'), () => explorer.addBundle('', new Uint8Array(3)), () => explorer.read('', whole, { batch: -1 }), () => explorer.read('', whole, null), () => explorer.draw('hybrid-vit', 0, 1).at(0).length];
  for (const call of wrong) assert.throws(call, (error) => !(error instanceof WebAssembly.RuntimeError), String(call));
});
