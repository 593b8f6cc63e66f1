"""The modules for other tools, by the tools' published interfaces; with the tools where they are
installed."""

from __future__ import annotations

import importlib
import inspect
import logging

import numpy as np
import pytest
from conftest import MODELS

import vitempo
from vitempo import nn_meter, ofa
from vitempo.archai import LatencyEvaluator
from vitempo.callback import ForecastCallback
from vitempo.estimator import LatencyRegressor
from vitempo.nni import LatencyProfiler
from vitempo.optuna import Ceiling

MODEL = MODELS / "mobilevit_xxs.onnx"


def test_nn_meter(phone, caplog):
    predictor = nn_meter.load_latency_predictor("cortexA76cpu_tflite21")
    with caplog.at_level(logging.INFO, logger="vitempo"):
        latency = predictor.predict(str(MODEL), model_type="onnx")
    assert latency == phone.predict(MODEL).ms and "Predict latency" in caplog.text
    assert isinstance(latency, float)
    named = [p["name"] for p in nn_meter.list_latency_predictors()]
    assert "cortexA76cpu_tflite21" in named and set(vitempo.bundles()) < set(named)
    for name in named[:3]:
        nn_meter.load_latency_predictor(name, predictor_version=1.0)
    with pytest.raises(NotImplementedError, match="convert the model"):
        predictor.predict("model.pb", "pb")
    for name in ["myriadvpu_openvino2019r2", "unknown"]:
        with pytest.raises(NotImplementedError):
            nn_meter.load_latency_predictor(name)
    with pytest.raises(NotImplementedError, match="the version 1.0"):
        nn_meter.load_latency_predictor("cortexA76cpu_tflite21", 2.0)


def test_the_interface_is_that_of_nn_meter():
    real = pytest.importorskip("nn_meter")
    predictor = importlib.import_module("nn_meter.predictor.nn_meter_predictor")

    def parameters(of):
        each = inspect.signature(of).parameters.values()
        return [(one.name, one.default, one.kind) for one in each]

    for ours, theirs in (
        (nn_meter.load_latency_predictor, real.load_latency_predictor),
        (nn_meter.list_latency_predictors, real.list_latency_predictors),
        (nn_meter.nnMeterPredictor.predict, predictor.nnMeterPredictor.predict),
    ):
        assert parameters(ours) == parameters(theirs)
    offered = {one["name"] for one in real.list_latency_predictors()}
    assert offered == {*nn_meter.DEVICES, *nn_meter.WITHOUT_BUNDLE}


def test_nni(bundle, space):
    frozen: list[dict[str, int]] = []
    models = dict(enumerate(space.sample(3)))

    class ModelSpace:
        """As nni.nas.nn.pytorch.ModelSpace: `freeze` makes the model of a sample."""

        def freeze(self, sample):
            frozen.append(dict(sample))
            return models[sample["choice"]]

    profiler = LatencyProfiler(ModelSpace(), bundle.name)
    latencies = [profiler.profile({"choice": choice}) for choice in [0, 1, 2, 1]]
    # Tables, which the shared bundle may have by now, sum in another order.
    asked = [bundle.predict(models[c]).ms for c in [0, 1, 2, 1]]
    assert latencies == pytest.approx(asked, rel=1e-12) and latencies[1] == latencies[3]
    assert frozen == [{"choice": 0}, {"choice": 1}, {"choice": 2}], "each sample once"
    direct = LatencyProfiler(None, bundle, to_model=lambda sample: models[sample["choice"]])
    assert direct.profile({"choice": 2}) == pytest.approx(latencies[2], rel=1e-12)


@pytest.fixture
def elsewhere(tmp_path, monkeypatch):
    """Another working directory: Archai opens a log file in it."""
    monkeypatch.chdir(tmp_path)


def test_archai_speaks_seconds(bundle, elsewhere):
    class ArchaiModel:
        """As archai.discrete_search.api.ArchaiModel: the module is `arch`."""

        def __init__(self, arch):
            self.arch, self.archid, self.metadata = arch, "0", {}

    forecast = bundle.predict(MODEL)
    evaluator = LatencyEvaluator(bundle)
    assert evaluator.evaluate(ArchaiModel(MODEL), None) == forecast.ms / 1000
    assert evaluator.evaluate(ArchaiModel(MODEL), budget=1.0) == forecast.ms / 1000
    upper = LatencyEvaluator(bundle.name, upper=True)
    assert upper.evaluate(ArchaiModel(MODEL)) == forecast.upper / 1000


def test_archai_itself(bundle, elsewhere, tmp_path):
    """A search of Archai 1.0.0 whose objective and constraint are forecasts."""
    api = pytest.importorskip("archai.discrete_search.api", reason="Archai is not installed")
    algorithms = importlib.import_module("archai.discrete_search.algos.random_search")
    files = [MODEL, MODELS / "vit_tiny_patch16_224.onnx"]
    forecasts = [bundle.predict(file) for file in files]
    limit = (forecasts[0].ms + forecasts[1].ms) / 2 / 1000
    asked = iter([0, 1, 1, 0] * 8)

    class Space(api.DiscreteSearchSpace):
        def random_sample(self):
            place = next(asked)
            return api.ArchaiModel(files[place], str(place))

        def save_arch(self, model, path):
            """Models are files; nothing more is kept."""

        load_arch = save_model_weights = load_model_weights = save_arch

        for method in (random_sample, save_arch):
            method.__override__ = True  # as the decorator of the package `overrides` does

    def objectives(**options):
        found = api.SearchObjectives()
        evaluator = LatencyEvaluator(bundle.name)
        found.add_objective("latency", evaluator, higher_is_better=False, **options)
        return found

    with_both = objectives()
    algorithms.RandomSearch(
        Space(), with_both, str(tmp_path), 1, 4, save_pareto_model_weights=False
    ).search()
    for place, forecast in enumerate(forecasts):
        assert with_both.lookup_cache("latency", str(place), None) == forecast.ms / 1000
    bounded = objectives(compute_intensive=False, constraint=(0.0, limit))
    models = [api.ArchaiModel(file, str(place)) for place, file in enumerate(files)]
    seconds, valid = bounded.validate_constraints(models)
    assert list(seconds["latency"]) == [forecast.ms / 1000 for forecast in forecasts]
    assert list(valid) == [int(np.argmin([forecast.ms for forecast in forecasts]))]


def nni_space():
    """A model space of NNI: two kernels by two widths."""
    torch = pytest.importorskip("torch")
    nn = pytest.importorskip("nni.nas.nn.pytorch", reason="NNI is not installed")
    nni = importlib.import_module("nni")

    class Space(nn.ModelSpace):
        def __init__(self):
            super().__init__()
            kernels = (3, 7)
            each = [torch.nn.Conv2d(3, 8, kernel, padding=kernel // 2) for kernel in kernels]
            self.first = nn.LayerChoice(each, label="kernel")
            self.second = nn.MutableConv2d(8, nni.choice("width", [16, 64]), 3)

        def forward(self, x):
            return self.second(self.first(x))

    return Space()


def test_nni_itself(bundle):
    """A strategy of NNI 3.0 that submits only models below a latency."""
    space = nni_space()
    execution = importlib.import_module("nni.nas.execution")
    middleware = importlib.import_module("nni.nas.strategy.middleware")
    strategies = importlib.import_module("nni.nas.strategy")
    evaluators = importlib.import_module("nni.nas.evaluator")
    spaces = importlib.import_module("nni.nas.space")
    nni = importlib.import_module("nni")

    profiler = LatencyProfiler(space, bundle.name, inputs=(1, 3, 32, 32))
    samples = [{"kernel": kernel, "width": width} for kernel in (0, 1) for width in (16, 64)]
    latencies = [profiler.profile(sample) for sample in samples]
    assert len(set(latencies)) == 4 and latencies[0] == min(latencies) > 0
    alone = bundle.predict(space.freeze(samples[0]), inputs=(1, 3, 32, 32)).ms
    assert latencies[0] == pytest.approx(alone, rel=1e-12)
    limit = float(np.median(latencies))

    fast = middleware.Filter(lambda model: profiler.profile(model.sample) < limit)
    strategy = middleware.Chain(strategies.Random(), fast)
    train = evaluators.FunctionalEvaluator(lambda model: nni.report_final_result(1.0))
    of_torch = spaces.RawFormatModelSpace(space, train)
    strategy(of_torch, execution.SequentialExecutionEngine())
    submitted = [dict(model.sample) for model in strategy.list_models()]
    expected = [s for s, latency in zip(samples, latencies) if latency < limit]
    assert sorted(map(repr, submitted)) == sorted(map(repr, expected)) and len(expected) == 2


def test_a_profiler_in_the_filters_and_classes_of_nni(bundle):
    space = nni_space()
    one_shot = importlib.import_module("nni.nas.oneshot.pytorch.profiler")
    base = importlib.import_module("nni.nas.profiler").Profiler

    class Mine(LatencyProfiler, base):
        pass

    profiler = Mine(space, bundle, inputs=(1, 3, 32, 32))
    sample = {"kernel": 1, "width": 64}
    ms = profiler.profile(sample)
    assert isinstance(profiler, base)
    assert one_shot.RangeProfilerFilter(profiler, max=ms)(sample)
    assert not one_shot.RangeProfilerFilter(profiler, max=ms * 0.99)(sample)
    ours, theirs = (inspect.signature(of.profile) for of in (LatencyProfiler, base))
    assert list(ours.parameters) == list(theirs.parameters)


class Trial:
    """As optuna.trial.Trial."""

    def __init__(self):
        self.user_attrs = {}

    def set_user_attr(self, key, value):
        self.user_attrs[key] = value


def test_optuna_constraints(bundle):
    forecast, trial = bundle.predict(MODEL), Trial()
    ceiling = Ceiling(bundle, ms=forecast.upper + 1)
    assert ceiling.check(trial, MODEL) == forecast
    assert trial.user_attrs["latency_ms"] == forecast.ms
    assert ceiling.violation(trial) == (pytest.approx(-1.0),)
    Ceiling(bundle, ms=forecast.ms - 0.5, upper=False).forecast(trial, MODEL)
    assert ceiling.violation(trial) == (pytest.approx(0.5),)


@pytest.mark.parametrize("ms", [float("nan"), float("inf"), -1, 0, "20"])
def test_ceilings_that_no_latency_keeps(ms):
    with pytest.raises(vitempo.InvalidArgument, match="`ms` is .*, expected a number above 0, ms"):
        Ceiling("pixel4-tflite-cpu-f32", ms=ms)


def test_optuna_itself(bundle, encodings):
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    batch = bundle.predict(encodings)
    ceiling = Ceiling(bundle, ms=float(np.median(batch.upper)))

    def objective(trial):
        index = trial.suggest_int("index", 0, len(encodings) - 1)
        return ceiling.check(trial, encodings[index]).ms

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=20)
    states = {trial.state for trial in study.trials}
    assert states == {optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.PRUNED}


def test_an_estimator_over_encodings(bundle, encodings):
    regressor = LatencyRegressor(bundle.name)
    assert regressor.fit(encodings) is regressor
    ms = regressor.predict(encodings)
    np.testing.assert_allclose(ms, bundle.predict(encodings).ms, rtol=1e-12)
    np.testing.assert_allclose(regressor.predict(np.array(encodings)[:, None]), ms, rtol=1e-12)
    ends = regressor.predict_interval(encodings)
    assert ends.shape == (len(encodings), 2) and (ends[:, 0] <= ms).all()
    assert regressor.score(encodings, ms) == pytest.approx(1.0)
    assert regressor.score(encodings, ms + 100 * (ms - ms.mean())) < 0.5
    with pytest.raises(vitempo.InvalidArgument, match=r"`y` has shape \(1,\), expected \(1500,\)"):
        regressor.score(encodings, [3.0])
    assert regressor.get_params() == {"bundle": bundle.name, "space": None}
    other = LatencyRegressor().set_params(bundle="pixel4-tflite-cpu-f32")
    assert other.predict(encodings[:2])[0] != ms[0]
    with pytest.raises(ValueError, match="no parameter `depth`"):
        other.set_params(depth=3)


def test_a_callback_shows_a_line_per_device(bundle):
    lines: list[str] = []
    callback = ForecastCallback([bundle.name, "pixel4-tflite-cpu-f32"], show=lines.append)
    forecasts = callback(MODEL)
    assert len(lines) == 2 and f"{forecasts[0].ms:.3g} ms" in lines[0]
    callback.on_fit_start(None, MODEL)
    assert len(lines) == 4
    callback.on_train_batch_end(None, MODEL, 1, 2, 3)
    assert callback.state_dict() == {} and callback.state_key == "ForecastCallback"
    with pytest.raises(AttributeError):
        callback.unknown


def test_a_profiler_compares_samples_exactly(bundle, encodings):
    made: list[object] = []
    profiler = LatencyProfiler(
        None, bundle, to_model=lambda sample: made.append(sample) or encodings[len(made)]
    )
    one, other = np.zeros(5000), np.zeros(5000)
    other[2500] = 1.0
    profiler.profile({"a": one})
    profiler.profile({"a": other})
    profiler.profile({"a": one.copy()})
    assert len(made) == 2, "an array is one sample, another one that prints the same is not"
    local = {"a": lambda: None}
    profiler.profile(local)
    profiler.profile(local)
    assert len(made) == 4, "what cannot be pickled is not kept"


def test_a_regressor_follows_its_bundle(bundle, phone, encodings):
    regressor = LatencyRegressor(bundle)
    assert regressor.predict(encodings[:2])[0] == bundle.predict(encodings[:2]).ms[0]
    regressor.bundle = phone.name
    assert regressor.predict(encodings[:2])[0] == phone.predict(encodings[:2]).ms[0]

    class Frame:
        """As a DataFrame of one column: its items are columns."""

        def __iter__(self):
            return iter(["column"])

        def __array__(self, dtype=None, copy=None):
            return np.array(encodings[:3], dtype=object)[:, None]

    assert regressor.fit(Frame()).predict(Frame()).shape == (3,)
    masked = np.ma.array(encodings[:2], mask=[True, False])[:, None]
    with pytest.raises(vitempo.InvalidEncoding, match="encoding 0 is masked"):
        regressor.predict(masked)


def test_one_name_and_trials_without_a_forecast(bundle):
    from types import SimpleNamespace

    path = MODELS.parents[1] / "bundles" / "epyc-rten-f32-1t.vtb"
    assert [each.name for each in ForecastCallback(path).bundles] == ["epyc-rten-f32-1t"]
    assert Ceiling(bundle, 20.0).violation(SimpleNamespace(user_attrs={})) == (float("inf"),)
    key = "Conv-input:224x224x3-output:112x112x16"
    assert list(ofa.table(bundle, key)) == [key]
    with pytest.raises(vitempo.InvalidArgument, match="activation 'gelu'"):
        ofa.table(bundle, [key], activation="gelu")
