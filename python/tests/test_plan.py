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
    with pytest.raises(ValueError, match="unknown variant"):
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
