"""Latency tables for once-for-all and ProxylessNAS, made from a bundle instead of measured.

The classes `LatencyTable` of once-for-all read a YAML file from a layer's description to its mean
latency in ms. `layers` lists the descriptions that networks ask for, `table` forecasts them,
`write` writes the file:

    keys = layers(configs, image_size=224)
    write("pixel4.yaml", table("pixel4-tflite-cpu-f32", keys))
    ofa.nas.efficiency_predictor.MBv3LatencyTable(url="pixel4.yaml")

once-for-all reads the file with PyYAML before 6: its `yaml.load` has no loader.

A layer's latency is that of a network with it less that of the network without it, where a 1x1
convolution stands before both. The sum over the layers of a network therefore lacks the overhead of
a run, and what an engine fuses across layers; `Bundle.predict` of the whole network has both.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Optional, Union

from ._onnx import Network
from ._open import Named, opened, several
from ._vitempo import Bundle
from .errors import InvalidArgument, InvalidModel

Config = Mapping[str, Any]
Table = dict[str, dict[str, Union[float, int]]]
CHANNEL_DIVISIBLE = 8
SIZES = ("expand", "kernel", "stride")
FLAGS = ("idskip", "se", "hs")
ACTIVATIONS = ("relu", "relu6", "h_swish")


@dataclass(frozen=True)
class Layer:
    """A layer, as a key of the table describes it; shapes are height, width, channels."""

    kind: str
    inside: tuple[int, int, int]
    outside: tuple[int, int, int]
    options: Mapping[str, int]

    @classmethod
    def parse(cls, key: str) -> Layer:
        """Of a key, e.g. `Conv_1-input:7x7x160-output:7x7x960`.

        Raises:
            InvalidModel: The key is not one of these tables, or its output is not that of the
                layer.
        """
        kind, *parts = key.split("-")
        try:
            fields: dict[str, str] = {}
            for part in parts:
                name, value = part.split(":")
                if name in fields:
                    raise ValueError(f"`{name}` is given twice")
                fields[name] = value
            inside, outside = _shape(fields.pop("input")), _shape(fields.pop("output"))
            layer = cls(kind, inside, outside, {name: int(of) for name, of in fields.items()})
            layer._check()
        except KeyError as error:
            raise InvalidModel(f"`{key}` does not describe a layer: it has no {error}") from error
        except ValueError as error:
            raise InvalidModel(f"`{key}` does not describe a layer: {error}") from error
        return layer

    def _check(self) -> None:
        """Whether it has the options of its kind, and the output that follows from them."""
        options = self.options
        known = (*SIZES, *FLAGS) if self.kind == "expanded_conv" else ()
        for name, value in options.items():
            if name not in known:
                raise ValueError(f"`{self.kind}` has no option `{name}`")
            if value < 1 if name in SIZES else value not in (0, 1):
                raise ValueError(f"`{name}` is {value}")
        if min(*self.inside, *self.outside) < 1:
            raise ValueError("a size is 0")
        expected = self._output()
        if expected is not None and self.outside != expected:
            raise ValueError(f"its output is {'x'.join(map(str, expected))}")

    def _output(self) -> Optional[tuple[int, int, int]]:
        """The shape of the output; None where the kind is not known."""
        (height, width, inside), outside = self.inside, self.outside[2]
        if self.kind in ("Conv_1", "Conv_2"):
            return height, width, outside
        if self.kind == "AvgPool2D":
            return 1, 1, inside
        if self.kind == "Logits":
            return 1, 1, outside
        if self.kind == "Conv":
            stride = _stride(self)
        elif self.kind == "expanded_conv":
            stride = self.options["stride"]
            for name in ("expand", "kernel", "idskip"):
                self.options[name]
            if self.options["idskip"] and (stride != 1 or inside != outside):
                raise ValueError("its input is not of the shape of its output, but `idskip` is 1")
        else:
            return None
        return (height - 1) // stride + 1, (width - 1) // stride + 1, outside


def _stride(layer: Layer) -> int:
    """Of the first convolution, whose key does not say."""
    return max(round(layer.inside[0] / layer.outside[0]), 1)


def _shape(text: str) -> tuple[int, int, int]:
    """`7x7x160`; the output of `Logits` has channels alone."""
    sizes = [int(size) for size in text.split("x")]
    height, width, channels = [1] * (3 - len(sizes)) + sizes
    return height, width, channels


def table(
    bundle: Named,
    keys: Union[str, Iterable[str]],
    *,
    activation: Optional[str] = None,
) -> Table:
    """The mean latency of each layer, ms, and a count of 1, as once-for-all's tables have them.

    Args:
        bundle: The device: a bundle, its name, or its path.
        keys: A description of a layer, or several.
        activation: `relu`, `relu6` or `h_swish`, of layers whose key does not say; by default that
            of MobileNet-v3 where a key has `hs`, else `relu6`.
    """
    if activation is not None and activation not in ACTIVATIONS:
        known = ", ".join(ACTIVATIONS)
        raise InvalidArgument(f"activation {activation!r}: expected one of {known}")
    device = opened(bundle)
    distinct = list(dict.fromkeys(several(keys)))
    if activation is None:
        activation = "h_swish" if any("-hs:" in key for key in distinct) else "relu6"
    return {key: {"mean": _latency(device, key, activation), "count": 1} for key in distinct}


def write(path: Union[str, os.PathLike[str]], of: Table) -> None:
    """Writes a table as YAML."""
    lines = [
        f"{key}:\n  count: {row['count']}\n  mean: {row['mean']!r}\n" for key, row in of.items()
    ]
    with open(path, "w", encoding="utf-8") as file:
        file.write("".join(lines))


def _latency(device: Bundle, key: str, activation: str) -> float:
    layer = Layer.parse(key)
    height, width, channels = layer.inside
    if layer.kind == "Conv":
        # The first layer of a network; nothing stands before it.
        forecast = device.predict(_network(key, layer, activation, before=False))
        return max(forecast.ms - forecast.overhead, 0.0)
    alone = Network("before", [1, channels, height, width])
    x = alone.activation(alone.convolution("image", (channels, channels), 1), activation)
    without = device.predict(alone.finish(x, [1, channels, height, width]))
    return max(device.predict(_network(key, layer, activation, before=True)).ms - without.ms, 0.0)


def _network(key: str, layer: Layer, activation: str, *, before: bool) -> bytes:
    height, width, channels = layer.inside
    network = Network(key, [1, channels, height, width])
    x = "image"
    if before:
        x = network.activation(network.convolution(x, (channels, channels), 1), activation)
    x = add(network, x, layer, activation)
    out_height, out_width, out_channels = layer.outside
    shape = (
        [1, out_channels] if layer.kind == "Logits" else [1, out_channels, out_height, out_width]
    )
    return network.finish(x, shape)


def add(network: Network, x: str, layer: Layer, activation: str) -> str:
    """Adds a layer to a network.

    Raises:
        InvalidModel: A kind of layer that these tables do not have.
    """
    inside, outside = layer.inside[2], layer.outside[2]
    if layer.kind == "Conv":
        first = network.convolution(x, (inside, outside), 3, _stride(layer))
        return network.activation(first, activation)
    if layer.kind in ("Conv_1", "Conv_2"):
        return network.activation(network.convolution(x, (inside, outside), 1), activation)
    if layer.kind == "AvgPool2D":
        return network.node("GlobalAveragePool", [x])
    if layer.kind == "Logits":
        if layer.inside[0] > 1:
            x = network.node("GlobalAveragePool", [x])
        x = network.node("Flatten", [x], axis=1)
        weights = [network.weight([outside, inside]), network.weight([outside])]
        return network.node("Gemm", [x, *weights], transB=1)
    if layer.kind == "expanded_conv":
        return _inverted_residual(network, x, layer, activation)
    raise InvalidModel(f"`{layer.kind}` is not a layer of these tables")


def _inverted_residual(network: Network, x: str, layer: Layer, activation: str) -> str:
    options, inside, outside = layer.options, layer.inside[2], layer.outside[2]
    of_v3 = "hs" in options
    if of_v3:
        activation = "h_swish" if options["hs"] else "relu"
    middle = options["expand"] if of_v3 else inside * options["expand"]
    before = x
    if middle != inside:
        x = network.activation(network.convolution(x, (inside, middle), 1), activation)
    kernel, stride = options["kernel"], options["stride"]
    x = network.convolution(x, (middle, middle), kernel, stride, groups=middle)
    x = network.activation(x, activation)
    if options.get("se"):
        x = _squeeze_and_excite(network, x, middle)
    x = network.convolution(x, (middle, outside), 1)
    return network.node("Add", [x, before]) if options["idskip"] else x


def _squeeze_and_excite(network: Network, x: str, channels: int) -> str:
    reduced = divisible(channels // 4)
    scale = network.node("GlobalAveragePool", [x])
    scale = network.activation(network.convolution(scale, (channels, reduced), 1), "relu")
    scale = network.convolution(scale, (reduced, channels), 1)
    scale = network.node("HardSigmoid", [scale], alpha=1 / 6, beta=0.5)
    return network.node("Mul", [x, scale])


def divisible(channels: float) -> int:
    """The nearest multiple of 8, at least 8 and not more than a tenth smaller."""
    nearest = int(channels + CHANNEL_DIVISIBLE / 2) // CHANNEL_DIVISIBLE * CHANNEL_DIVISIBLE
    found = max(CHANNEL_DIVISIBLE, nearest)
    return found + CHANNEL_DIVISIBLE if found < 0.9 * channels else found


def layers(configs: Iterable[Config], image_size: int = 224) -> list[str]:
    """The keys that once-for-all's tables are asked for by networks, given as their `config`
    (MobileNet-v3 and ProxylessNAS), each once."""
    keys: dict[str, None] = {}
    for config in configs:
        keys.update(dict.fromkeys(_layers(config, image_size)))
    return list(keys)


def _layers(config: Config, image_size: int) -> list[str]:
    of_v3 = "final_expand_layer" in config
    size = (image_size + 1) // 2
    first = config["first_conv"]["out_channels"]
    keys = [_key("Conv", (image_size, image_size, 3), (size, size, first))]
    for block in config["blocks"]:
        conv = block["mobile_inverted_conv"] if "mobile_inverted_conv" in block else block["conv"]
        if conv is None:
            continue
        after = (size - 1) // conv["stride"] + 1
        ends = (size, size, conv["in_channels"]), (after, after, conv["out_channels"])
        keys.append(_key("expanded_conv", *ends, _options(conv, block["shortcut"], of_v3)))
        size = after
    mix, classifier = config["feature_mix_layer"], config["classifier"]
    if of_v3:
        wide = config["final_expand_layer"]
        middle = (size, size, wide["out_channels"])
        keys.append(_key("Conv_1", (size, size, wide["in_channels"]), middle))
        keys.append(_key("AvgPool2D", middle, (1, 1, wide["out_channels"])))
        keys.append(_key("Conv_2", (1, 1, mix["in_channels"]), (1, 1, mix["out_channels"])))
        size = 1
    else:
        ends = (size, size, mix["in_channels"]), (size, size, mix["out_channels"])
        keys.append(_key("Conv_1", *ends))
    last = (size, size, classifier["in_features"])
    keys.append(_key("Logits", last, (classifier["out_features"],)))
    return keys


def _options(conv: Config, shortcut: Any, of_v3: bool) -> dict[str, int]:
    options = {
        "expand": conv["expand_ratio"],
        "kernel": conv["kernel_size"],
        "stride": conv["stride"],
        "idskip": int(shortcut is not None),
    }
    if of_v3:
        middle = conv["mid_channels"] or round(conv["in_channels"] * conv["expand_ratio"])
        swish = int(conv["act_func"] == "h_swish")
        options.update(expand=middle, se=int(conv["use_se"]), hs=swish)
    return options


def _key(
    kind: str,
    inside: tuple[int, ...],
    outside: tuple[int, ...],
    options: Optional[Mapping[str, int]] = None,
) -> str:
    shapes = ("input", inside), ("output", outside)
    parts = [f"{name}:" + "x".join(map(str, of)) for name, of in shapes]
    parts += [f"{name}:{size}" for name, size in (options or {}).items()]
    return "-".join([kind, *parts])
