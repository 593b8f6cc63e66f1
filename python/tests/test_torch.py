"""Modules of torch, where torch is installed."""

from __future__ import annotations

import pytest

import vitempo
from vitempo._inputs import is_module

torch = pytest.importorskip("torch")


def network() -> torch.nn.Module:
    nn = torch.nn
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def test_a_module_is_exported_and_stays_as_it_was(bundle):
    module = network().train()
    assert is_module(module)
    forecast = bundle.predict(module, inputs=(1, 3, 64, 64))
    assert forecast.model == "Sequential" and forecast.ms > 0 and module.training
    assert bundle.predict(module, inputs=torch.zeros(1, 3, 64, 64)).ms == forecast.ms
    assert bundle.predict(module, inputs=(torch.zeros(1, 3, 64, 64),)).ms == forecast.ms
    assert "conv" in set(forecast.operators["kind"])


def test_a_module_needs_inputs(bundle):
    with pytest.raises(vitempo.InvalidModel, match="needs example inputs") as caught:
        bundle.predict(network())
    assert "inputs=torch.zeros" in caught.value.hint
    module = network()
    module.default_cfg = {"input_size": (3, 64, 64)}
    assert bundle.predict(module).ms == bundle.predict(network(), inputs=(1, 3, 64, 64)).ms


def test_a_module_that_cannot_be_exported(bundle):
    class Odd(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise RuntimeError("not today")

    with pytest.raises(vitempo.InvalidModel, match="torch cannot export Odd"):
        bundle.predict(Odd(), inputs=(1, 3))


def test_attention_and_several_inputs(bundle, capsys):
    layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True)
    assert bundle.predict(layer, inputs=(1, 10, 64)).coverage.operators > 5

    class Two(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.relu(x @ y)

    forecast = bundle.predict(Two(), inputs=(torch.zeros(1, 8, 8), torch.zeros(1, 8, 8)))
    assert forecast.ms > 0 and capsys.readouterr().out == ""
