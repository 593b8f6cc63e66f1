"""Refining by the program: what it is asked for, what comes back; with the real program where
VITEMPO_PROGRAM names one."""

from __future__ import annotations

import os
import pickle
import subprocess

import pytest
from conftest import MODELS
from test_program import program

import vitempo
from vitempo._files import dim_arguments

REAL = os.environ.get("VITEMPO_PROGRAM")
MODEL = MODELS / "mobilevit_xxs.onnx"

# What the program prints; `arguments` is where it was asked.
REPORT = """
if "--list" not in arguments:
    print("1 of 2 networks", file=sys.stderr, flush=True)
kernel = {
    "kind": "conv", "node": "stem", "operator": "x", "count": 2, "latency_ns": 2e6,
    "share_of_time": 0.5, "share_of_width": 0.7, "trained": False, "extrapolating": False,
    "cost_s": 1.5, "chosen": True, "with_another": False,
}
latency = {"point": 5e6, "lower": 4e6, "upper": 8e6, "level": 0.9}
report = {
    "model": "mobilevit_xxs", "before": latency, "cost_s": 1.5, "covered": 0.7,
    "out_of_reach": 0.1, "kernels": [kernel, {**kernel, "chosen": False, "with_another": True}],
}
if "--list" not in arguments:
    report.update(
        after={**latency, "lower": 4.5e6, "upper": 5.5e6}, corrected_kernels=1, networks=2,
        seconds=3, failed=[["y", "out of memory"]],
    )
with open(__file__ + ".asked", "w") as file:
    json.dump(arguments, file)
print(json.dumps(report))
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    import json

    path = program(tmp_path, REPORT)
    monkeypatch.setenv("VITEMPO_PROGRAM", path)
    return lambda: json.loads((tmp_path / "vitempo.asked").read_text())


def test_a_plan_measures_nothing(asked):
    plan = vitempo.refine_plan("epyc-rten-f32-1t", MODEL, within=2.5)
    head = ["refine", str(MODEL), "--bundle", "epyc-rten-f32-1t", "--within", "2.500000"]
    assert asked() == [*head, "--list", "--format", "json"]
    assert (plan.before.ms, plan.before.lower, plan.before.upper) == (5.0, 4.0, 8.0)
    assert [kernel.node for kernel in plan.kernels] == ["stem", "stem"]
    (chosen,) = plan.chosen
    assert (chosen.ms, chosen.count, chosen.cost_s, chosen.trained) == (2.0, 2, 1.5, False)
    assert "70.0% of the interval's width" in str(plan) and "80.0% wide" in str(plan)
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_dimensions_are_those_of_the_model(asked):
    assert dim_arguments({"batch": 1}) == ["--dim", "batch=1"]
    with pytest.raises(vitempo.InvalidModel, match="no dimension `batch`"):
        vitempo.refine_plan("epyc-rten-f32-1t", MODEL, within=2.5, dims={"batch": 1})


def test_a_refined_bundle_is_loaded(asked, bundle, tmp_path):
    out = tmp_path / "sure.vtb"
    out.write_bytes((MODELS.parents[1] / "bundles/epyc-onnxruntime-f32-1t.vtb").read_bytes())
    lines: list[str] = []
    found = bundle.refine(
        MODEL, out=out, within="2m", cores=[0, 1], anywhere=True, progress=lines.append
    )
    words = asked()
    assert words[:6] == ["refine", str(MODEL), "--bundle", bundle.name, "--within", "2m"]
    data = str(tmp_path / "sure-data")
    rest = ["--out", str(out), "--data", data, "--cores", "0,1", "--anywhere", "--format", "json"]
    assert words[6:] == rest and lines == ["1 of 2 networks"]
    assert found.bundle.location == str(out) and found.data == data
    assert found.after.upper == 5.5 and found.before.upper == 8.0
    assert (found.kernels, found.networks, found.seconds) == (1, 2, 3.0)
    assert found.failed == {"y": "out of memory"}
    assert "1 kernels corrected by 2 networks" in str(found)


def test_models_without_a_file_are_written(asked, bundle, space, model):
    for given in (model.read_bytes(), vitempo.read(model), space.sample(1)[0]):
        vitempo.refine_plan(bundle, given)
        path = asked()[1]
        assert path.endswith(".onnx") and not os.path.exists(path), "it was temporary"


def test_models_are_read_before_the_program_starts(asked, bundle, tmp_path):
    with pytest.raises(vitempo.ModelNotFound, match="absent.onnx"):
        vitempo.refine_plan(bundle, "absent.onnx")
    (tmp_path / "model.xml").write_text("<net/>")
    with pytest.raises(vitempo.InvalidModel) as error:
        bundle.refine(tmp_path / "model.xml", out=tmp_path / "x.vtb")
    assert "OpenVINO writes no ONNX" in error.value.hint
    assert not (tmp_path / "vitempo.asked").exists()


@pytest.mark.skipif(not REAL, reason="VITEMPO_PROGRAM names no program")
def test_the_real_program_narrows_an_interval(tmp_path):
    models, narrow = tmp_path / "models", tmp_path / "narrow.vtb"
    sample = [REAL, "sample", "--space", "isotropic-vit", "--count", "5", "--no-weights"]
    subprocess.run([*sample, "--out", str(models)], check=True, capture_output=True)
    few = ["--min-repeats", "3", "--max-repeats", "3", "--profiled-repeats", "2"]
    data = vitempo.profile(models, tmp_path / "data", options=few)
    bundle = vitempo.train(data, narrow, method="lasso")
    plan = vitempo.refine_plan(bundle, MODEL, within="10m")
    assert any(not kernel.trained for kernel in plan.chosen) and plan.covered > 0.5
    little = vitempo.refine_plan(bundle, vitempo.read(MODEL), within=2)
    assert 0 < little.cost_s <= 2.0 and 0 < little.covered < plan.covered
    found = bundle.refine(MODEL, out=tmp_path / "sure.vtb", within=5)
    forecast = found.bundle.predict(MODEL)
    assert found.before.ms == pytest.approx(bundle.predict(MODEL).ms)
    assert found.after.ms == pytest.approx(forecast.ms)
    assert found.after.upper - found.after.lower < found.before.upper - found.before.lower
    assert forecast.coverage.fallback < bundle.predict(MODEL).coverage.fallback
    assert vitempo.Dataset(found.data).validate()
    with pytest.raises(vitempo.ProgramError) as error:
        vitempo.refine("pixel4-tflite-cpu-f32", MODEL, out=tmp_path / "x.vtb")
    assert error.value.hint == "adapt it again with more latencies: vitempo adapt"
