"""Ray Tune itself, where it is installed: ceilings in trainables, samplers and search algorithms."""

from __future__ import annotations

import pickle

import pytest
from conftest import MODELS

import vitempo

tune = pytest.importorskip("ray.tune", reason="Ray Tune is not installed")

from vitempo import ray as tuned  # noqa: E402

MODEL = MODELS / "mobilevit_xxs.onnx"

# Ray's own warnings are not ours.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    import ray

    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield tmp_path_factory.mktemp("ray")
    ray.shutdown()


def test_metrics_of_a_model(bundle):
    forecast = bundle.predict(MODEL)
    ceiling = tuned.Ceiling(bundle.name, ms=forecast.upper + 1)
    assert ceiling.metrics(MODEL) == {
        "latency_ms": forecast.ms,
        "latency_lower_ms": forecast.lower,
        "latency_upper_ms": forecast.upper,
        "latency_violation_ms": pytest.approx(-1.0),
    }
    assert ceiling.is_kept(MODEL)
    assert not tuned.Ceiling(bundle, ms=forecast.ms + 1e-6).is_kept(MODEL)
    assert tuned.Ceiling(bundle, ms=forecast.ms + 1e-6, upper=False).is_kept(MODEL)


def test_a_sampler_draws_what_keeps_the_ceiling(bundle, space, encodings):
    median = sorted(bundle.predict(encodings[:200]).upper.tolist())[100]
    ceiling = tuned.Ceiling(bundle, ms=median)
    draw = ceiling.sampler(space, seed=3)
    drawn = [draw({}) for _ in range(100)]
    assert (bundle.predict(drawn).upper <= median).all() and len(set(drawn)) > 90
    again = pickle.loads(pickle.dumps(ceiling.sampler("hybrid-vit", seed=3)))
    assert [again() for _ in range(100)] == drawn
    with pytest.raises(vitempo.NothingFits, match="keeps 0.001 ms"):
        tuned.Ceiling(bundle, ms=0.001).sampler(space)()


class Listed(tune.search.Searcher):
    """Suggests encodings of a list, one after the other."""

    def __init__(self, encodings):
        super().__init__(metric="score", mode="max")
        self.left, self.asked, self.ended = list(encodings), {}, []

    def suggest(self, trial_id):
        if not self.left:
            return self.FINISHED
        self.asked[trial_id] = self.left.pop(0)
        return {"encoding": self.asked[trial_id]}

    def on_trial_complete(self, trial_id, result=None, error=False):
        self.ended.append((self.asked[trial_id], result, error))


def test_a_search_algorithm_starts_no_trial_that_is_too_slow(bundle, encodings):
    upper = bundle.predict(encodings[:6]).upper.tolist()
    ceiling = tuned.Ceiling(bundle, ms=sorted(upper)[2])
    kept = [e for e, ms in zip(encodings, upper) if ms <= ceiling.ms]
    listed = Listed(encodings[:6])
    search = tuned.Constrained(listed, ceiling, lambda config: config["encoding"])
    assert (search.metric, search.mode) == ("score", "max")
    found = [search.suggest(f"t{number}") for number in range(4)]
    assert [one["encoding"] for one in found[:3]] == kept
    assert found[3] == tune.search.Searcher.FINISHED and search.refused == 3
    assert all(error for _, _, error in listed.ended) and len(listed.ended) == 3
    search.on_trial_complete("t1", {"score": 2.0})
    assert listed.ended[-1] == (kept[1], {"score": 2.0}, False)
    one = tuned.Constrained(Listed(encodings[:6]), ceiling, lambda c: c["encoding"], tries=1)
    assert [one.suggest(f"t{n}") is None for n in range(6)] == [ms > ceiling.ms for ms in upper]


def test_trials_of_a_tuner_end_at_the_ceiling(bundle, encodings, started):
    upper = bundle.predict(encodings[:4]).upper.tolist()
    ceiling = tuned.Ceiling(bundle, ms=sorted(upper)[1])

    def trainable(config):
        if ceiling.report(config["encoding"]):
            tune.report({"score": 1.0})

    tuner = tune.Tuner(
        trainable,
        param_space={"encoding": tune.grid_search(encodings[:4])},
        run_config=tune.RunConfig(
            stop=tuned.CeilingStopper(), storage_path=str(started), verbose=0
        ),
    )
    results = tuner.fit()
    assert not results.errors and len(results) == 4
    trained = {result.config["encoding"] for result in results if "score" in result.metrics}
    kept = {e for e, ms in zip(encodings, upper) if ms <= ceiling.ms}
    assert trained == kept and len(kept) == 2
