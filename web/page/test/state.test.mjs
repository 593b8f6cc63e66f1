// What the page is made of besides pictures: links, labels, commands and names of files.
import assert from 'node:assert/strict';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { runnerImport } from 'vite';

const page = join(dirname(fileURLToPath(import.meta.url)), '..');
const load = async (file) => (await runnerImport(join(page, 'src', file), { root: page, configFile: false, logLevel: 'error' })).module;
const { command, empty, fileName, fromHash, splitOldFilters, toHash } = await load('state.ts');
const { labelled, nameOf } = await load('label.ts');

const entry = (name, device, more = {}) => ({ card: { name, device, framework: 'torch', processor: 'gpu', precision: 'f16', threads: 1, kind: 'trained', ...more }, forecasts: [] });

test('a filter with commas in its values comes back from a link', () => {
  const devices = ['Board, 4 GB', 'Phone', 'Watch'];
  const entries = devices.map((device, index) => entry(`bundle-${index}`, device));
  const restored = (hash) => {
    const state = { ...empty(), entries };
    fromHash(state, hash);
    splitOldFilters(state);
    return [...state.filters.get('device')];
  };
  const state = { ...empty(), entries };
  state.filters.set('device', new Set(devices.slice(0, 2)));
  assert.deepEqual(restored(toHash(state)), devices.slice(0, 2));
  assert.deepEqual(restored('#device=Phone%2CWatch'), ['Phone', 'Watch'], 'a link of an earlier version');
});

test('bundles whose labels would be equal are told apart by name', () => {
  const given = [entry('h100-torch-f16', 'H100'), entry('h100-torch-f16-cuda-graph', 'H100'), entry('a100-torch-f16', 'A100')];
  const entries = labelled(given);
  assert.ok(entries.every((of, index) => of === given[index]), 'those that are being loaded stay the same objects');
  assert.deepEqual(entries.map(nameOf), ['H100 · torch · gpu · f16 · h100-torch-f16', 'H100 · torch · gpu · f16 · h100-torch-f16-cuda-graph', 'A100 · torch · gpu · f16']);
});

test('commands and files name the size of images that was chosen', () => {
  const [bundle] = labelled([entry('h100', 'H100')]);
  const slot = { card: { name: 'vit' } };
  const sized = { ...slot, size: '192x256' };
  assert.equal(command(slot, bundle), 'vitempo predict MODEL.onnx --bundle h100');
  assert.equal(command(sized, bundle), 'vitempo predict MODEL.onnx --size 192x256 --bundle h100');
  assert.deepEqual([slot, sized].map(fileName), ['vit', 'vit-192x256']);
});
