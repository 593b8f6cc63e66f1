#!/usr/bin/env python3
"""The package beside the library that it wraps, as ratios of one run.

    python python/benches/speed.py [--encodings N] [--library FILE.json]

The library's times are those of `cargo bench -p vitempo-python --bench library`, which this starts
first; with `--library` they are read. A process per question and the HTTP service are measured
where the program `vitempo` is found, nn-Meter where it is installed.
"""

from __future__ import annotations

import argparse
import http.client
import importlib.util
import json
import os
import socket
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import vitempo

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/models/vit_tiny_patch16_224.onnx"
NAME = "epyc-onnxruntime-f32-1t"
REPEATS, FILES, ONE_BY_ONE = 5, 30, 20_000


def median(run: Callable[[], Any], repeats: int) -> float:
    """Seconds."""
    run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def library(encodings: int) -> dict[str, float]:
    command = ["cargo", "bench", "--locked", "-p", "vitempo-python", "--bench", "library"]
    environment = {**os.environ, "ENCODINGS": str(encodings)}
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def line(what: str, ours: float, peer: float, unit: float, name: str, target: str) -> None:
    times = f"{ours / unit:10.3f} {name:2} {peer / unit:10.3f} {name:2}"
    print(f"{what:38} {times} {ours / peer:8.2f}x   {target}")


def peers() -> Iterator[tuple[str, float]]:
    """Other ways to forecast the file, and seconds."""
    try:
        program = vitempo.program()
    except vitempo.ProgramNotFound as error:
        print(f"a process per file, HTTP: not measured: {error.message}")
    else:
        command = [program, "predict", str(MODEL), "--bundle", NAME]
        quiet = subprocess.DEVNULL
        yield "a process per file", median(
            lambda: subprocess.run(command, check=True, stdout=quiet), 5
        )
        yield "the file by HTTP", over_http(program)
    if importlib.util.find_spec("nn_meter") is None:
        print("nn-Meter: not installed")
    else:
        import nn_meter

        predictor = nn_meter.load_latency_predictor("cortexA76cpu_tflite21")
        yield "nn-Meter", median(lambda: predictor.predict(str(MODEL), model_type="onnx"), 3)


def over_http(program: str) -> float:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    command = [program, "serve", "--bundle", NAME, "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=quiet, stderr=quiet) as server:
        try:
            connection = connected(port)
            body, headers = MODEL.read_bytes(), {"Content-Type": "application/x-onnx"}

            def ask() -> None:
                connection.request("POST", f"/predict?bundle={NAME}", body, headers)
                answer = connection.getresponse()
                content = answer.read()
                if answer.status != 200:
                    raise SystemExit(f"HTTP {answer.status}: {content.decode()}")

            return median(ask, FILES)
        finally:
            server.terminate()


def connected(port: int) -> http.client.HTTPConnection:
    for _ in range(200):
        connection = http.client.HTTPConnection("127.0.0.1", port)
        try:
            connection.connect()
            return connection
        except OSError:
            time.sleep(0.05)
    raise SystemExit("the service does not answer")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--encodings", type=int, default=1_000_000)
    parser.add_argument("--library", type=Path)
    arguments = parser.parse_args()
    peer = (
        json.loads(arguments.library.read_text())
        if arguments.library
        else library(arguments.encodings)
    )

    bundle, space = vitempo.Bundle.load(NAME), vitempo.Space("hybrid-vit")
    texts = space.sample(int(peer["encodings"]), seed=1)
    arrays = {"str": np.array(texts), "bytes": np.array(texts).astype("S"), "list": texts}
    bundle.predict(arrays["bytes"])
    print(f"{'':38} {'package':>13} {'library':>13} {'ratio':>9}")
    file = median(lambda: bundle.predict(MODEL), FILES)
    line("one ONNX file", file, peer["one_file"], 1e-3, "ms", "at most 1.2x")
    for kind, values in arrays.items():
        one = median(lambda values=values: bundle.predict(values, threads=1), REPEATS)
        line(
            f"{len(texts)} encodings ({kind}), one thread",
            one,
            peer["one_thread"],
            1,
            "s",
            "at most 1.2x",
        )
        cores = median(lambda values=values: bundle.predict(values), REPEATS)
        line("  all cores", cores, peer["all_cores"], 1, "s", "at most 1.2x")
    some = texts[:ONE_BY_ONE]

    def one_by_one() -> None:
        predict = bundle.predict
        for text in some:
            predict(text).ms

    each = median(one_by_one, REPEATS) / len(some)
    line("one encoding", each, peer["each"], 1e-6, "us", "")
    print(f"overhead of a call: {(each - peer['each']) * 1e6:.2f} us, at most 3 us")
    for what, seconds in peers():
        print(f"{what}: {seconds * 1e3:.1f} ms, {seconds / file:.1f} times as long")


if __name__ == "__main__":
    main()
