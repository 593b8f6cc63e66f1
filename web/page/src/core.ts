// The library in its worker, as typed functions.
import type { Explorer } from './generated/core.js';

type Methods = Omit<Explorer, 'free' | symbol>;
type Name = keyof Methods | 'start' | 'front';

export interface Call {
  id: number;
  method: Name;
  args: unknown[];
}

export interface Reply {
  id: number;
  value?: unknown;
  error?: string;
  fatal?: boolean;
  ms: number;
}

export interface Started {
  version: string;
  examples: string[];
  spaces: string[];
}

interface Waiting {
  resolve: (value: unknown) => void;
  reject: (error: Error) => void;
}

/** The library's worker is gone; models and bundles have to be opened again. */
export class Stopped extends Error {}

export class Core {
  private worker: Worker;
  private waiting = new Map<number, Waiting>();
  private next = 1;
  /** Milliseconds that the library took for the last answer, without messages. */
  lastMs = 0;

  constructor(private onStopped: () => void) {
    this.worker = this.launch();
  }

  private launch(): Worker {
    const worker = new Worker(new URL('./worker.ts', import.meta.url), { type: 'module' });
    worker.onmessage = ({ data }: MessageEvent<Reply>) => this.settle(data);
    worker.onerror = (event) => this.stop(event.message || 'the worker stopped');
    return worker;
  }

  private settle(reply: Reply): void {
    const waiting = this.waiting.get(reply.id);
    this.waiting.delete(reply.id);
    this.lastMs = reply.ms;
    if (reply.fatal) {
      waiting?.reject(new Stopped(`the library stopped: ${reply.error}`));
      this.stop('the library stopped');
    } else if (reply.error !== undefined) {
      waiting?.reject(new Error(reply.error));
    } else {
      waiting?.resolve(reply.value);
    }
  }

  private stop(reason: string): void {
    this.worker.terminate();
    for (const { reject } of this.waiting.values()) reject(new Stopped(reason));
    this.waiting.clear();
    this.worker = this.launch();
    this.onStopped();
  }

  private ask(method: Name, args: unknown[], transfer: Transferable[] = []): Promise<unknown> {
    const id = this.next++;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, method, args } satisfies Call, transfer);
    });
  }

  start(): Promise<Started> {
    return this.ask('start', [new URL('core.bin', document.baseURI).href]) as Promise<Started>;
  }

  call<M extends keyof Methods>(method: M, ...args: Parameters<Methods[M]>): Promise<ReturnType<Methods[M]>> {
    return this.ask(method, args) as Promise<ReturnType<Methods[M]>>;
  }

  /** The same for a file, whose bytes go to the worker. */
  send<M extends 'read' | 'addBundle'>(method: M, ...args: Parameters<Methods[M]>): Promise<ReturnType<Methods[M]>> {
    return this.ask(method, args, [(args[1] as Uint8Array).buffer as ArrayBuffer]) as Promise<ReturnType<Methods[M]>>;
  }

  front(...args: Parameters<typeof Explorer.front>): Promise<ReturnType<typeof Explorer.front>> {
    return this.ask('front', args) as Promise<ReturnType<typeof Explorer.front>>;
  }
}
