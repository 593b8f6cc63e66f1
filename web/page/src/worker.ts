// Holds the library as WebAssembly, so that the page stays responsive while it computes.
import init, { Explorer } from './generated/core.js';
import type { Call, Reply } from './core';

let explorer: Explorer | undefined;

/** The bytes of the library; hosts may or may not have unpacked them. */
async function library(url: string): Promise<ArrayBuffer> {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const bytes = await response.arrayBuffer();
  const magic = new Uint8Array(bytes, 0, 2);
  if (magic[0] !== 0x1f || magic[1] !== 0x8b) return bytes;
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(unpacked).arrayBuffer();
}

async function answer(call: Call): Promise<unknown> {
  if (call.method === 'start') {
    await init({ module_or_path: await library(call.args[0] as string) });
    explorer = new Explorer();
    return { version: Explorer.version(), examples: Explorer.examples(), spaces: Explorer.spaces() };
  }
  if (!explorer) throw new Error('the library is not loaded');
  if (call.method === 'front') {
    return Explorer.front(...(call.args as Parameters<typeof Explorer.front>));
  }
  const method = explorer[call.method] as (...args: unknown[]) => unknown;
  return method.apply(explorer, call.args);
}

self.onmessage = async ({ data }: MessageEvent<Call>) => {
  const begun = performance.now();
  let reply: Reply;
  try {
    const value = await answer(data);
    reply = { id: data.id, value, ms: performance.now() - begun };
  } catch (error) {
    // A trap leaves the library in no usable state.
    const fatal = error instanceof WebAssembly.RuntimeError;
    const message = error instanceof Error ? error.message : String(error);
    reply = { id: data.id, error: message, fatal, ms: performance.now() - begun };
  }
  self.postMessage(reply);
};
