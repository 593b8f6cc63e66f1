"""Writes small ONNX models without weights, without the package `onnx`: what adapters build.

Only what they need of the format: nodes with integer and float attributes, initializers without
values, and scalars. Field numbers are those of `onnx.proto3`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Union

OPSET = 17
IR_VERSION = 8
FLOAT = 1

Attribute = Union[int, float, list[int]]


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _int(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: Union[bytes, str]) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(raw)) + raw


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        content = _varint(2 << 3 | 5) + struct.pack("<f", value) + _int(20, 1)
    elif isinstance(value, int):
        content = _int(3, value) + _int(20, 2)
    else:
        content = b"".join(_int(8, each) for each in value) + _int(20, 7)
    return _bytes(1, name) + content


def _described(name: str, shape: list[int]) -> bytes:
    dims = b"".join(_bytes(1, _int(1, size)) for size in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _int(1, FLOAT) + _bytes(2, dims)))


class Network:
    """A chain of operators, added one by one; each method returns the name of its result."""

    def __init__(self, name: str, input_shape: list[int]) -> None:
        self.name = name
        self.input_shape = input_shape
        self._nodes: list[bytes] = []
        self._weights: list[bytes] = []

    def node(self, kind: str, inputs: list[str], **attributes: Attribute) -> str:
        """Adds an operator."""
        name = f"{kind.lower()}_{len(self._nodes)}"
        content = b"".join(_bytes(1, each) for each in inputs) + _bytes(2, name)
        content += _bytes(3, name) + _bytes(4, kind)
        content += b"".join(_bytes(5, _attribute(k, v)) for k, v in attributes.items())
        self._nodes.append(content)
        return name

    def weight(self, shape: list[int]) -> str:
        """Adds a weight without values."""
        name = f"weight_{len(self._weights)}"
        dims = b"".join(_int(1, size) for size in shape)
        self._weights.append(dims + _int(2, FLOAT) + _bytes(8, name))
        return name

    def scalar(self, value: float) -> str:
        """Adds a number."""
        name = f"scalar_{len(self._weights)}"
        self._weights.append(_int(2, FLOAT) + _bytes(8, name) + _bytes(9, struct.pack("<f", value)))
        return name

    def convolution(
        self, x: str, channels: tuple[int, int], kernel: int, stride: int = 1, groups: int = 1
    ) -> str:
        """Adds a convolution with the padding of half its kernel, and with a bias."""
        inside, outside = channels
        weight = self.weight([outside, inside // groups, kernel, kernel])
        return self.node(
            "Conv",
            [x, weight, self.weight([outside])],
            kernel_shape=[kernel, kernel],
            strides=[stride, stride],
            pads=[kernel // 2] * 4,
            group=groups,
        )

    def activation(self, x: str, name: str) -> str:
        """Adds `relu`, `relu6` or `h_swish`."""
        if name == "relu6":
            return self.node("Clip", [x, self.scalar(0.0), self.scalar(6.0)])
        return self.node({"relu": "Relu", "h_swish": "HardSwish"}[name], [x])

    def finish(
        self, output: str, shape: list[int], others: Sequence[tuple[str, list[int]]] = ()
    ) -> bytes:
        """The model, with one output or several."""
        graph = b"".join(_bytes(1, node) for node in self._nodes) + _bytes(2, self.name)
        graph += b"".join(_bytes(5, weight) for weight in self._weights)
        graph += _bytes(11, _described("image", self.input_shape))
        outputs = [(output, shape), *others]
        graph += b"".join(_bytes(12, _described(*described)) for described in outputs)
        opset = _bytes(8, _bytes(1, "") + _int(2, OPSET))
        return _int(1, IR_VERSION) + _bytes(7, graph) + opset
