"""Adaptation to a device from a few latencies, and evaluation on measurements."""

from __future__ import annotations

import math

import pytest
from conftest import MODELS, ROOT

import vitempo

CSV = MODELS / "latencies.csv"
DATA = ROOT / "datasets/measured/epyc-engines-20-models"


def test_a_device_from_a_file_of_latencies(tmp_path):
    found = vitempo.adapt(
        CSV, MODELS, out=tmp_path / "board.vtb", sources=["pixel4-tflite-cpu-f32"], suggest=1
    )
    assert found.bundle.kind == "adapted" and found.bundle.device == "latencies"
    assert [row.model for row in found.measured] == sorted(row.model for row in found.measured)
    assert found.mape is not None and 0 < found.mape < 200
    assert found.inside is not None and 0 <= found.inside <= len(found.measured)
    for row in found.measured:
        forecast = found.bundle.predict(MODELS / f"{row.model}.onnx")
        assert forecast.lower <= forecast.ms <= forecast.upper
        assert row.from_others.lower < row.from_others.ms < row.from_others.upper
    assert len(found.sources) == 1 and "(forecasts)" in found.sources[0]
    assert found.bundle.name == "board" and "from the others" in str(found)


def test_latencies_and_models_in_memory_give_the_same_bundle(tmp_path):
    models = {path.stem: vitempo.read(path) for path in sorted(MODELS.glob("*.onnx"))}
    lines = [line.split(",") for line in CSV.read_text().split()[1:]]
    heading = CSV.read_text().split()[0].split(",")
    name, unit = heading.index("model"), next(i for i, h in enumerate(heading) if h != "model")
    factor = {"latency_ms": 1.0, "latency_us": 1e-3, "latency_s": 1e3, "latency_ns": 1e-6}
    samples: dict[str, list[float]] = {}
    for line in lines:
        ms = float(line[unit]) * factor[heading[unit]]
        samples.setdefault(line[name].removesuffix(".onnx"), []).append(ms)
    of_file = vitempo.adapt(CSV, MODELS, out=tmp_path / "a.vtb", name="board")
    of_memory = vitempo.adapt(samples, models, out=tmp_path / "b.vtb", name="board")
    assert [row.ms for row in of_memory.measured] == pytest.approx(
        [row.ms for row in of_file.measured]
    )
    model = MODELS / "mobilevit_xxs.onnx"
    assert of_memory.bundle.predict(model).ms == pytest.approx(of_file.bundle.predict(model).ms)


def test_a_dataset_as_source(tmp_path):
    with_data = vitempo.adapt(CSV, MODELS, out=tmp_path / "c.vtb", sources=[DATA])
    same = vitempo.adapt(CSV, MODELS, out=tmp_path / "d.vtb", sources=[vitempo.Dataset(DATA)])
    assert with_data.sources == same.sources and "models)" in with_data.sources[0]
    assert with_data.bundle == same.bundle


def test_models_to_measure_first():
    every = [path.stem for path in MODELS.glob("*.onnx")]
    for sources in ([], ["pixel4-tflite-cpu-f32", DATA]):
        names = vitempo.first_models(MODELS, 2, sources=sources, framework="tflite")
        assert len(set(names)) == 2 and set(names) <= set(every)
    assert len(vitempo.first_models(MODELS)) == len(every)
    with pytest.raises(ValueError, match="tpu"):
        vitempo.first_models(MODELS, processor="tpu")


def test_latencies_that_are_refused(tmp_path):
    out = tmp_path / "e.vtb"
    with pytest.raises(vitempo.InvalidLatencies, match="none of the models is called `vit`") as e:
        vitempo.adapt({"vit": 3.0}, MODELS, out=out)
    assert "mobilevit_xxs" in e.value.hint
    with pytest.raises(vitempo.InvalidLatencies, match="is not a latency"):
        vitempo.adapt({"mobilevit_xxs": -1.0}, MODELS, out=out)
    with pytest.raises(vitempo.InvalidLatencies, match="differ by a factor of 100"):
        vitempo.adapt({"mobilevit_xxs": [1.0, 100.0]}, MODELS, out=out)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("network,latency_ms\nvit,3\n")
    with pytest.raises(vitempo.InvalidLatencies, match="wrong.csv: it has no column `model`") as e:
        vitempo.adapt(wrong, MODELS, out=out)
    assert "model,latency_ms" in e.value.hint
    with pytest.raises(ValueError, match="processor 'tpu'"):
        vitempo.adapt(CSV, MODELS, out=out, processor="tpu")
    with pytest.raises(ValueError, match="unknown variant `f8`"):
        vitempo.adapt(CSV, MODELS, out=out, precision="f8")
    assert not out.exists()


def test_implausible_latencies_are_logged(tmp_path, caplog):
    found = vitempo.adapt(
        {"mobilevit_xxs": [10.0, 20.0]}, MODELS, out=tmp_path / "f.vtb", name="board"
    )
    assert found.mape is None and "differ by a factor of 2.0" in found.warnings[0]
    assert "differ by a factor of 2.0" in caplog.text


def test_evaluation_on_measurements(bundle):
    # The shipped bundle was trained on other runs of the same machine.
    found = bundle.evaluate(ROOT / "datasets/measured/epyc")
    assert found.real is not None and len(found.real.models) > 50
    assert 0 < found.real.mape < 20 and 0.5 < found.real.covered <= 1 and found.real.level == 0.9
    row = found.real.models[0]
    assert row.lower < row.forecast < row.upper
    assert row.error == pytest.approx(row.forecast / row.measured - 1)
    mean = sum(abs(row.error) for row in found.real.models) / len(found.real.models)
    assert 100 * mean == pytest.approx(found.real.mape, rel=1e-6)
    assert "conv" in found.real.kinds and not math.isnan(found.all.p90)
    assert str(found).splitlines()[-1].startswith("real: ")


def test_bundles_that_cannot_be_evaluated(phone, bundle):
    with pytest.raises(vitempo.InvalidBundle, match="has no predictors of kernels"):
        phone.evaluate(DATA)
    with pytest.raises(vitempo.NothingMeasured, match="has no measurement of its environment"):
        vitempo.evaluate("epyc-rten-f32-1t", ROOT / "datasets/measured/epyc-onnxruntime-f32-1t")
    with pytest.raises(vitempo.InvalidDataset, match="is not a dataset"):
        bundle.evaluate(MODELS)
