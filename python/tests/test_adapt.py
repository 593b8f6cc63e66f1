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
    for latency in ("17", b"17", ["17"], [1.0, None], None, 17j, 10**400, True):
        with pytest.raises(vitempo.InvalidLatencies, match="`mobilevit_xxs` is"):
            vitempo.adapt({"mobilevit_xxs": latency}, MODELS, out=out)
    with pytest.raises(vitempo.InvalidLatencies, match="`mobilevit_xxs` has no latency"):
        vitempo.adapt({"mobilevit_xxs": []}, MODELS, out=out)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("network,latency_ms\nvit,3\n")
    with pytest.raises(vitempo.InvalidLatencies, match="wrong.csv: it has no column `model`") as e:
        vitempo.adapt(wrong, MODELS, out=out)
    assert "model,latency_ms" in e.value.hint
    with pytest.raises(ValueError, match="processor 'tpu'"):
        vitempo.adapt(CSV, MODELS, out=out, processor="tpu")
    with pytest.raises(ValueError, match="precision 'f8': expected one of f32"):
        vitempo.adapt(CSV, MODELS, out=out, precision="f8")
    for options, named in [
        ({"threads": 0}, "`threads` is 0"),
        ({"suggest": -1}, "`suggest` is -1"),
        ({"name": ""}, "`name`"),
        ({"framework": " "}, "`framework`"),
        ({"source": ""}, "`source`"),
    ]:
        with pytest.raises(vitempo.InvalidArgument, match=named):
            vitempo.adapt(CSV, MODELS, out=out, **options)
    with pytest.raises(vitempo.InvalidArgument, match="`count` is -1"):
        vitempo.first_models(MODELS, -1)
    assert not out.exists()


def test_latencies_of_any_number_type(tmp_path):
    np = pytest.importorskip("numpy")
    latencies = {"mobilevit_xxs": np.array([10, 11, 12]), "edgenext_xx_small": np.float32(10.75)}
    found = vitempo.adapt(latencies, MODELS, out=tmp_path / "n.vtb")
    assert {row.model: row.ms for row in found.measured} == {
        "mobilevit_xxs": 11.0,
        "edgenext_xx_small": 10.75,
    }


def test_two_models_of_one_name_are_refused(tmp_path):
    other = tmp_path / "mobilevit_xxs.onnx"
    other.write_bytes((MODELS / "edgenext_xx_small.onnx").read_bytes())
    both = [MODELS / "mobilevit_xxs.onnx", other]
    for refused in (
        lambda: vitempo.adapt({"mobilevit_xxs": 17.0}, both, out=tmp_path / "g.vtb"),
        lambda: vitempo.first_models(both),
    ):
        with pytest.raises(vitempo.InvalidModel, match="called `mobilevit_xxs`") as caught:
            refused()
        assert all(str(path) in caught.value.message for path in both)


def test_a_source_counts_once(tmp_path):
    source = "pixel4-tflite-cpu-f32"
    with pytest.raises(vitempo.InvalidArgument, match=f"{source}: it is a source already"):
        vitempo.first_models(MODELS, 1, sources=[source, vitempo.Bundle.load(source)])


def test_models_of_one_graph_are_one_model(tmp_path, caplog):
    graph = vitempo.read(MODELS / "mobilevit_xxs.onnx")
    models = {name: graph for name in ("a", "b", "c")}
    out = tmp_path / "h.vtb"
    found = vitempo.adapt({"a": 17.0, "b": 17.1, "c": 16.9}, models, out=out)
    assert [(row.model, row.ms) for row in found.measured] == [("a", 17.0)]
    assert found.mape is None, "one model is not forecast from itself"
    assert "`a`, `b`, `c` have the same graph" in found.warnings[0]
    with pytest.raises(vitempo.InvalidLatencies, match="`a` and `c` have the same graph"):
        vitempo.adapt({"a": 17.0, "b": 100.0, "c": 1000.0}, models, out=out)
    assert vitempo.first_models(models, 3) == ["a"]


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


def test_the_bundle_is_that_of_the_file_not_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = vitempo.adapt({"mobilevit_xxs": 9.0}, MODELS, out="pixel4-tflite-cpu-f32")
    assert found.bundle.location == str(tmp_path / "pixel4-tflite-cpu-f32")
    assert found.bundle.device == "device"


def test_names_of_latencies_and_models_are_the_same(tmp_path):
    model = MODELS / "mobilevit_xxs.onnx"
    other, source = MODELS / "edgenext_xx_small.onnx", "pixel4-tflite-cpu-f32"
    found = vitempo.adapt(
        {" a": 9.0, 7: 8.0}, {" a": model, 7: other}, out=tmp_path / "n.vtb", sources=source
    )
    assert {row.model for row in found.measured} == {"7", "a"} and len(found.sources) == 1
    with pytest.raises(vitempo.InvalidModel, match="two of the models are called `a`"):
        vitempo.first_models({" a": model, "a": model}, 1)


def test_precisions_and_folders_that_are_refused(tmp_path):
    for precision in ("bool", "f64", "u8", "fp16"):
        with pytest.raises(vitempo.InvalidArgument, match="expected one of f32, bf16, f16, int8"):
            vitempo.adapt(CSV, MODELS, out=tmp_path / "p.vtb", precision=precision)
    with pytest.raises(vitempo.InvalidModel, match="no .onnx file in folder"):
        vitempo.first_models(tmp_path)
