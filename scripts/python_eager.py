"""Latencies and CUDA kernels of timm models in a Python program, beside which vitempo's are held.

    python scripts/python_eager.py OUT.json MODEL...

Batch 1, without gradients, attention as two products and a softmax (as the files of the zoo have
it), each model in f32 (torch's defaults) and f16, eager and as a CUDA graph. Medians of 50 runs,
each waited for. Needs torch with CUDA and timm.
"""

import collections
import json
import statistics
import sys
import time

import timm
import torch
from torch.profiler import ProfilerActivity, profile


def samples(run, count=50):
    """Wall-clock times of `count` runs after 10 more, ms."""
    times = []
    for _ in range(count + 10):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        run()
        torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - begin))
    return times[10:]


def graph_of(model, x):
    """A function that launches the model's run as a CUDA graph."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        model(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    return graph.replay


def kernels(run):
    """How often each function runs on the device."""
    with profile(activities=[ProfilerActivity.CUDA]) as recorded:
        run()
        torch.cuda.synchronize()
    events = [e for e in recorded.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    return collections.Counter(e.name for e in events)


def main():
    out, names = sys.argv[1], sys.argv[2:]
    timm.layers.set_fused_attn(False)
    rows = []
    with torch.inference_mode():
        for name in names:
            for precision, dtype in (("f32", torch.float32), ("f16", torch.float16)):
                torch.manual_seed(0)
                model = timm.create_model(name).eval().to("cuda", dtype)
                size = model.default_cfg["input_size"]
                x = torch.rand(1, *size, device="cuda", dtype=dtype) * 2 - 1
                eager, replay = samples(lambda: model(x)), samples(graph_of(model, x))
                row = {"model": name, "precision": precision}
                row |= {"eager_ms": statistics.median(eager), "graph_ms": statistics.median(replay)}
                rows.append(row | {"kernels": kernels(lambda: model(x))})
                print(name, precision, row, flush=True)
    with open(out, "w") as file:
        json.dump({"torch": torch.__version__, "device": torch.cuda.get_device_name(), "rows": rows}, file)


main()
