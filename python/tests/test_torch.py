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


@pytest.fixture
def exports(monkeypatch) -> list[str]:
    """The classes of modules that are exported, as they are."""
    from vitempo import _torch

    seen: list[str] = []
    export = _torch.export

    def counted(module: torch.nn.Module, arguments: tuple[object, ...]) -> bytes:
        seen.append(type(module).__name__)
        return export(module, arguments)

    monkeypatch.setattr(_torch, "export", counted)
    _torch._kept.clear()
    return seen


def test_a_structure_is_exported_once(bundle, exports):
    first = bundle.predict(network(), inputs=(1, 3, 64, 64))
    again = bundle.predict(network(), inputs=torch.ones(1, 3, 64, 64))
    assert exports == ["Sequential"] and again == first, "weights differ, the structure does not"
    assert bundle.predict(network(), inputs=(1, 3, 32, 32)).ms < first.ms
    wider = network()
    wider[0] = torch.nn.Conv2d(3, 16, 5, stride=2, padding=2)
    assert bundle.predict(wider, inputs=(1, 3, 64, 64)).ms != first.ms
    assert len(exports) == 3
    dilated = network()
    dilated[0].padding_mode = "reflect"
    bundle.predict(dilated, inputs=(1, 3, 64, 64))
    hooked = network()
    hooked[2].register_forward_hook(lambda module, inputs, output: output * 2)
    bundle.predict(hooked, inputs=(1, 3, 64, 64))
    assert len(exports) == 5, "attributes and hooks are part of a structure"


def test_modules_that_compute_different_things_have_different_keys(bundle, exports):
    class Gather(torch.nn.Module):
        def __init__(self, index: list[int]) -> None:
            super().__init__()
            self.register_buffer("index", torch.tensor(index))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(x[:, self.index])

    class Twice(torch.nn.Module):
        def __init__(self, first: bool) -> None:
            super().__init__()
            self.a, self.b = torch.nn.Linear(8, 8), torch.nn.ReLU()
            self.c = self.a if first else self.b

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.c(self.b(self.a(x)))

    bundle.predict(Gather([0, 1]), inputs=(1, 8))
    bundle.predict(Gather([0, 2]), inputs=(1, 8))
    assert len(exports) == 2, "indices are part of a structure"
    one, other = (bundle.predict(Twice(first), inputs=(1, 8)) for first in (True, False))
    assert one.ms != other.ms and len(exports) == 4, "and which part is shared"


def test_a_module_with_attributes_of_its_own_has_no_key(bundle, exports):
    module = network()
    module.settings = object()
    for _ in range(2):
        bundle.predict(module, inputs=(1, 3, 64, 64))
    assert len(exports) == 2


def test_kept_structures_are_limited(bundle, exports, monkeypatch):
    from vitempo import _torch

    monkeypatch.setattr(_torch, "MOST_KEPT", 2)
    for size in (16, 24, 32, 16):
        bundle.predict(network(), inputs=(1, 3, size, size))
    assert len(exports) == 4 and len(_torch._kept) == 2


def test_dims_are_not_for_modules(bundle):
    with pytest.raises(TypeError, match="give a module example inputs"):
        bundle.predict(network(), inputs=(1, 3, 64, 64), dims={"batch": 1})


def test_a_model_of_timm(bundle, exports):
    timm = pytest.importorskip("timm")
    for _ in range(2):
        model = timm.create_model("resnet10t")
        forecast = bundle.predict(model)
    assert forecast.model == "ResNet" and forecast.coverage.trained > 10
    assert len(exports) == 1, "a search makes the same model again"
    assert bundle.predict(timm.create_model("vit_tiny_patch16_224")).coverage.fallback == 0


def test_an_exported_program_is_its_module(bundle, tmp_path):
    pytest.importorskip("onnxscript", reason="the newer exporter needs onnxscript")
    module, inputs = network().eval(), (torch.zeros(1, 3, 64, 64),)
    program = torch.export.export(module, inputs)
    forecast = bundle.predict(program)
    operators = bundle.predict(module, inputs=inputs).operators
    # The newer exporter writes the pooling as another operator; the convolution is the same.
    assert forecast.operators["kind"][0] == operators["kind"][0] == "conv"
    assert forecast.operators["ms"][0] == pytest.approx(operators["ms"][0], rel=0.05)
    assert bundle.predict(program.module(), inputs=(1, 3, 64, 64)).ms == forecast.ms
    torch.export.save(program, tmp_path / "network.pt2")
    with pytest.raises(vitempo.InvalidModel) as error:
        bundle.predict(tmp_path / "network.pt2")
    assert error.value.hint == "give the program: torch.export.load(FILE)"
    assert bundle.predict(torch.export.load(tmp_path / "network.pt2")).ms == forecast.ms
