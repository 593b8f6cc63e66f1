"""Zoos and stitched plans by the program: what it is asked for, what comes back; with the real
program where VITEMPO_PROGRAM names one."""

from __future__ import annotations

import json
import os
import pickle

import numpy as np
import pytest
from conftest import MODELS, ROOT
from test_program import program

import vitempo
from vitempo import zoo

REAL = os.environ.get("VITEMPO_PROGRAM")
MODEL = MODELS / "mobilevit_xxs.onnx"
STRIPES = ROOT / "datasets" / "stitching"
needs_program = pytest.mark.skipif(not REAL, reason="VITEMPO_PROGRAM names no program")
Task = vitempo.plan.Task


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """A program that prints a value; then what it was asked, with the files that it was given."""

    def with_value(value: object):
        body = f"""
        import pathlib
        files = {{a: pathlib.Path(a) for a in arguments if a.endswith((".toml", ".npy", ".onnx"))}}
        kept = {{a: list(f.read_bytes()) for a, f in files.items() if f.is_file()}}
        with open(__file__ + ".asked", "w") as file:
            json.dump([arguments, kept], file)
        print({json.dumps(value)!r})
        """
        monkeypatch.setenv("VITEMPO_PROGRAM", program(tmp_path, body))
        return lambda: json.loads((tmp_path / "vitempo.asked").read_text())

    return with_value


def test_a_zoo_is_asked_for(answer, tmp_path, model):
    row = {"model": "m", "variant": "int8", "file": "m.int8.onnx", "flops": 1, "params": 2}
    row.update(nonzero=3, weights_bytes=4, similarity=0.5)
    out = str(tmp_path / "zoo")
    asked = answer({"variants": [row], "cuts": {"m": ["x"]}, "tasks": f"{out}/tasks.toml"})
    models = {"a b": model.read_bytes(), "c": MODEL}
    made = zoo.make(models, out, variants=["dense", "int8"], positions=2, compare="rten", seed=4)
    words, files = asked()
    assert words[:2] == ["zoo", "make"] and words[3] == str(MODEL)
    assert words[2].endswith("a_b.onnx") and bytes(files[words[2]]) == model.read_bytes()
    rest = ["--variant", "dense,int8", "--positions", "2", "--seed", "4", "--out", out]
    assert words[4:] == [*rest, "--compare", "rten", "--inputs", "4", "--format", "json"]
    assert os.fspath(made) == f"{out}/tasks.toml" and made.cuts == {"m": ["x"]}
    (variant,) = made["m"]
    assert variant.path == os.path.join(out, "m.int8.onnx") and variant.similarity == 0.5
    assert pickle.loads(pickle.dumps(made)) == made
    with pytest.raises(KeyError):
        made["other"]


def test_images_and_labels_are_arrays(answer):
    rows = [
        {"variants": ["a", "a"], "accuracy": 90.0},
        {"variants": ["a", "b"], "accuracy": 80.0},
    ]
    asked = answer({"task": "t", "engine": "rten", "images": 2, "stitched": rows})
    images = np.arange(12.0).reshape(2, 1, 2, 3)
    found = zoo.measure("tasks.toml", images, [1, 0], count=9, update=True)
    words, files = asked()
    assert words[:4] == ["zoo", "measure", "--tasks", "tasks.toml"]
    assert words[4:11] == ["--engine", "rten", "--seed", "0", "--sample", "9", "--update"]
    kinds = [len(files[words[12]]), len(files[words[14]])]
    assert kinds == [128 + 12 * 4, 128 + 2 * 8], "float32 and int64 behind a header of NumPy's"
    assert found["a"] == 90.0 and found["a", "b"] == 80.0 and found.images == 2


PLAN = {
    "order": ["npu", "cpu"],
    "violations": 1,
    "mean_latency_ns": 5e6,
    "bottleneck_ns": 3000000,
    "tasks": [
        {
            "task": "t",
            "variants": ["dense", "int8"],
            "accuracy": 75.5,
            "latency_ns": {"point": 5000000, "lower": 4000000, "upper": 6000000},
            "slo": {"accuracy": 70.0, "latency_ns": 4500000},
            "slo_met": False,
            "fetched": [2],
            "cuts": ["x"],
        }
    ],
    "orders": [
        {"order": ["npu", "cpu"], "violations": 1, "mean_latency_ns": 5e6},
        {"order": ["cpu", "npu"], "violations": None, "mean_latency_ns": None},
    ],
    "search": {"is_complete": True},
}


def test_a_stitched_plan_is_asked_for(answer, bundle, phone, tmp_path):
    asked = answer(PLAN)
    models = {"dense": MODEL, 'in"t': tmp_path / "int8.onnx"}
    task = Task(models, latency=12.5, accuracies={"dense": 75.5}, accuracy=70)
    (tmp_path / "int8.onnx").write_bytes(MODEL.read_bytes())
    found = vitempo.plan.stitch(
        {"t": task},
        {"npu": phone, "cpu": [bundle, "epyc-onnxruntime-int8-1t"]},
        positions=2,
        slos={"t": (70, 4.5)},
        bandwidth=8000,
        hand_over=0.2,
        memory="50%",
        any_order=True,
    )
    words, files = asked()
    assert words[:3] == ["plan", "stitch", "--tasks"]
    assert bytes(files[words[3]]).decode().splitlines() == [
        "positions = 2",
        "[[task]]",
        'name = "t"',
        'slo = { accuracy = 70.0, latency = "12.500000ms" }',
        "[[task.variant]]",
        'name = "dense"',
        f'model = "{MODEL}"',
        "accuracy = 75.5",
        "[[task.variant]]",
        'name = "in\\"t"',
        f'model = "{tmp_path / "int8.onnx"}"',
    ]
    names = [word for word in words if "=" in word]
    assert names == [
        f"npu={phone.name}",
        f"cpu={bundle.name}",
        "cpu=epyc-onnxruntime-int8-1t",
        "t=70.000000%,4.500000ms",
    ]
    rest = ["--memory", "50%", "--preload", "exact", "--bandwidth", "8000.000000Mbit/s"]
    rest += ["--hand-over", "0.200000ms", "--any-order", "--seed", "0", "--format", "json"]
    assert words[-len(rest) :] == rest
    assert found["t"].variants == ["dense", "int8"] and found["t"].latency.upper == 6.0
    assert found.order == ["npu", "cpu"] and found.violations == 1 and found.busiest == 3.0
    assert found.orders[1].mean is None and found.to_dict()["order"] == found.order
    assert "dense | int8, 75.50 % (asked 70.00 %), 5 ms (asked 4.5 ms), violated" in str(found)
    with pytest.raises(KeyError, match="u"):
        found["u"]


@needs_program
def test_variants_are_made_measured_and_stitched(tmp_path):
    images, labels = np.load(STRIPES / "images.npy"), np.load(STRIPES / "labels.npy")
    variants = ["dense", "int8", "structured=50%"]
    made = zoo.make(STRIPES / "stripes.onnx", tmp_path / "zoo", variants=variants, positions=2)
    names = [variant.name for variant in made["stripes"]]
    assert names == ["dense", "int8", "structured-50"] and len(made.cuts["stripes"]) == 1
    assert all(os.path.isfile(variant.path) for variant in made.variants)
    assert made["stripes"][2].parameters < made["stripes"][0].parameters
    measured = zoo.measure(made, images[:40], labels[:40], update=True)
    assert len(measured.accuracies) == 9 and measured.images == 40
    assert measured["dense"] > 90.0 and measured["structured-50"] > 50.0
    out = tmp_path / "stitched.onnx"
    one = zoo.stitch(made, ["dense", "int8"], out=out, images=1)
    assert one.refused is None and 0.5 < one.similarity <= 1.0 and vitempo.read(out).macs > 0
    some = zoo.sample(made, 3, images=1, seed=2)
    assert len(some) == 3 and all(row.refused is None for row in some)
    with pytest.raises(vitempo.ProgramError, match="--variants names 3, there are 2") as error:
        zoo.stitch(made, ["dense", "int8", "dense"])
    assert error.value.returncode == 1

    processors = {"a": "epyc-rten-f32-1t", "b": ["epyc-onnxruntime-f32-1t"]}
    least = measured["dense"] - 1.0
    found = vitempo.plan.stitch(made, processors, slos={"stripes": (least, 1000.0)})
    assert found.violations == 0 and found["stripes"].accuracy >= least and found.is_complete
    assert sorted(found.order) == ["a", "b"] and len(found["stripes"].variants) == 2
    strict = vitempo.plan.stitch(made, processors, slos={"stripes": (least, 1e-4)})
    assert strict.violations == 1 and not strict["stripes"].met
    dense = {"dense": made["stripes"][0].path, "small": made["stripes"][2].path}
    task = Task(dense, latency=1000.0, accuracies={"dense": 90.0, "small": 80.0}, accuracy=85.0)
    own = vitempo.plan.stitch({"own": task}, processors, positions=2)
    assert own.violations == 0 and own["own"].accuracy >= 85.0


@needs_program
def test_stitched_plans_from_costs(tmp_path):
    processors = [{"name": "npu"}, {"name": "cpu"}]
    costs = {"model": "t", "processors": processors, "nodes": [], "tensors": []}
    for variant, factor in (("dense", 2), ("small", 1)):
        for position in (1, 2):
            times = {"npu": 1_000_000 * factor * position, "cpu": 3_000_000 * factor}
            row = {"name": f"t/{variant}/{position}", "memory_bytes": 1000}
            costs["nodes"].append({**row, "latency_ns": times})
    path = tmp_path / "costs.json"
    path.write_text(json.dumps(costs))
    variants = {"dense": MODEL, "small": MODEL}
    task = Task(variants, latency=8.0, accuracies={"dense": 80.0, "small": 70.0}, accuracy=79.0)
    found = vitempo.plan.stitch({"t": task}, positions=2, costs=path)
    assert found.order == ["npu", "cpu"]
    assert found["t"].variants == ["dense", "dense"] and found["t"].latency.ms == 8.0
    assert found.violations == 0 and [row.violations for row in found.orders] == [0, 1]


def test_a_report_is_asked_for_and_read(tmp_path, monkeypatch):
    body = """
    if "--out" in arguments:
        open(arguments[-1], "w").write("written")
    else:
        print(arguments)
    """
    monkeypatch.setenv("VITEMPO_PROGRAM", program(tmp_path, body))
    assert zoo.report("a.json").strip() == str(["zoo", "report", "a.json"])
    assert zoo.report("a.json", tmp_path / "a.md") == "written"


@needs_program
def test_a_report_of_the_real_program_has_its_systems(tmp_path):
    text = zoo.report(STRIPES / "record.json", tmp_path / "report.md")
    assert text == (tmp_path / "report.md").read_text(encoding="utf-8")
    assert text.startswith("#") and "| " in text
    assert zoo.report(STRIPES / "record.json").strip() == text.strip()


def test_dimensions_and_options_of_stitched_tasks(answer, bundle):
    answer({})
    onnx = MODEL.read_bytes()
    with pytest.raises(vitempo.InvalidModel, match="batch"):
        task = Task({"a": onnx}, latency=1.0, dims={"batch": 1})
        vitempo.plan.stitch({"t": task}, {"cpu": bundle})
    for option in ("every", "rate"):
        with pytest.raises(TypeError, match=f"`{option}` is for `plan.place`"):
            vitempo.plan.stitch({"t": Task(MODEL, latency=1.0, **{option: 1.0})}, {"cpu": bundle})
    task = Task(MODEL, latency=1.0)
    for slo in (("50", 20), 50, (50,)):
        with pytest.raises(vitempo.PlanError, match=r"slos\['t'\]"):
            vitempo.plan.stitch({"t": task}, {"cpu": bundle}, slos={"t": slo})
