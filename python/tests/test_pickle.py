"""Pickles, and workers that are forked or spawned."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sys
from concurrent.futures import ProcessPoolExecutor

import numpy as np
import pytest
from conftest import ROOT

import vitempo


def again(value):
    return pickle.loads(pickle.dumps(value))


def test_bundles_are_pickled_by_name(bundle):
    assert again(bundle) == bundle
    assert len(pickle.dumps(bundle)) < 500
    assert copy.copy(bundle) == bundle


def test_a_bundle_whose_file_changed_is_refused(tmp_path):
    path = tmp_path / "mine.vtb"
    path.write_bytes((ROOT / "bundles/epyc-rten-f32-1t.vtb").read_bytes())
    kept = pickle.dumps(vitempo.Bundle.load(path))
    assert pickle.loads(kept).name == "mine"
    path.write_bytes((ROOT / "bundles/epyc-torch-f32-1t.vtb").read_bytes())
    with pytest.raises(vitempo.InvalidBundle, match="another one than when it was pickled"):
        pickle.loads(kept)
    path.unlink()
    with pytest.raises(vitempo.VitempoError):
        pickle.loads(kept)


def test_forecasts_of_models_are_pickled_whole(bundle, model):
    forecast = bundle.predict(model)
    copied = again(forecast)
    assert copied == forecast and copied.environment == forecast.environment
    assert (copied.ms, copied.lower, copied.upper) == (forecast.ms, forecast.lower, forecast.upper)
    assert copied.memory == forecast.memory
    assert copied.coverage == forecast.coverage and copied.overhead == forecast.overhead
    assert copied.operators["ms"].tolist() == forecast.operators["ms"].tolist()


def test_forecasts_of_encodings_and_spaces_are_pickled_by_name(bundle, space, encodings):
    forecast = again(bundle.predict(encodings[0]))
    assert forecast.ms == pytest.approx(bundle.predict(encodings[0]).ms, rel=1e-12)
    assert len(forecast.operators) > 10
    batch = bundle.predict(encodings[:100])
    copied = again(batch)
    np.testing.assert_allclose(copied.ms, batch.ms, rtol=1e-12)
    assert copied.encodings == encodings[:100] and copied[3].model == encodings[3]
    assert again(space).sample(2) == space.sample(2)
    text = (ROOT / "search_space/spaces/isotropic-vit.toml").read_text()
    own = vitempo.Space.parse(text.replace('name = "isotropic-vit"', 'name = "mine"'))
    assert again(own).name == "mine" and again(own).sample(2) == own.sample(2)


def forecast_in_worker(work):
    bundle, encoding = work
    return bundle.predict(encoding), bundle.predict([encoding] * 1200).ms[5]


@pytest.mark.parametrize("start", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_workers_of_each_kind(start, bundle, encodings):
    bundle.predict(encodings)
    context = multiprocessing.get_context(start)
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        work = [(bundle, encoding) for encoding in encodings[:6]]
        found = list(pool.map(forecast_in_worker, work))
    for encoding, (forecast, ms) in zip(encodings, found):
        expected = bundle.predict(encoding).ms
        assert forecast.ms == pytest.approx(expected, rel=1e-9)
        assert ms == pytest.approx(expected, rel=1e-9)


def test_the_main_module_is_not_needed():
    assert sys.modules["vitempo"].__file__ is not None


def test_a_relative_path_is_pickled_as_an_absolute_one(tmp_path, monkeypatch):
    (tmp_path / "mine.vtb").write_bytes((ROOT / "bundles/epyc-rten-f32-1t.vtb").read_bytes())
    monkeypatch.chdir(tmp_path)
    bundle = vitempo.Bundle.load("mine.vtb")
    monkeypatch.chdir(ROOT)
    assert again(bundle) == bundle
