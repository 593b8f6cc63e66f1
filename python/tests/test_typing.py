"""The stubs are those of the package: mypy in strict mode on it, and on a program that uses it."""

from __future__ import annotations

import inspect
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import vitempo
from vitempo import _vitempo

PACKAGE = Path(vitempo.__file__).parent

PROGRAM = """
import numpy as np
import vitempo

bundle = vitempo.Bundle.load("epyc-onnxruntime-f32-1t")
reveal_type(bundle.predict("vit.onnx"))
reveal_type(bundle.predict(b""))
reveal_type(bundle.predict(["hv1"]))
reveal_type(bundle.predict(np.array(["hv1"])))
reveal_type(bundle.predict(["hv1"]).ms)
reveal_type(vitempo.search("hybrid-vit", bundle).best.latencies[0].ms)
reveal_type(vitempo.plan.split("vit.onnx", bundle, bundle, bandwidth=1.0).latency.ms)
reveal_type(bundle.refine("vit.onnx", out="sure.vtb", within=5).bundle)
reveal_type(vitempo.refine_plan(bundle, "vit.onnx").chosen[0].cost_s)
reveal_type(vitempo.zoo.make({"m": "vit.onnx"}, "zoo").cuts)
reveal_type(vitempo.plan.stitch("tasks.toml", {"npu": bundle})["t"].variants)
reveal_type(vitempo.Model.load("mobilevit_xxs").to_onnx(seed=1))
"""

REVEALED = ["Forecast", "Forecast", "Forecasts", "Forecasts", "float64", "float", "float"]
REVEALED += ["Bundle", "float", "dict[", "list[", "bytes"]


def test_the_package_is_marked_as_typed():
    assert (PACKAGE / "py.typed").is_file() and (PACKAGE / "_vitempo.pyi").is_file()


def test_mypy_in_strict_mode(tmp_path):
    pytest.importorskip("mypy")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path / 'cache'}"]
    settings = Path(__file__).resolve().parents[1] / "pyproject.toml"
    # In its folder of installed packages mypy takes the neighbours for parts of it.
    copied = shutil.copytree(PACKAGE, tmp_path / "copied" / "vitempo")
    checked = subprocess.run(
        [*command, f"--config-file={settings}", str(copied)], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    used = subprocess.run([*command, str(program)], capture_output=True, text=True)
    lines = [line for line in used.stdout.splitlines() if "Revealed type is" in line]
    assert len(lines) == len(REVEALED), used.stdout
    for line, expected in zip(lines, REVEALED):
        assert f"{expected}" in line.split("Revealed type is")[1], line
    assert " error:" not in used.stdout, used.stdout


def test_the_stubs_name_what_the_module_has():
    stubs = (PACKAGE / "_vitempo.pyi").read_text()
    for name, value in vars(_vitempo).items():
        if name.startswith("__") and name != "__version__" or name == "_vitempo":
            continue
        word = "class" if inspect.isclass(value) else "def"
        assert f"{word} {name}" in stubs or f"{name}:" in stubs, name
        if inspect.isclass(value):
            body = stubs.split(f"class {name}:")[1].split("\n@final")[0]
            for member in vars(value):
                if not member.startswith("_"):
                    assert f"def {member}(" in body, f"{name}.{member}"


def test_public_functions_are_documented():
    for name in ["Bundle", "Forecast", "Forecasts", "Model", "Space", "Table"]:
        kind = getattr(vitempo, name)
        assert kind.__doc__, name
        for member, value in vars(kind).items():
            if not member.startswith("_"):
                assert getattr(value, "__doc__", None), f"{name}.{member}"
    for name, value in vars(vitempo).items():
        if inspect.isroutine(value):
            assert value.__doc__, name
