"""Encodings of a search space: one, a list, and NumPy arrays of each kind."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterable

import numpy as np
import pytest
from conftest import ROOT

import vitempo


def test_an_encoding_has_the_forecast_of_its_graph(bundle, space, encodings):
    for encoding in encodings[:5]:
        forecast = bundle.predict(encoding)
        graph = bundle.predict(space.to_onnx(encoding))
        assert forecast.ms == pytest.approx(graph.ms, rel=1e-9)
        assert forecast.upper == pytest.approx(graph.upper, rel=1e-9)
        assert forecast.model == encoding
        assert forecast.coverage == graph.coverage
        assert forecast.operators["ms"].sum() == pytest.approx(graph.operators["ms"].sum())


def test_a_batch_equals_single_forecasts(bundle, encodings):
    batch = bundle.predict(encodings)
    assert len(batch) == len(encodings) and batch.encodings == encodings
    assert batch.ms.shape == batch.lower.shape == batch.upper.shape == (len(encodings),)
    assert (batch.lower <= batch.ms).all() and (batch.ms <= batch.upper).all()
    for index in [0, 3, 1499, -1]:
        assert batch[index].ms == pytest.approx(bundle.predict(encodings[index]).ms, rel=1e-9)
        assert batch[index].model == encodings[index]
    assert [f.model for f in batch][:3] == encodings[:3]
    with pytest.raises(IndexError):
        batch[len(encodings)]
    with pytest.raises(IndexError):
        batch[-len(encodings) - 1]


def test_every_kind_of_array_gives_the_same_latencies(bundle, encodings):
    texts = np.array(encodings)
    expected = bundle.predict(encodings).ms
    kinds = [
        texts,
        texts.astype("S"),
        texts.astype(object),
        texts.astype(texts.dtype.newbyteorder(">")),
        tuple(encodings),
    ]
    for kind in kinds:
        np.testing.assert_allclose(bundle.predict(kind).ms, expected, rtol=1e-12)
    np.testing.assert_allclose(bundle.predict(texts[::3]).ms, expected[::3], rtol=1e-12)
    np.testing.assert_allclose(bundle.predict(texts[::-1]).ms, expected[::-1], rtol=1e-12)


def test_the_number_of_threads_changes_no_latency(bundle, space):
    many = np.array(space.sample(50_000, seed=3))
    one, all_cores = bundle.predict(many, threads=1), bundle.predict(many)
    np.testing.assert_allclose(one.ms, all_cores.ms, rtol=1e-12)


def test_python_threads_share_a_bundle(bundle, encodings):
    expected = bundle.predict(encodings).ms
    found: list[np.ndarray] = []

    def work() -> None:
        found.append(bundle.predict(encodings).ms)
        bundle.predict(encodings[0])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for ms in found:
        np.testing.assert_allclose(ms, expected, rtol=1e-12)


def test_adapted_bundles_answer_encodings_too(phone, encodings):
    batch = phone.predict(encodings[:20])
    assert batch[7].ms == pytest.approx(phone.predict(encodings[7]).ms, rel=1e-12)


def test_spaces_of_other_families_and_definitions(bundle, space):
    other = vitempo.Space("isotropic-vit").sample(3)
    assert (bundle.predict(other).ms > 0).all()
    definition = vitempo.Space.parse(_narrowed())
    inside = definition.sample(2)
    assert bundle.predict(inside, space=definition).ms.shape == (2,)
    with pytest.raises(vitempo.InvalidEncoding, match="is not in the search space `narrow`"):
        bundle.predict(space.sample(20), space=definition)


def _narrowed() -> str:
    text = (ROOT / "search_space/spaces/hybrid-vit.toml").read_text()
    text = text.replace('name = "hybrid-vit"', 'name = "narrow"')
    return text.replace("heights = [224, 256, 288, 384]", "heights = [224]")


def test_an_empty_batch(bundle):
    with pytest.raises(vitempo.InvalidEncoding, match="no encodings"):
        bundle.predict([])
    empty = bundle.predict([], space="hybrid-vit")
    assert len(empty) == 0 and empty.ms.shape == (0,) and repr(empty).startswith("Forecasts(0")
    assert bundle.predict(np.array([], dtype="U5"), space="hybrid-vit").ms.shape == (0,)


def test_what_is_not_an_array_of_encodings(bundle, encodings):
    with pytest.raises(TypeError, match="item 1 is a int"):
        bundle.predict([encodings[0], 3])
    with pytest.raises(TypeError, match="texts, not float64"):
        bundle.predict(np.zeros(3))
    with pytest.raises(ValueError, match="1 dimension, not 2"):
        bundle.predict(np.array([encodings[:2]]))
    with pytest.raises(vitempo.InvalidEncoding, match="hv1-nonsense"):
        bundle.predict([encodings[0], "hv1-nonsense"])
    with pytest.raises(vitempo.InvalidEncoding):
        bundle.predict(np.array([encodings[0], "hv1-\u00e4"]))
    with pytest.raises(vitempo.InvalidEncoding):
        bundle.predict(np.array([encodings[0].encode(), b"hv1-\xff"]))


@pytest.mark.parametrize("wrong", ["hv1\n", "\n", "hv1-\u00e9", ""])
def test_texts_that_no_encoding_has(bundle, space, encodings, wrong):
    texts = [encodings[0], wrong, encodings[1]]
    for values in (texts, np.array(texts), np.array(texts, dtype=object)):
        with pytest.raises(vitempo.InvalidEncoding):
            bundle.predict(values, space=space)


def test_masked_encodings_are_refused(bundle, encodings):
    masked = np.ma.array(encodings[:3], mask=[False, True, True])
    with pytest.raises(vitempo.InvalidEncoding, match="encoding 1 is masked"):
        bundle.predict(masked)
    assert len(bundle.predict(np.ma.array(encodings[:3]))) == 3


def test_a_row_is_the_forecast_and_its_pickle(bundle, encodings):
    batch = bundle.predict(encodings)
    assert isinstance(batch, Iterable)
    rows = list(batch)
    assert [row.ms for row in rows] == batch.ms.tolist()
    assert [row.upper for row in rows] == batch.upper.tolist()
    single = [bundle.predict(encoding) for encoding in encodings]
    for forecasts in (rows, single):
        again = pickle.loads(pickle.dumps(forecasts))
        assert again == forecasts and list(map(hash, again)) == list(map(hash, forecasts))
    assert [one._json(False) for one in pickle.loads(pickle.dumps(single))] == [
        one._json(False) for one in single
    ]
    for row, one in zip(rows, single):
        assert (row == one) == ((row.ms, row.lower, row.upper) == (one.ms, one.lower, one.upper))
