// The page as a person uses it, in Chromium. CHROMIUM names the program; one that is not there is
// an error, while without the variable these tests are skipped where no Chromium is found.
// With SCREENSHOTS=FOLDER it writes the pictures of docs/explorer.md.
import assert from 'node:assert/strict';
import { existsSync, mkdirSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';
import { dynamic, padded } from './models.mjs';
import { serve } from './serve.mjs';

const page = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = join(page, '../..');
const models = join(root, 'tests/models');
const program = process.env.CHROMIUM ?? ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'].find((path) => existsSync(path));
const skip = program ? false : 'there is no Chromium: CHROMIUM names one';
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const FLAGS = ['--headless', '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--no-proxy-server', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
const WAIT = { timeout: 120_000 };
const LARGEST_FIRST_TRANSFER = 3_000_000;

let host;
let browser;

before(async () => {
  if (skip) return;
  host = await serve(join(root, 'web/dist'));
  browser = await chromium.launch({ executablePath: program, args: FLAGS });
});

after(async () => {
  await browser?.close();
  host?.close();
});

/** A page, closed afterwards: it asked no other host and logged no error. */
async function visit({ width = 1440, height = 1000, scheme = 'light', hash = '', bypassCSP = false, errors = 0 } = {}, use) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme, acceptDownloads: true, bypassCSP });
  const opened = await context.newPage();
  opened.setDefaultTimeout(WAIT.timeout);
  const [asked, logged] = [[], []];
  opened.on('request', (request) => asked.push(request.url()));
  opened.on('console', (message) => ['error', 'warning'].includes(message.type()) && logged.push(message.text()));
  opened.on('pageerror', (error) => logged.push(error.message));
  try {
    await opened.goto(host.url + hash, WAIT);
    await opened.waitForSelector('body[data-ready=true]', WAIT);
    await use(opened, context);
    assert.deepEqual(asked.filter((url) => !url.startsWith(host.url) && !url.startsWith('blob:')), [], 'requests to other hosts');
    assert.equal(logged.length, errors, logged.join('\n'));
  } finally {
    await context.close();
  }
}

/** Drops a file on the page, as a person does. */
async function drop(opened, name, bytes) {
  const data = await opened.evaluateHandle(([name, base64]) => {
    const transfer = new DataTransfer();
    transfer.items.add(new File([Uint8Array.from(atob(base64), (c) => c.charCodeAt(0))], name));
    return transfer;
  }, [name, bytes.toString('base64')]);
  await opened.dispatchEvent('body', 'drop', { dataTransfer: data });
}

const shown = (opened, panel) => opened.waitForSelector(`body[data-panel=${panel}] #panel[aria-busy=false]`, WAIT);
const rows = (opened) => opened.locator('button.row[data-bundle]');
const settled = (opened, count) => opened.waitForFunction((count) => document.querySelectorAll('button.row[data-bundle] .range').length >= count, count, WAIT);
const nanoseconds = async (opened, selector) => Number(await opened.locator(selector).first().getAttribute('data-ns'));

async function accessible(opened, what) {
  await opened.evaluate(axe);
  const { violations } = await opened.evaluate(() => globalThis.axe.run(document, { resultTypes: ['violations'] }));
  assert.deepEqual(violations.map(({ id, nodes }) => `${what}: ${id}: ${nodes.map((node) => node.target.join(' ')).slice(0, 3).join(', ')}`), []);
}

async function picture(opened, name) {
  const folder = process.env.SCREENSHOTS;
  if (!folder) return;
  mkdirSync(folder, { recursive: true });
  await opened.evaluate(() => window.scrollTo(0, 0));
  await opened.screenshot({ path: join(folder, `${name}.png`) });
}

test('a dropped file is forecast on every bundle, with little transferred', { skip }, async () => {
  host.sent.clear();
  await visit({}, async (opened) => {
    await picture(opened, 'start');
    await drop(opened, 'vit_tiny_patch16_224.onnx', readFileSync(join(models, 'vit_tiny_patch16_224.onnx')));
    await settled(opened, 20);
    await shown(opened, 'why');
    const bytes = [...host.sent.values()].reduce((sum, size) => sum + size, 0);
    console.log(`first forecast: ${bytes} bytes transferred`);
    assert.ok(bytes <= LARGEST_FIRST_TRANSFER, `${bytes} bytes`);
    await opened.locator('.more summary').click();
    await opened.locator('#load-all').click();
    await settled(opened, 34);
    const latencies = await rows(opened).locator('.value').allTextContents();
    assert.equal(latencies.length, 34);
    assert.match(latencies[0], /^\d[\d.]*\s(ns|µs|ms|s)$/u);
    assert.equal(await opened.locator('#model-name').textContent(), 'vit_tiny_patch16_224');
    // The same again, with every bundle loaded: what the library and its messages take.
    await opened.setInputFiles('#file', join(models, 'vit_tiny_patch16_224.onnx'));
    await opened.waitForFunction(() => document.querySelector('#status')?.textContent.includes('35 bundles'), undefined, WAIT);
    const { readMs, forecastMs } = await opened.evaluate(() => ({ ...document.body.dataset }));
    console.log(`vit_tiny on 35 bundles: read in ${Math.round(readMs)} ms, forecast in ${Math.round(forecastMs)} ms`);
    await rows(opened).filter({ hasText: 'onnxruntime · cpu · f32' }).first().click();
    await shown(opened, 'why');
    await opened.waitForFunction(() => document.querySelector('.environment')?.textContent.includes('onnxruntime'), undefined, WAIT);
    assert.match(await opened.locator('.coverage').textContent(), /344 of 344 kernels by trained predictors/);
    assert.match(await opened.locator('.memory').textContent(), /of memory/);
    await picture(opened, 'why');
    await opened.locator('#operator-search').fill('blocks.3/mlp');
    assert.ok((await opened.locator('.operators tbody tr').count()) > 2);
    await opened.locator('.flame button', { hasText: 'blocks' }).first().click();
    assert.match(await opened.locator('.crumbs').textContent(), /blocks/);
  });
});

test('image sizes, filters and downloads', { skip }, async () => {
  await visit({ hash: '#model=vit_tiny_patch16_224' }, async (opened) => {
    await settled(opened, 20);
    await shown(opened, 'why');
    const before = await nanoseconds(opened, '.headline .big');
    await opened.locator('#size').focus();
    await opened.keyboard.press('ArrowRight');
    await opened.waitForFunction((before) => Number(document.querySelector('.headline .big')?.dataset.ns) > before, before, WAIT);
    assert.equal(await opened.locator('#size').evaluate((of) => of === document.activeElement), true, 'the slider keeps the focus');
    assert.match(await opened.locator('.why code').first().textContent(), /--size \d+x\d+ --bundle /);
    await opened.locator('#height').fill('7');
    await opened.locator('#height').press('Enter');
    assert.match(await opened.locator('.problem').textContent(), /node/);
    await opened.getByRole('button', { name: 'Reset' }).click();
    await opened.waitForFunction((before) => Number(document.querySelector('.headline .big')?.dataset.ns) === before, before, WAIT);
    await opened.locator('.filter-box summary').click();
    const all = await rows(opened).count();
    await opened.locator('[data-facet=processor][data-value=gpu]').click();
    const some = await rows(opened).count();
    assert.ok(some > 0 && some < all, `${some} of ${all}`);
    for (const text of await rows(opened).locator('.runtime').allTextContents()) assert.match(text, /gpu/);
    for (const [kind, begins] of [['CSV', 'model,size,bundle'], ['JSON', '{'], ['SVG', '<?xml'], ['PNG', '\x89PNG']]) {
      const [download] = await Promise.all([opened.waitForEvent('download'), opened.getByRole('button', { name: kind, exact: true }).click()]);
      assert.ok(readFileSync(await download.path(), 'latin1').startsWith(begins), kind);
    }
    await opened.locator('#tab-sizes').click();
    await shown(opened, 'sizes');
    assert.ok((await opened.locator('#panel tbody tr').count()) > 2);
    await picture(opened, 'sizes');
  });
});

test('two models, a split and a link that restores it', { skip }, async () => {
  let link;
  await visit({ hash: '#model=vit_tiny_patch16_224&bundle=pixel4-tflite-cpu-f32&tab=compare' }, async (opened) => {
    await settled(opened, 20);
    await shown(opened, 'compare');
    await opened.locator('#panel [data-example=mobilevit_xxs]').click();
    await opened.waitForSelector('#panel table', WAIT);
    assert.match(await opened.locator('#panel').textContent(), /The change lies between/);
    assert.equal(await rows(opened).first().locator('.second').count(), 1);
    await picture(opened, 'compare');
    await opened.locator('#tab-split').click();
    await shown(opened, 'split');
    await opened.waitForSelector('#split-latency', WAIT);
    const slow = await nanoseconds(opened, '#split-latency');
    await opened.locator('#bandwidth').focus();
    await opened.keyboard.press('End');
    await opened.waitForFunction((slow) => Number(document.querySelector('#split-latency')?.dataset.ns) < slow, slow, WAIT);
    await opened.locator('#panel details summary').click();
    assert.ok((await opened.locator('.graph svg rect').count()) > 300);
    assert.ok((await opened.locator('.strip li').count()) >= 1);
    link = new URL(opened.url()).hash;
  });
  await visit({ hash: link }, async (opened) => {
    await settled(opened, 20);
    await shown(opened, 'split');
    await opened.waitForSelector('#split-latency', WAIT);
    assert.equal(await opened.locator('[data-bundle=pixel4-tflite-cpu-f32]').getAttribute('aria-pressed'), 'true');
    assert.equal(await opened.locator('#bandwidth').inputValue(), '100');
    await opened.locator('#bandwidth').fill('58');
    await opened.waitForFunction(() => document.querySelectorAll('.strip li').length > 1, undefined, WAIT);
    await picture(opened, 'split');
  });
});

test('architectures of the search space', { skip }, async () => {
  await visit({ hash: '#model=mobilevit_xxs&bundle=epyc-rten-f32-1t&other=h100-torch-f16-cuda-graph&tab=sampler' }, async (opened) => {
    await shown(opened, 'sampler');
    await opened.waitForSelector('.outputs .big', WAIT);
    assert.equal(await opened.locator('#sample-device').inputValue(), 'epyc-rten-f32-1t', 'the link chooses the device');
    const encoding = await opened.locator('.encoding').textContent();
    const slider = opened.locator('input[id$=channels]').last();
    await slider.focus();
    await opened.keyboard.press((await slider.inputValue()) === '0' ? 'End' : 'Home');
    await opened.waitForFunction((encoding) => document.querySelector('.encoding')?.textContent !== encoding, encoding, WAIT);
    await opened.locator('#draw-many').click();
    await opened.waitForSelector('#front-summary', { timeout: 240_000 });
    const summary = await opened.locator('#front-summary').textContent();
    console.log(summary);
    assert.match(summary, /^\d+ architectures? that no other beats/);
    await opened.locator('#panel circle[role=button]').first().press('Enter');
    await picture(opened, 'sampler');
  });
});

test('the keyboard alone is enough', { skip }, async () => {
  await visit({}, async (opened) => {
    await settledWithout(opened);
    await opened.keyboard.press('Tab');
    assert.match(await opened.evaluate(() => document.activeElement.textContent), /To the forecast/);
    for (let step = 0; step < 12; step++) {
      await opened.keyboard.press('Tab');
      if (await opened.evaluate(() => document.activeElement.dataset.example === 'edgenext_xx_small')) break;
    }
    await opened.keyboard.press('Enter');
    await settled(opened, 20);
    await shown(opened, 'why');
    await rows(opened).first().focus();
    await opened.keyboard.press('ArrowDown');
    await opened.keyboard.press('ArrowDown');
    await opened.keyboard.press('Enter');
    assert.equal(await rows(opened).nth(2).getAttribute('aria-pressed'), 'true');
    assert.equal(await rows(opened).nth(2).evaluate((of) => of === document.activeElement), true);
    await opened.locator('#tab-why').focus();
    await opened.keyboard.press('ArrowRight');
    await shown(opened, 'sizes');
  });
});

const settledWithout = (opened) => opened.waitForFunction(() => /\d+ of \d+ bundles/.test(document.body.textContent), undefined, WAIT);

test('files that cannot be read give the library’s error in place, and the page goes on', { skip }, async () => {
  await visit({}, async (opened) => {
    const whole = readFileSync(join(models, 'mobilevit_xxs.onnx'));
    await drop(opened, 'half.onnx', whole.subarray(0, whole.length >> 1));
    assert.match(await opened.locator('.problem').textContent(), /half/);
    await drop(opened, 'notes.vtb', Buffer.from('no bundle'));
    await opened.waitForFunction(() => document.querySelector('.problem')?.textContent.includes('not a usable bundle'), undefined, WAIT);
    await drop(opened, 'whole.onnx', whole);
    await settled(opened, 20);
    assert.equal(await opened.locator('.problem').count(), 0);
    await drop(opened, 'mine.vtb', readFileSync(join(root, 'bundles/epyc-rten-f32-1t.vtb')));
    await opened.waitForSelector('[data-bundle=mine]', WAIT);
  });
});

test('open dimensions are asked for', { skip }, async () => {
  await visit({}, async (opened) => {
    await drop(opened, 'dynamic.onnx', dynamic());
    await opened.waitForSelector('.dimensions', WAIT);
    assert.deepEqual(await opened.locator('.dimensions label code').allTextContents(), ['batch', 'side']);
    await opened.locator('#dimension-1').fill('32');
    await opened.getByRole('button', { name: 'Forecast' }).click();
    await settled(opened, 20);
    assert.match(await opened.locator('.model').textContent(), /1x3x32x32/);
  });
});

test('a file of 100 MB is read while the page answers', { skip }, async () => {
  await visit({}, async (opened) => {
    await settledWithout(opened);
    const base64 = readFileSync(join(models, 'mobilevit_xxs.onnx')).toString('base64');
    const order = await opened.evaluate(([base64, pad]) => {
      const head = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
      const file = new File([head, Uint8Array.from(pad), new Uint8Array(100 << 20)], 'large.onnx');
      const transfer = new DataTransfer();
      transfer.items.add(file);
      const frames = { during: 0 };
      globalThis.frames2 = frames;
      const count = () => {
        if (!document.body.dataset.readMs) { frames.during += 1; requestAnimationFrame(count); }
      };
      delete document.body.dataset.readMs;
      requestAnimationFrame(count);
      document.body.dispatchEvent(new DragEvent('drop', { bubbles: true, cancelable: true, dataTransfer: transfer }));
      return true;
    }, [base64, [...padded(100 << 20)]]);
    assert.ok(order);
    await settled(opened, 20);
    const { frames, ms } = await opened.evaluate(() => ({ frames: globalThis.frames2.during, ms: document.body.dataset.readMs }));
    console.log(`100 MB: read in ${Math.round(ms)} ms, ${frames} frames meanwhile`);
    assert.ok(frames > 2, `${frames} frames`);
  });
});

test('it works without a network once it is there', { skip }, async () => {
  await visit({}, async (opened, context) => {
    await opened.waitForFunction(() => document.querySelectorAll('button.row[data-bundle]').length >= 20 && !/loading/.test(document.querySelector('.devices').textContent), undefined, WAIT);
    await context.setOffline(true);
    await opened.locator('[data-example=mobilevit_xxs]').click();
    await settled(opened, 20);
    await shown(opened, 'why');
  });
});

for (const [width, height] of [[390, 844], [1440, 1000]]) {
  for (const scheme of ['light', 'dark']) {
    test(`accessible and within ${width} pixels, ${scheme}`, { skip }, async () => {
      // axe is a script of its own; the page's policy refuses it.
      await visit({ width, height, scheme, bypassCSP: true }, async (opened) => {
        await accessible(opened, 'start');
        await opened.locator('[data-example=vit_tiny_patch16_224]').click();
        await settled(opened, 20);
        await opened.locator('.filter-box summary').click();
        for (const tab of ['why', 'sizes', 'compare', 'split', 'sampler']) {
          await opened.locator(`#tab-${tab}`).click();
          await shown(opened, tab);
          if (tab === 'compare') {
            await opened.locator('#panel [data-example=mobilevit_xxs]').click();
            await opened.waitForSelector('#panel table', WAIT);
          }
          await accessible(opened, tab);
          const wide = await opened.evaluate(() => document.documentElement.scrollWidth);
          assert.ok(wide <= width, `${tab}: ${wide} pixels`);
        }
        await opened.locator('#tab-why').click();
        await shown(opened, 'why');
        await opened.locator('.filter-box summary').click();
        await picture(opened, `${width}-${scheme}`);
      });
    });
  }
}
