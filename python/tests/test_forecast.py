"""One model: the values of a forecast, and the ways in which a model is given."""

from __future__ import annotations

import io
import os
import pickle
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import ROOT

import vitempo
from vitempo import _card


def test_bundles_ship_and_are_found_by_name_and_by_path(bundle):
    names = vitempo.bundles()
    assert names == sorted(names) and len(names) >= 33
    assert bundle.name in names
    assert bundle.kind == "trained" and bundle.framework == "onnxruntime"
    assert bundle.threads == 1 and bundle.precision == "f32" and bundle.level == 0.9
    assert bundle.location == "embedded:epyc-onnxruntime-f32-1t"
    assert "AMD EPYC" in bundle.environment and "AMD EPYC" in repr(bundle)


def test_a_bundle_is_loaded_from_a_file(bundle):
    path = os.path.join(os.path.dirname(__file__), "../../bundles/epyc-onnxruntime-f32-1t.vtb")
    read = vitempo.Bundle.load(path)
    assert read == bundle and hash(read) == hash(bundle) and read.location == path
    assert read != vitempo.Bundle.load("pixel4-tflite-cpu-f32")


def test_a_forecast_has_an_interval_operators_and_coverage(bundle, model):
    forecast = bundle.predict(model)
    assert forecast.model == "vit_tiny_patch16_224" and forecast.bundle == bundle.name
    assert 0 < forecast.lower < forecast.ms < forecast.upper < 1000
    assert float(forecast) == forecast.ms and forecast.level == 0.9
    assert forecast.environment == bundle.environment
    operators = forecast.operators
    assert operators.keys() == ["name", "kind", "ms", "source", "extrapolating"]
    assert len(operators) == forecast.coverage.operators > 50
    total = operators["ms"].sum() + forecast.overhead
    assert total == pytest.approx(forecast.ms, rel=1e-6)
    coverage = forecast.coverage
    assert coverage.trained + coverage.fallback == coverage.operators
    assert coverage.trained == (operators["source"] == "model").sum()
    memory = forecast.memory
    assert memory.lower <= memory.peak <= memory.upper < 1e9 and memory.level == 0.9
    assert memory.weights == pytest.approx(4 * 5.7e6, rel=0.02)
    assert memory.activations > 0 and memory.freed > 0
    assert vitempo.Bundle.load("epyc-torch-f32-1t").predict(model).memory is None
    assert forecast.unsupported == []
    assert repr(forecast).startswith("Forecast(vit_tiny_patch16_224: ")


def test_every_way_of_giving_a_model_gives_the_same_forecast(bundle, model):
    class Proto:
        """As an onnx.ModelProto."""

        def SerializeToString(self):
            return model.read_bytes()

    content = model.read_bytes()
    forecast = bundle.predict(model)
    ways = [str(model), content, bytearray(content), memoryview(content), Proto()]
    ways += [vitempo.read(model), vitempo.read(content)]
    for way in ways:
        assert bundle.predict(way).ms == forecast.ms


def test_a_model_of_the_onnx_package(bundle, model):
    onnx = pytest.importorskip("onnx")
    proto = onnx.load(os.fspath(model), load_external_data=False)
    forecast = bundle.predict(proto)
    assert forecast.ms == bundle.predict(model).ms and forecast.model == proto.graph.name


def test_a_model_is_read_once_for_several_bundles(model):
    read = vitempo.read(model)
    assert read.name == "vit_tiny_patch16_224" and len(read) > 100
    assert sum(read.kinds.values()) == len(read) and read.unsupported == []
    assert len(read.architecture) == 16 and repr(read).startswith("Model(vit_tiny")


def test_a_card_shows_the_forecast_with_its_interval(bundle, model):
    forecast = bundle.predict(model)
    html = forecast._repr_html_()
    card = ElementTree.fromstring(html)  # one well-formed element
    assert card.tag == "div" and "vit_tiny_patch16_224" in html
    drawing = card.find("svg")
    label = "" if drawing is None else drawing.get("aria-label", "")
    assert label.startswith("forecast ") and f"{forecast.level:.0%} interval" in label
    assert [th.get("scope") for th in card.iter("th")].count("col") == 4
    assert all(th.get("scope") in ("col", "row") for th in card.iter("th"))
    assert card.find("table/caption") is not None
    tags = {element.tag for element in card.iter()}
    assert not tags & {"script", "style", "link", "iframe"}
    assert not any("id" in element.keys() for element in card.iter())


def test_operators_that_are_not_known_leave_no_upper_end(bundle):
    path = str(ROOT / "tests/read/unknown_operator.onnx")
    forecast = bundle.predict(path)
    assert forecast.unsupported == [("lstm", "LSTM")]
    assert 0 < forecast.lower <= forecast.ms and forecast.upper == float("inf")
    assert forecast.memory is not None and forecast.memory.upper is None
    assert "at least" in forecast._repr_html_() and "inf" not in forecast._repr_html_()
    assert ".. -]" in repr(forecast)
    assert pickle.loads(pickle.dumps(forecast)) == forecast
    with pytest.raises(vitempo.VitempoError, match="does not know LSTM"):
        vitempo.plan.split(path, bundle, bundle, bandwidth=20.0)


def test_a_card_escapes_what_others_named():
    operators = {"kind": np.array(["<i>", "conv"]), "ms": np.array([1.0, 3.0])}
    coverage = SimpleNamespace(trained=1, operators=2, fallback=1, extrapolating=0)
    of: Any = SimpleNamespace(
        model="<script>alert(1)</script>",
        environment="a 'quoted' & \"b\"",
        ms=4.0,
        lower=3.0,
        upper=6.0,
        level=0.9,
        coverage=coverage,
        unsupported=[],
        operators=operators,
    )
    html = _card.forecast(of)
    card = ElementTree.fromstring(html)
    assert "<script" not in html and "<i>" not in html
    assert "".join(card.itertext()).startswith("<script>alert(1)</script> on a 'quoted' & \"b\"")
    assert [kind for kind, *_ in _card.by_kind(of)] == ["conv", "<i>"]
    of.upper = float("inf")
    assert "<svg role" not in _card.forecast(of)


def test_forecasts_compare_by_their_values(bundle, phone, model):
    one, same, other = bundle.predict(model), bundle.predict(model), phone.predict(model)
    assert one == same and hash(one) == hash(same)
    assert one != other and one != 3


def test_one_model_on_several_devices(model):
    names = ["epyc-onnxruntime-f32-1t", "pixel4-tflite-cpu-f32", "epyc-rten-f32-1t"]
    found = vitempo.predict_on(model, names)
    assert sorted(row.bundle for row in found) == sorted(names) and found.left_out == []
    assert [row.ms for row in found] == sorted(row.ms for row in found)
    assert found[0].ms == vitempo.Bundle.load(found[0].bundle).predict(model).ms
    assert all(name in repr(found) for name in names)
    assert found.to_dict()["ms"] == [row.ms for row in found]


def test_every_bundle_that_ships_has_a_row(model):
    found = vitempo.predict_on(model)
    assert len(found) + len(found.left_out) == len(vitempo.bundles())
    assert len(found) > 25
    assert all(isinstance(error, vitempo.VitempoError) for _, error in found.left_out)


def test_values_that_are_no_model_are_type_errors(bundle):
    for value in [None, 3, 2.5, object(), {"model": 1}, io.BytesIO()]:
        with pytest.raises(TypeError, match="cannot forecast a"):
            bundle.predict(value)
    with pytest.raises(TypeError, match="`space` is for encodings"):
        bundle.predict(vitempo.read(vitempo.Space("hybrid-vit").sample(1)[0]), space="hybrid-vit")


def test_numbers_of_operators_are_a_view_that_cannot_be_written(bundle, model):
    operators = bundle.predict(model).operators
    ms = operators["ms"]
    assert ms.dtype == np.float64 and not ms.flags.writeable and ms.base is operators
    del operators
    assert ms.sum() > 0
    with pytest.raises(KeyError):
        bundle.predict(model).operators["seconds"]


def test_options_of_other_models_are_refused(bundle, model, encodings):
    read = vitempo.read(model)
    for given in (model, str(model), model.read_bytes(), read, encodings[0], encodings[:2]):
        with pytest.raises(TypeError, match="`inputs` is for modules of torch"):
            bundle.predict(given, inputs=(1, 3, 224, 224))
    for given in (read, encodings[0], encodings[:2]):
        with pytest.raises(TypeError, match="`dims` is for symbolic dimensions"):
            bundle.predict(given, dims={"batch": 1})
    for given in (model, model.read_bytes(), read, encodings[0]):
        with pytest.raises(TypeError, match="`threads` is for several encodings"):
            bundle.predict(given, threads=2)
    with pytest.raises(ValueError, match="`threads` is 0"):
        bundle.predict(encodings[:2], threads=0)
    with pytest.raises(ValueError, match="dims: `batch` is 0"):
        bundle.predict(model, dims={"batch": 0})
    assert bundle.predict(read, dims={}) == bundle.predict(model)
