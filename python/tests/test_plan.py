"""Plans: splits between device and server, and pipelines."""

from __future__ import annotations

import pytest
from conftest import MODELS

import vitempo

MODEL = MODELS / "mobilevit_xxs.onnx"


def test_a_split_follows_the_bandwidth(bundle, phone):
    slow = vitempo.plan.split(MODEL, phone, bundle, bandwidth=0.01)
    fast = vitempo.plan.split(MODEL, phone, bundle, bandwidth=100_000)
    assert [stage.processor for stage in slow.stages] == ["device"]
    assert fast.stages[-1].processor == "server" and fast.gap == 0.0
    assert fast.latency.lower <= fast.latency.ms <= fast.latency.upper
    assert fast.latency.ms < slow.latency.ms == pytest.approx(phone.predict(MODEL).ms, rel=1e-3)
    assert fast.transfers[0].size_bytes > 0 and fast.period is None
    assert "proven best" in str(fast) and repr(fast).startswith("Plan(mobilevit_xxs: ")
    assert fast.to_dict()["predicted"]["latency_ns"]["point"] == pytest.approx(
        fast.latency.ms * 1e6
    )


def test_bounds_and_confined_tensors(phone):
    read = vitempo.read(MODEL)
    options = {"bandwidth": 1000.0, "active_power": 2.0, "idle_power": 0.5}
    free = vitempo.plan.split(read, phone, "epyc-onnxruntime-f32-2t", **options)
    bound = free.latency.ms / 2
    with pytest.raises(vitempo.PlanError, match="no split"):
        vitempo.plan.split(read, phone, "epyc-rten-f32-1t", max_latency=bound / 1000, **options)
    with pytest.raises(vitempo.PlanError, match="the model has no tensor `pixels`"):
        vitempo.plan.split(read, phone, "epyc-rten-f32-1t", confine=["pixels"], **options)
    energy = vitempo.plan.split(
        read, phone, "epyc-rten-f32-1t", minimise="device_energy", transmit_power=1.0, **options
    )
    assert energy.to_dict()["predicted"]["device_energy_nj"]["point"] > 0
    with pytest.raises(vitempo.InvalidArgument, match="minimise .*expected one of latency"):
        vitempo.plan.split(read, phone, "epyc-rten-f32-1t", minimise="cost", **options)


def test_a_pipeline_is_not_slower_than_one_processor(bundle, phone):
    one = vitempo.plan.pipeline(MODEL, {"npu": phone}, bandwidth=8000)
    two = vitempo.plan.pipeline(MODEL, {"npu": phone, "cpu": bundle}, bandwidth=8000)
    assert two.period.ms <= one.period.ms and len(two.stages) <= 2
    latency = vitempo.plan.pipeline(
        MODEL, {"npu": phone, "cpu": bundle}, bandwidth=8000, minimise="latency"
    )
    assert latency.latency.ms <= two.latency.ms
    with pytest.raises(vitempo.PlanError, match="cannot be bounded"):
        vitempo.plan.pipeline(MODEL, {"npu": phone}, bandwidth=1, max_period=3.0)
    with pytest.raises(ValueError, match="minimise `cost`"):
        vitempo.plan.pipeline(MODEL, {"npu": phone}, bandwidth=1, minimise="cost")


def two_headed() -> bytes:
    """A model with one encoder and two decoders."""
    from vitempo._onnx import Network

    network = Network("two", [1, 3, 64, 64])
    features = network.activation(network.convolution("image", (3, 32), 3, 2), "relu")
    features = network.activation(network.convolution(features, (32, 64), 3, 2), "relu")
    depth = network.convolution(network.convolution(features, (64, 64), 3), (64, 1), 1)
    normals = network.convolution(network.convolution(features, (64, 64), 3), (64, 3), 1)
    return network.finish(depth, [1, 1, 16, 16], [(normals, [1, 3, 16, 16])])


def test_the_parts_of_a_multitask_model_are_placed(bundle, phone):
    processors = {"cpu": bundle, "npu": phone}
    found = vitempo.plan.multitask(two_headed(), processors, bandwidth=8000)
    assert found.stages[0].nodes == ["encoder"] and len(found.stages) == 3
    one = vitempo.plan.multitask(two_headed(), {"npu": phone}, bandwidth=8000)
    assert found.period.ms <= one.period.ms and one.transfers == []
    far = vitempo.plan.multitask(two_headed(), processors, hand_over=1e6)
    assert len({stage.processor for stage in far.stages}) == 1, "handing over takes 1000 s"
    with pytest.raises(vitempo.PlanError, match="has one output"):
        vitempo.plan.multitask(MODEL, processors)
    with pytest.raises(vitempo.PlanError, match="no node's name begins with `head`"):
        vitempo.plan.multitask(two_headed(), processors, encoder="head")


def test_numbers_that_are_refused_are_named(bundle, phone):
    np = pytest.importorskip("numpy")
    read, task = vitempo.read(MODEL), vitempo.plan.Task
    nan = float("nan")
    for options, named in [
        ({"bandwidth": -5}, "`bandwidth` is -5, expected a number of at least 0, Mbit/s"),
        ({"bandwidth": nan}, "`bandwidth` is nan"),
        ({"bandwidth": "20"}, "`bandwidth` is '20'"),
        ({"bandwidth": 1e300}, "`bandwidth` is 1e\\+300, expected a number of at most"),
        ({"round_trip": -3}, "`round_trip` is -3, expected a number of at least 0, ms"),
        ({"active_power": nan}, "`active_power` is nan, expected a number of at least 0, W"),
        ({"bandwidth": 0}, "`bandwidth` is 0, expected at least 8e-06 Mbit/s"),
        ({"bandwidth": 1e-6}, "`bandwidth` is 1e-06"),
        ({"bandwidth": True}, "`bandwidth` is True"),
        ({"max_memory": 1.5}, "`max_memory` is 1.5, expected a whole number of at least 0, bytes"),
        ({"max_latency": -1}, "`max_latency` is -1"),
        ({"max_energy": float("inf")}, "`max_energy` is inf"),
    ]:
        with pytest.raises(vitempo.PlanError, match=named):
            vitempo.plan.split(read, phone, bundle, **{"bandwidth": 20.0, **options})
    given = vitempo.plan.split(read, phone, bundle, bandwidth=np.float32(20), max_memory=1.5e8)
    assert given == vitempo.plan.split(read, phone, bundle, bandwidth=20, max_memory=150_000_000)
    for plan in (vitempo.plan.pipeline, vitempo.plan.multitask):
        with pytest.raises(vitempo.PlanError, match="`hand_over` is -1"):
            plan(read, {"cpu": bundle}, bandwidth=1, hand_over=-1)
    for one, options, named in [
        (task(read, latency=10.0), {"over": -1}, "`over` is -1"),
        (task(read, latency=-1), {}, r"`tasks\['t'\].latency` is -1"),
        (task(read, latency=10.0, rate=nan), {}, r"`tasks\['t'\].rate` is nan"),
        (task(read, latency=10.0, accuracy=101), {}, "at most 100 percent"),
        (task(read, latency=10.0), {"power": {"cpu": nan}}, r"`power\['cpu'\]` is nan"),
        (task(read, latency=10.0), {"seed": -1}, "`seed` is -1"),
        (task(read, latency=10.0), {"memory": "1MB"}, "`memory` is '1MB'"),
    ]:
        with pytest.raises(vitempo.PlanError, match=named):
            vitempo.plan.place({"t": one}, {"cpu": bundle}, **options)


def test_several_models_are_placed(bundle, phone):
    Task = vitempo.plan.Task
    tasks = {
        "classify": Task(MODEL, latency=1000.0, every=100.0),
        "embed": Task(MODELS / "vit_tiny_patch16_224.onnx", latency=1000.0, rate=5.0),
    }
    processors = {"cpu": bundle, "npu": phone}
    found = vitempo.plan.place(tasks, processors, over=2000.0)
    assert found.violated == 0 and found.queries >= 20
    assert found.proof in ("enumerated", "first", "single_ways")
    assert [task.name for task in found.tasks] == ["classify", "embed"]
    way = found["classify"].ways[0]
    assert way.variant == "classify" and way.processor in processors and way.accuracy == 100.0
    alone = {"cpu": bundle, "npu": phone}[way.processor].predict(MODEL)
    assert way.alone == pytest.approx(alone.ms, rel=1e-4)
    assert found["classify"].longest >= found["classify"].mean >= way.alone - 1e-6
    one = vitempo.plan.place(tasks, {"cpu": bundle}, over=2000.0)
    assert one.queries_per_s < found.queries_per_s
    assert "violated" in str(found) and found.to_dict()["systems"]
    again = vitempo.plan.place(tasks, processors, over=2000.0)
    assert again == found, "the same seed gives the same plan"
    with pytest.raises(KeyError, match="detect"):
        found["detect"]


def test_variants_are_chosen_by_accuracy_and_latency(bundle):
    Task = vitempo.plan.Task
    models = {"small": MODEL, "large": MODELS / "vit_tiny_patch16_224.onnx"}
    accuracies = {"small": 69.0, "large": 75.5}
    ms = {name: bundle.predict(path).ms for name, path in models.items()}

    def chosen(latency: float, accuracy: float) -> vitempo.plan.Placing:
        task = Task(models, latency=latency, accuracies=accuracies, accuracy=accuracy)
        return vitempo.plan.place({"t": task}, {"cpu": bundle})

    exact = chosen(1e4, 75.0)
    assert exact["t"].ways[0].variant == "large" and exact.violated == 0
    quicker = min(ms, key=lambda name: ms[name])
    quick = chosen((ms["small"] + ms["large"]) / 2, 0.0)
    assert quick["t"].ways[0].variant == quicker and quick.violated == 0
    assert chosen(0.001, 0.0).violated == 1


def test_requests_that_cannot_be_placed(bundle):
    Task = vitempo.plan.Task
    task = Task(MODEL, latency=10.0)
    with pytest.raises(ValueError, match="`accuracies` gives the accuracy of each variant"):
        vitempo.plan.place({"t": Task({"a": MODEL, "b": MODEL}, latency=1.0)}, {"cpu": bundle})
    with pytest.raises(ValueError, match="`every` or `rate`"):
        vitempo.plan.place({"t": Task(MODEL, latency=1.0, every=1.0, rate=1.0)}, {"cpu": bundle})
    with pytest.raises(vitempo.PlanError, match="a zoo needs a processor and a task"):
        vitempo.plan.place({}, {"cpu": bundle})
    with pytest.raises(vitempo.PlanError, match="two bundles for f32"):
        vitempo.plan.place({"t": task}, {"cpu": [bundle, "epyc-rten-f32-1t"]})
    with pytest.raises(vitempo.PlanError, match="processor `npu` is not there"):
        vitempo.plan.place({"t": task}, {"cpu": bundle}, power={"npu": 2.0})
    with pytest.raises(ValueError, match="minimise `energy`"):
        vitempo.plan.place({"t": task}, {"cpu": bundle}, minimise="energy")
    with pytest.raises(vitempo.PlanError, match="never asked"):
        timed = Task(MODEL, latency=10.0, every=33.0)
        vitempo.plan.place({"t": task, "u": timed}, {"cpu": bundle})


def test_accuracies_are_compared_as_they_are(bundle):
    Task = vitempo.plan.Task

    def violated(has: float, asked: float) -> int:
        task = Task({"t": MODEL}, latency=1e4, accuracies={"t": has}, accuracy=asked)
        return vitempo.plan.place({"t": task}, {"cpu": bundle}).violated

    assert violated(79.995, 80.0) == 1 and violated(80.0, 80.001) == 1
    for same in (79.99, 0.29, 57.43, 100.0):
        assert violated(same, same) == 0


def test_power_makes_energy(bundle):
    task = vitempo.plan.Task(MODEL, latency=1e4)
    plain = vitempo.plan.place({"t": task}, {"cpu": bundle})
    assert plain.energy is None
    found = vitempo.plan.place({"t": task}, {"cpu": bundle}, power={"cpu": 2.0})
    assert found.energy == pytest.approx(2.0 * found["t"].ways[0].alone, rel=1e-3)  # W * ms = mJ
    assert " mJ" in str(found)
    assert any(row["energy_nj"] for row in found.to_dict()["systems"])


def test_names_are_not_read_letter_by_letter(bundle, phone):
    with pytest.raises(vitempo.PlanError, match="the model has no tensor `pixels`"):
        vitempo.plan.split(MODEL, phone, bundle, bandwidth=20, confine="pixels")
    assert len(vitempo.predict_on(MODEL, bundle.name)) == 1
    with pytest.raises(ValueError, match="`accuracies` gives the accuracy of each variant"):
        task = vitempo.plan.Task(MODEL, latency=1.0, accuracies={"other": 50.0})
        vitempo.plan.place({"t": task}, {"cpu": bundle})
