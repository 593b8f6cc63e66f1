// The page works from any folder of any static host: all paths are relative.
import { defineConfig } from 'vite';

export default defineConfig({
  base: './',
  build: { outDir: '../dist', emptyOutDir: true, target: 'es2022', modulePreload: { polyfill: false }, assetsInlineLimit: 0 },
  worker: { format: 'es' },
});
