"""Architectures of NAS-Bench-201 and NATS-Bench as models, from their texts.

>>> model = nas_bench_201("|nor_conv_3x3~0|+|none~0|skip_connect~1|+|skip_connect~0|none~1|none~2|")
>>> bundle.predict(model).ms  # doctest: +SKIP

The models are ONNX without weights, as an exporter leaves them for inference: batch normalisation
is part of the convolutions, and edges that the output does not depend on are absent. Networks are
those of Dong and Yang (ICLR 2020) and of Dong et al. (2021): a stem, three stages of equal cells
with a residual block between them, a classifier.
"""

from __future__ import annotations

from collections.abc import Sequence

from ._onnx import Network
from .errors import InvalidEncoding

Edge = tuple[str, int]
OPERATIONS = ("none", "skip_connect", "nor_conv_1x1", "nor_conv_3x3", "avg_pool_3x3")
NODES = 4
# The cell of NATS-Bench's size space.
SIZE_CELL = (
    "|nor_conv_3x3~0|"
    "+|nor_conv_3x3~0|nor_conv_3x3~1|"
    "+|skip_connect~0|nor_conv_3x3~1|nor_conv_3x3~2|"
)


def parse(arch: str) -> list[list[Edge]]:
    """The edges into each node but the first: an operation, and the node that it comes from.

    Raises:
        InvalidEncoding: The text does not describe a cell.
    """

    def wrong(why: str) -> InvalidEncoding:
        return InvalidEncoding(
            f"`{arch}` is not a cell: {why}", hint=f"operations are {', '.join(OPERATIONS)}"
        )

    nodes: list[list[Edge]] = []
    for index, text in enumerate(arch.split("+")):
        edges: list[Edge] = []
        for part in text.strip("|").split("|"):
            name, _, source = part.partition("~")
            if name not in OPERATIONS or not source.isdecimal() or int(source) > index:
                raise wrong(f"edge `{part}`")
            edges.append((name, int(source)))
        nodes.append(edges)
    if len(nodes) != NODES - 1:
        raise wrong(f"{len(nodes)} nodes have edges, expected {NODES - 1}")
    return nodes


def nas_bench_201(
    arch: str, *, channels: int = 16, cells: int = 5, image_size: int = 32, classes: int = 10
) -> bytes:
    """The model of a cell, as bytes of ONNX.

    Args:
        arch: The cell, e.g. `|nor_conv_3x3~0|+|none~0|skip_connect~1|+|...|`.
        channels: Of the first stage; the next have twice and four times as many.
        cells: In each stage.
        image_size: Height and width of the image: 32 for CIFAR, 16 for ImageNet16-120.
        classes: 10, 100 or 120.

    Raises:
        InvalidEncoding: The text is not a cell, or its output does not depend on its input.
    """
    widths: list[int] = []
    for stage in range(3):
        widths += [channels << stage] * (cells + (stage > 0))
    return _network(arch, widths, cells, image_size, classes)


def nats_bench_size(sizes: str, *, image_size: int = 32, classes: int = 10) -> bytes:
    """The model of an architecture of NATS-Bench's size space, e.g. `64:32:16:48:8`, as bytes of
    ONNX.

    Raises:
        InvalidEncoding: The text does not have five numbers of channels.
    """
    parts = sizes.split(":")
    if len(parts) != 5 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise InvalidEncoding(f"`{sizes}` does not have five numbers of channels: 64:32:16:48:8")
    return _network(SIZE_CELL, [int(part) for part in parts], 1, image_size, classes)


def _network(arch: str, widths: Sequence[int], cells: int, size: int, classes: int) -> bytes:
    live = _live(arch)
    network = Network(arch, [1, 3, size, size])
    x, before = network.convolution("image", (3, widths[0]), 3), widths[0]
    for index, width in enumerate(widths):
        if index % (cells + 1) == cells:
            x = _reduction(network, x, (before, width))
        else:
            x = _cell(network, x, live, (before, width))
        before = width
    # Batch normalisation, which no convolution stands before.
    scale, shift = network.weight([before, 1, 1]), network.weight([before, 1, 1])
    x = network.node("Relu", [network.node("Add", [network.node("Mul", [x, scale]), shift])])
    x = network.node("Flatten", [network.node("GlobalAveragePool", [x])], axis=1)
    weights = [network.weight([classes, before]), network.weight([classes])]
    return network.finish(network.node("Gemm", [x, *weights], transB=1), [1, classes])


def _live(arch: str) -> list[list[Edge]]:
    """The edges that are present, begin at a node that has the input, and lead to the output."""
    nodes = parse(arch)
    present = [[edge for edge in edges if edge[0] != "none"] for edges in nodes]
    reached = {0}
    for index, edges in enumerate(present):
        present[index] = [edge for edge in edges if edge[1] in reached]
        if present[index]:
            reached.add(index + 1)
    needed = {NODES - 1}
    for index in range(NODES - 1, 0, -1):
        if index in needed:
            needed |= {source for _, source in present[index - 1]}
    if NODES - 1 not in reached:
        raise InvalidEncoding(f"`{arch}`: the output of the cell does not depend on its input")
    return [edges if index + 1 in needed else [] for index, edges in enumerate(present)]


def _cell(network: Network, x: str, nodes: list[list[Edge]], channels: tuple[int, int]) -> str:
    outputs, inside = [x], (channels[1], channels[1])
    for edges in nodes:
        parts = [
            _edge(network, outputs[source], name, channels if source == 0 else inside)
            for name, source in edges
        ]
        total = parts[0] if parts else ""
        for part in parts[1:]:
            total = network.node("Add", [total, part])
        outputs.append(total)
    return outputs[-1]


def _edge(network: Network, x: str, name: str, channels: tuple[int, int]) -> str:
    widens = channels[0] != channels[1]
    if name == "skip_connect":
        return network.convolution(x, channels, 1) if widens else x
    if name == "avg_pool_3x3":
        return _pool(network, _rectified(network, x, channels, 1) if widens else x, 3, 1)
    return _rectified(network, x, channels, 3 if name == "nor_conv_3x3" else 1)


def _rectified(
    network: Network, x: str, channels: tuple[int, int], kernel: int, stride: int = 1
) -> str:
    return network.convolution(network.node("Relu", [x]), channels, kernel, stride)


def _pool(network: Network, x: str, kernel: int, stride: int) -> str:
    pads = [(kernel - 1) // 2] * 4
    shape = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": pads}
    return network.node("AveragePool", [x], **shape)


def _reduction(network: Network, x: str, channels: tuple[int, int]) -> str:
    """The residual block between two stages: half the height and width."""
    branch = _rectified(network, x, channels, 3, 2)
    branch = _rectified(network, branch, (channels[1], channels[1]), 3)
    shortcut = network.convolution(_pool(network, x, 2, 2), channels, 1)
    return network.node("Add", [shortcut, branch])
