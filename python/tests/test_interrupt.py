"""Ctrl-C ends long work, and leaves everything usable."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

BEGIN = """
import signal
import numpy as np
import vitempo
signal.signal(signal.SIGINT, signal.default_int_handler)
space, bundle = vitempo.Space("hybrid-vit"), vitempo.Bundle.load("{bundle}")
try:
    print("begin", flush=True)
    {work}
except KeyboardInterrupt:
    print(bundle.predict(space.sample(1)[0]).ms > 0, "after Ctrl-C")
"""

BATCH = "bundle.predict(np.tile(np.array(space.sample(2000)), 500))"
SEARCH = "vitempo.search(space, bundle, candidates=900_000_000, population=2000)"
SAMPLE = "space.sample(10**15)"
CASES = [
    ("pixel4-tflite-cpu-f32", SAMPLE),
    ("pixel4-tflite-cpu-f32", BATCH),
    ("epyc-onnxruntime-f32-1t", f"while True: {BATCH}"),
    ("epyc-onnxruntime-f32-1t", SEARCH),
]


@pytest.mark.skipif(os.name != "posix", reason="signals of another kind")
@pytest.mark.parametrize(("bundle", "work"), CASES)
def test_long_work_ends_by_ctrl_c(bundle, work):
    program = BEGIN.format(bundle=bundle, work=work)
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begin\n"
        try:
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=240)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert out == "True after Ctrl-C\n" and process.returncode == 0
