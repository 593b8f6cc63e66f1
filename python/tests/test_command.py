"""The command `vitempo` of the package, without the program, and with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import MODELS, ROOT

import vitempo
from vitempo._command import main

MODEL = str(MODELS / "mobilevit_xxs.onnx")
NAME = "epyc-onnxruntime-f32-1t"


@pytest.fixture(autouse=True)
def without_program(monkeypatch, tmp_path):
    monkeypatch.delenv("VITEMPO_PROGRAM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "vitempo_program", None)


def printed(capsys, *words: str) -> str:
    assert main(words) == 0
    return capsys.readouterr().out


def test_bundles(capsys):
    rows = json.loads(printed(capsys, "bundle", "list", "--format", "json"))
    assert [row["name"] for row in rows] == vitempo.bundles()
    assert NAME in printed(capsys, "bundle", "list")


def test_predict(capsys, bundle):
    (row,) = json.loads(printed(capsys, "predict", MODEL, "--bundle", NAME, "--format", "json"))
    forecast = bundle.predict(MODEL)
    assert row["latency_ns"]["point"] == pytest.approx(forecast.ms * 1e6)
    assert row["coverage"]["operators"] == forecast.coverage.operators
    both = printed(capsys, "predict", MODEL, "--bundle", NAME, "--bundle", "pixel4-tflite-cpu-f32")
    assert len(both.splitlines()) == 3
    assert "conv" in printed(capsys, "predict", MODEL, "--bundle", NAME, "--breakdown")


def test_search(capsys):
    words = ["search", "--bundle", NAME, "--max-latency", "20ms", "--candidates", "300"]
    found = json.loads(printed(capsys, *words, "--population", "20", "--format", "json"))
    assert found["candidates"] == 300
    assert all(member["latencies_ms"][0][0] <= 20.0 for member in found["front"])


def test_plans(capsys):
    split = ["plan", "split", MODEL, "--device-bundle", "pixel4-tflite-cpu-f32"]
    split += ["--server-bundle", NAME, "--bandwidth", "20Mbit/s", "--round-trip", "5ms"]
    assert "proven best" in printed(capsys, *split)
    pipeline = ["plan", "pipeline", MODEL, "--processor", f"a={NAME}", "--bandwidth", "8GB/s"]
    plan = json.loads(printed(capsys, *pipeline, "--format", "json"))
    assert plan["stages"][0]["processor"] == "a"


def test_measurements(capsys, tmp_path):
    data = str(ROOT / "datasets/measured/epyc-onnxruntime-f32-1t")
    assert "runs" in printed(capsys, "dataset", "inspect", data)
    assert json.loads(printed(capsys, "dataset", "validate", data, "--format", "json"))["valid"]
    words = ["adapt", "--measured", str(MODELS / "latencies.csv"), "--models", str(MODELS)]
    out = str(tmp_path / "board.vtb")
    assert "from the others" in printed(capsys, *words, "--out", out, "--suggest", "1")
    assert vitempo.Bundle.load(out).kind == "adapted"
    first = printed(capsys, "adapt", "--models", str(MODELS), "--suggest", "1")
    assert (MODELS / f"{first.strip()}.onnx").exists()
    assert main(["adapt", "--models", str(MODELS)]) == 1
    assert "--suggest 10" in capsys.readouterr().err


def test_mistakes(capsys):
    assert main(["profile", "models"]) == 1
    error = capsys.readouterr().err
    assert "needs the program `vitempo`" in error and "pip install 'vitempo[train]'" in error
    assert main(["predict", MODEL, "--bundle", "nothing"]) == 1
    assert "hint: vitempo.bundles()" in capsys.readouterr().err
    assert main([]) == 1
    with pytest.raises(SystemExit, match="1"):
        main(["predict"])
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert vitempo.__version__ in capsys.readouterr().out
    assert main(["search", "--bundle", NAME, "--max-latency", "fast"]) == 1
    assert "is not a time" in capsys.readouterr().err


@pytest.mark.skipif(os.name != "posix", reason="a script of POSIX")
def test_the_program_takes_over_where_it_is(tmp_path):
    path = tmp_path / "program"
    path.write_text("#!/bin/sh\necho program \"$@\"\nexit 3\n")
    path.chmod(0o755)
    environment = {**os.environ, "VITEMPO_PROGRAM": str(path)}
    done = subprocess.run(
        [sys.executable, "-m", "vitempo", "train", "data"],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.returncode) == ("program train data\n", 3)
