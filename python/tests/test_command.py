"""The command `vitempo` of the package, without the program, and with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import MODELS, ROOT

import vitempo
from vitempo import _printing
from vitempo._command import main

MODEL = str(MODELS / "mobilevit_xxs.onnx")
NAME = "epyc-onnxruntime-f32-1t"
PROGRAM = os.environ.get("VITEMPO_PROGRAM")


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
    of_name = {row["name"]: row for row in rows}
    assert of_name[NAME]["models"] > 0 and of_name[NAME]["held_out"]["e2e"]["mape"] > 0
    assert NAME in printed(capsys, "bundle", "list")


def test_predict(capsys, bundle):
    (row,) = json.loads(printed(capsys, "predict", MODEL, "--bundle", NAME, "--format", "json"))
    forecast = bundle.predict(MODEL)
    assert set(row) == {
        "model", "bundle", "environment", "latency_ns", "overhead_ns", "coverage", "memory"
    }
    assert row["latency_ns"]["point"] / 1e6 == forecast.ms
    assert row["latency_ns"]["upper"] / 1e6 == forecast.upper
    assert row["coverage"]["operators"] == forecast.coverage.operators
    both = printed(capsys, "predict", MODEL, "--bundle", NAME, "--bundle", "pixel4-tflite-cpu-f32")
    assert len(both.splitlines()) == 3
    names = ["--bundle", "pixel4-tflite-cpu-f32", "--bundle", NAME]
    (of_model,) = json.loads(printed(capsys, "predict", MODEL, *names, "--format", "json"))
    points = [row["latency_ns"]["point"] for row in of_model["forecasts"]]
    assert points == sorted(points) and of_model["model"] == "mobilevit_xxs"
    (broken,) = json.loads(
        printed(capsys, "predict", MODEL, "--bundle", NAME, "--breakdown", "--format", "json")
    )
    assert sum(row["latency_ns"] for row in broken["operators"]) > 0
    assert "conv" in printed(capsys, "predict", MODEL, "--bundle", NAME, "--breakdown")


def test_search(capsys):
    words = ["search", "--bundle", NAME, "--max-latency", "20ms", "--candidates", "300"]
    found = json.loads(printed(capsys, *words, "--population", "20", "--format", "json"))
    assert found["candidates"] == 300 and found["space"] == "hybrid-vit"
    for member in found["front"]:
        assert member["latencies"][0]["latency_ns"]["point"] <= 20e6
        assert member["name"].startswith("hybrid-vit-front-")


def test_what_cannot_be_forecast_is_left_out(capsys, tmp_path):
    from vitempo._onnx import Network

    network = Network("unk", [1, 3, 8, 8])
    unknown, absent = tmp_path / "unk.onnx", str(tmp_path / "absent.onnx")
    unknown.write_bytes(network.finish(network.node("Nobody", ["image"]), [1, 3, 8, 8]))
    words = ["predict", MODEL, absent, str(unknown), "--bundle", NAME]
    assert main([*words, "--format", "json"]) == 1
    out, error = capsys.readouterr()
    assert [row["model"] for row in json.loads(out)] == ["mobilevit_xxs", "unk"]
    assert f"warning: {absent} left out: cannot read" in error
    assert "warning: unk: vitempo does not know Nobody (1): what they compute is not in" in error
    assert "error: 1 of 3 models left out" in error
    assert main([*words, "--bundle", NAME]) == 1, "a bundle counts once"
    assert "not in the latency of unk, only their bytes: Nobody (1)" in capsys.readouterr().out
    assert main([*words, "--bundle", "pixel4-tflite-cpu-f32"]) == 1
    assert "error: 2 of 6 forecasts left out" in capsys.readouterr().err
    assert main(["predict", absent, "--bundle", NAME]) == 1
    assert capsys.readouterr().err.startswith("error: cannot read")
    both = ["--bundle", NAME, "--bundle", "pixel4-tflite-cpu-f32"]
    assert main(["predict", MODEL, *both, "--breakdown"]) == 1
    assert "--breakdown is about one bundle" in capsys.readouterr().err


def test_quantities_are_those_of_the_program():
    assert _printing.mbit_per_s("20B/s") == pytest.approx(160e-6)
    assert _printing.time_ms("20 ms") == 20.0 and _printing.time_ms("2min") == 120_000.0
    assert _printing.size_bytes("40000000") == _printing.size_bytes("40MB") == 40_000_000
    for text in ("5.ms", ".5ms", "1e1ms", "\u0662\u0660ms", "20MS", "20", "ms"):
        with pytest.raises(vitempo.VitempoError, match="is not a time"):
            _printing.time_ms(text)


def test_plans(capsys):
    split = ["plan", "split", MODEL, "--device-bundle", "pixel4-tflite-cpu-f32"]
    split += ["--server-bundle", NAME, "--bandwidth", "20Mbit/s", "--round-trip", "5ms"]
    assert "proven best" in printed(capsys, *split)
    pipeline = ["plan", "pipeline", MODEL, "--processor", f"a={NAME}", "--bandwidth", "8GB/s"]
    (plan,) = json.loads(printed(capsys, *pipeline, "--format", "json"))
    assert plan["chosen"] and plan["search"] == {"is_complete": True}
    assert plan["stages"][0]["processor"] == "a"


def test_measurements(capsys, tmp_path):
    data = str(ROOT / "datasets/measured/epyc-onnxruntime-f32-1t")
    assert "runs" in printed(capsys, "dataset", "inspect", data)
    assert json.loads(printed(capsys, "dataset", "validate", data, "--format", "json"))["valid"]
    words = ["adapt", "--measured", str(MODELS / "latencies.csv"), "--models", str(MODELS)]
    out = str(tmp_path / "board.vtb")
    assert "from the others" in printed(capsys, *words, "--out", out, "--suggest", "1")
    assert vitempo.Bundle.load(out).kind == "adapted"
    made = json.loads(printed(capsys, *words, "--out", out, "--format", "json"))
    assert made["environment"]["device"] == "latencies" and made["left_out"] == []
    assert made["measured"][0]["from_others_ns"]["point"] > 0
    first = printed(capsys, "adapt", "--models", str(MODELS), "--suggest", "1")
    assert (MODELS / f"{first.strip()}.onnx").exists()
    assert main(["adapt", "--models", str(MODELS)]) == 1
    assert "--suggest 10" in capsys.readouterr().err


@pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")
def test_json_is_the_programs(capsys, tmp_path):
    data = str(ROOT / "datasets/measured/epyc-onnxruntime-f32-1t")
    small = ["--candidates", "200", "--population", "20"]
    for words in (
        ["bundle", "list"],
        ["search", "--bundle", NAME, *small],
        ["evaluate", "epyc-rten-f32-1t", "--on", str(ROOT / "datasets/measured/other-spaces")],
        ["export", "mobilevit_xxs", "--out", str(tmp_path / "out")],
        ["dataset", "inspect", data],
        ["dataset", "validate", data],
        ["predict", MODEL, "--bundle", NAME, "--bundle", "pixel4-tflite-cpu-f32"],
        ["plan", "pipeline", MODEL, "--bandwidth", "8GB/s", "--processor", f"a={NAME}"],
        ["plan", "split", MODEL, "--device-bundle", "pixel4-tflite-cpu-f32"]
        + ["--server-bundle", NAME, "--bandwidth", "20Mbit/s"],
    ):
        asked = [*words, "--format", "json"]
        of_program = subprocess.run([PROGRAM, *asked], capture_output=True, check=True)
        assert json.loads(printed(capsys, *asked)) == json.loads(of_program.stdout), words


def test_the_program_has_every_other_verb():
    import re

    from vitempo._command import OF_THE_PROGRAM

    source = (ROOT / "cli/src/verbs/mod.rs").read_text()
    verbs = source[source.index("enum Command {") :]
    verbs = verbs[: verbs.index("\n}")]
    names = re.findall(r"^    ([A-Z][a-z]+)[ ({,]", verbs, re.MULTILINE)
    own = {"bundle", "predict", "export", "search", "adapt", "evaluate", "dataset", "plan"}
    assert len(names) > 20
    hidden = {"worker", "man"}
    assert {name.lower() for name in names} - hidden == own | set(OF_THE_PROGRAM) - hidden


def test_mistakes_end_without_a_traceback(capsys, tmp_path):
    absent = str(tmp_path / "absent.csv")
    adapt = ["adapt", "--models", str(MODELS), "--out", str(tmp_path / "x.vtb"), "--measured"]
    for words, says in [
        ([*adapt, absent], "absent.csv: No such file"),
        (["export", "mobilevit_xxs", "--out", MODEL], "mobilevit_xxs.onnx: File exists"),
        (["plan", "pipeline", MODEL, "--bandwidth", "8GB/s", "--processor", f"a={NAME}"]
         + ["--processor", "a=pixel4-tflite-cpu-f32"], "`a` is given twice"),
        (["explore"], "needs the program"),
    ]:
        assert main(words) == 1
        assert says in capsys.readouterr().err, words
    for words in (
        ["search", "--bundle", NAME, "--candidates=-1"],
        ["search", "--bundle", NAME, "--seed=-1"],
        [*adapt, str(MODELS / "latencies.csv"), "--threads=-2"],
    ):
        with pytest.raises(SystemExit, match="1"):
            main(words)
        assert "expected a whole number from" in capsys.readouterr().err


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
