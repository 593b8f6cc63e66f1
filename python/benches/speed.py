#!/usr/bin/env python3
"""The package beside the library that it wraps and beside other ways to ask, as one table.

    python python/benches/speed.py --out speed.md

Everything is measured in one run. Package and library take turns, and the ratio is the median over
the turns, so that a host whose speed changes does not favour one of them. The library's program is
built by `cargo bench -p vitempo-python --bench library`; `--library PROGRAM` names one that is
built. What is not installed is left out, with a line that says so: the program `vitempo`, lleaves
with LightGBM before 4.7, nn-Meter with its predictors, torch.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import importlib
import inspect
import io
import json
import os
import platform
import socket
import statistics
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional

import numpy as np

import vitempo

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests/models/vit_tiny_patch16_224.onnx"
NAME = "epyc-onnxruntime-f32-1t"
REPEATS, FILES, ONE_BY_ONE, PROCESSES = 3, 30, 20_000, 20
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}


class NotMeasured(Exception):
    """Why a row is missing."""


@dataclass
class Row:
    """A way to ask beside another one; times in seconds, one per turn."""

    what: str
    ours: list[float]
    peer: str
    theirs: list[float]
    unit: str
    aim: str = ""
    # Of a difference instead of a ratio.
    difference: bool = False

    def cells(self) -> list[str]:
        unit = UNITS[self.unit]
        turns = list(zip(self.ours, self.theirs))
        if self.difference:
            result = f"{statistics.median(a - b for a, b in turns) / unit:+.2f} {self.unit}"
        else:
            result = f"{statistics.median(a / b for a, b in turns):.3g}"
        ours, theirs = (statistics.median(of) / unit for of in (self.ours, self.theirs))
        times = f"{ours:.3f} {self.unit}", f"{theirs:.3f} {self.unit}"
        return [self.what, times[0], self.peer, times[1], result, self.aim]


def timed(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def median(run: Callable[[], Any], repeats: int) -> float:
    """Seconds, after a first run."""
    run()
    return statistics.median(timed(run) for _ in range(repeats))


def build_library() -> str:
    """The program that measures the library."""
    command = ["cargo", "bench", "--locked", "-p", "vitempo-python", "--bench", "library"]
    command += ["--no-run", "--message-format", "json"]
    done = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE)
    built = [json.loads(line).get("executable") for line in done.stdout.splitlines()]
    return next(program for program in reversed(built) if program)


def library(program: str, encodings: int) -> dict[str, float]:
    environment = {**os.environ, "ENCODINGS": str(encodings)}
    command = [program, "--bench"]
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE)
    return json.loads(done.stdout)


def package(bundle: vitempo.Bundle, encodings: dict[str, Any]) -> dict[str, float]:
    """What the library's program measures, from Python; encodings by the type that has them."""
    times = {"one_file": median(lambda: bundle.predict(MODEL), FILES)}
    for kind, values in encodings.items():
        times[kind] = median(lambda values=values: bundle.predict(values, threads=1), REPEATS)
        times[f"{kind}, all cores"] = median(
            lambda values=values: bundle.predict(values), REPEATS
        )
    some = encodings["list"][:ONE_BY_ONE]

    def one_by_one() -> None:
        predict = bundle.predict
        for text in some:
            predict(text).ms

    times["each"] = median(one_by_one, REPEATS) / len(some)
    return times


def beside_library(program: str, count: int, turns: int) -> list[Row]:
    bundle = vitempo.Bundle.load(NAME)
    texts = vitempo.Space("hybrid-vit").sample(count, seed=1)
    array = np.array(texts)
    encodings = {"NumPy, bytes": array.astype("S"), "NumPy, str": array, "list": texts}
    bundle.predict(encodings["NumPy, bytes"])
    measured = [(package(bundle, encodings), library(program, count)) for _ in range(turns)]

    def row(what: str, ours: str, theirs: str, unit: str, **options: Any) -> Row:
        peer = "Rust library"
        times = [a[ours] for a, _ in measured], [b[theirs] for _, b in measured]
        return Row(what, times[0], peer, times[1], unit, **options)

    rows = [row("one ONNX file", "one_file", "one_file", "ms", aim="at most 1.2")]
    for kind in encodings:
        what = f"{count} encodings ({kind})"
        rows.append(row(f"{what}, one thread", kind, "one_thread", "s", aim="at most 1.2"))
        rows.append(row(f"{what}, all cores", f"{kind}, all cores", "all_cores", "s"))
    overhead = row("a call for one encoding", "each", "each", "us", difference=True)
    overhead.aim = "at most 3 us more"
    return [*rows, overhead]


def program() -> str:
    try:
        return vitempo.program()
    except vitempo.ProgramNotFound as error:
        raise NotMeasured(error.message) from error


def process_per_question(file: Row) -> Row:
    command = [program(), "predict", str(MODEL), "--bundle", NAME]
    seconds = median(
        lambda: subprocess.run(command, check=True, stdout=subprocess.DEVNULL), PROCESSES
    )
    return Row("one ONNX file", file.ours[:1], "a process per file", [seconds], "ms")


def over_http(file: Row) -> Row:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    quiet = subprocess.DEVNULL
    command = [program(), "serve", "--bundle", NAME, "--listen", f"127.0.0.1:{port}"]
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

            return Row("one ONNX file", file.ours[:1], "by HTTP", [median(ask, FILES)], "ms")
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


def installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise NotMeasured(str(error)) from error


def nn_meter(file: Row) -> Row:
    """nn-Meter downloads its predictors the first time."""
    package = installed("nn_meter")
    try:
        predictor = package.load_latency_predictor("cortexA76cpu_tflite21")
        seconds = median(lambda: predictor.predict(str(MODEL), model_type="onnx"), 3)
    except Exception as error:  # its classes of errors are not documented
        raise NotMeasured(f"{type(error).__name__}: {error}") from error
    return Row("one ONNX file", file.ours[:1], "nn-Meter", [seconds], "ms")


def lleaves(encodings: Row, count: int) -> Row:
    """Trees alone, on features that are there: 500 LightGBM trees of 31 leaves on 20 features."""
    compiler, lightgbm = installed("lleaves"), installed("lightgbm")
    random = np.random.default_rng(0)
    x = random.random((20_000, 20))
    y = (x[:, :10] * random.random(10)).sum(axis=1) + x[:, 10] * x[:, 11]
    parameters = {"objective": "regression", "num_leaves": 31, "verbose": -1, "num_threads": 1}
    trees = lightgbm.train(parameters, lightgbm.Dataset(x, y), 500)
    rows = random.random((count, 20))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.txt")
        trees.save_model(path)
        try:
            compiled = compiler.Model(model_file=path)
            compiled.compile()
        except ValueError as error:
            raise NotMeasured(f"model of LightGBM {lightgbm.__version__}: {error}") from error
        seconds = median(lambda: compiled.predict(rows, n_jobs=1), REPEATS)
    peer = f"lleaves, {count} rows of features"
    return Row(encodings.what, encodings.ours[:1], peer, [seconds], "s")


def torch_module() -> list[Row]:
    """Modules whose structure was not seen before, and one that was."""
    torch = installed("torch")
    installed("onnx")
    from vitempo import _torch

    def module(width: int) -> Any:
        layers: list[Any] = [torch.nn.Conv2d(3, width, 3, 2, 1)]
        for _ in range(20):
            layers += [torch.nn.Conv2d(width, width, 3, 1, 1), torch.nn.BatchNorm2d(width)]
            layers += [torch.nn.ReLU()]
        return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1)).eval()

    bundle, image = vitempo.Bundle.load(NAME), torch.zeros(1, 3, 64, 64)
    modules = [module(width) for width in range(16, 16 + 8 * 12, 8)]
    choice = "dynamo" in inspect.signature(torch.onnx.export).parameters
    options = {"dynamo": False} if choice else {}

    def export(of: Any) -> None:
        with torch.no_grad(), warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(of, (image,), io.BytesIO(), **options)

    export(modules[0])
    bundle.predict(modules[0], inputs=image)
    exporter = [timed(lambda one=one: export(one)) for one in modules[1:]]
    _torch._kept.clear()
    ours = [timed(lambda one=one: bundle.predict(one, inputs=image)) for one in modules[1:]]
    again = [timed(lambda one=one: bundle.predict(one, inputs=image)) for one in modules[1:]]
    peer = f"torch {torch.__version__.split('+')[0]}'s export alone"
    return [
        Row("a torch module of 62 layers, new", ours, peer, exporter, "ms", "at most 2"),
        Row("the same, structure known", again, peer, exporter, "ms"),
    ]


def rows(arguments: argparse.Namespace, left_out: list[str]) -> Iterator[Row]:
    of_library = beside_library(
        arguments.library or build_library(), arguments.encodings, arguments.turns
    )
    yield from of_library
    file, encodings = of_library[:2]
    others: dict[str, Callable[[], Any]] = {
        "a process per file": lambda: [process_per_question(file)],
        "HTTP": lambda: [over_http(file)],
        "nn-Meter": lambda: [nn_meter(file)],
        "lleaves": lambda: [lleaves(encodings, arguments.encodings)],
        "torch": torch_module,
    }
    for name, measure in others.items():
        try:
            yield from measure()
        except NotMeasured as error:
            left_out.append(f"Not measured: {name}: {error}")


def processor() -> Optional[str]:
    with contextlib.suppress(OSError):
        for text in Path("/proc/cpuinfo").read_text().splitlines():
            if text.startswith("model name"):
                return text.partition(":")[2].strip()
    return platform.processor() or None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the table to this file")
    parser.add_argument("--encodings", type=int, default=1_000_000)
    parser.add_argument("--turns", type=int, default=3, help="of package and library")
    parser.add_argument("--library", metavar="PROGRAM", help="the built bench `library`")
    arguments = parser.parse_args()

    left_out: list[str] = []
    headings = ["what", "package", "beside", "takes", "package / beside", "aim"]
    table = [headings, ["---"] * len(headings)]
    table += [row.cells() for row in rows(arguments, left_out)]
    where = f"{processor()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    lines = [where, "", *("| " + " | ".join(cells) + " |" for cells in table)]
    text = "\n".join([*lines, "", *left_out]).rstrip() + "\n"
    print(text, end="")
    if arguments.out:
        arguments.out.write_text(text)


if __name__ == "__main__":
    main()
