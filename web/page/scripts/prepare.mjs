// Puts what the page fetches into public/: the library, packed, and the bundles with their list,
// which is made by the library itself.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { constants, gzipSync } from 'node:zlib';
import { Explorer, initSync } from '../src/generated/core.js';

const page = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = join(page, '../..');
const shown = join(page, 'public');

function files(folder) {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    return entry.isDirectory() ? files(path) : [path];
  });
}

const built = join(page, 'src/generated/core_bg.wasm');
const small = join(page, 'src/generated/core.wasm');
const features = ['bulk-memory', 'nontrapping-float-to-int', 'sign-ext', 'mutable-globals', 'multivalue', 'reference-types'];
execFileSync(process.execPath, [join(page, 'node_modules/binaryen/bin/wasm-opt'), '-O2', ...features.map((of) => `--enable-${of}`), built, '-o', small], { stdio: 'inherit' });
const library = readFileSync(small);
const packed = gzipSync(library, { level: constants.Z_BEST_COMPRESSION });
const folder = join(shown, 'bundles');
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
writeFileSync(join(shown, 'core.bin'), packed);

initSync({ module: library });
const explorer = new Explorer();
const bundles = files(join(root, 'bundles')).filter((path) => path.endsWith('.vtb')).sort().map((path) => {
  const name = basename(path);
  copyFileSync(path, join(folder, name));
  return { card: explorer.addBundle(name, readFileSync(path)), file: `bundles/${name}`, bytes: statSync(path).size };
});
writeFileSync(join(folder, 'index.json'), JSON.stringify({ bundles }));
console.log(`${bundles.length} bundles, ${packed.length} bytes of library`);
