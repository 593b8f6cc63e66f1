"""Cells of NAS-Bench-201 and NATS-Bench as models."""

from __future__ import annotations

import pytest

import vitempo
from vitempo.cells import nas_bench_201, nats_bench_size, parse

ALL_3X3 = (
    "|nor_conv_3x3~0|"
    "+|nor_conv_3x3~0|nor_conv_3x3~1|"
    "+|nor_conv_3x3~0|nor_conv_3x3~1|nor_conv_3x3~2|"
)
MIXED = (
    "|avg_pool_3x3~0|"
    "+|nor_conv_1x1~0|skip_connect~1|"
    "+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|"
)


def test_work_is_that_of_the_published_networks(bundle):
    # NAS-Bench-201 lists 220.12 M FLOPs (products) for the cell of six 3x3 convolutions, and 1.53 M
    # parameters.
    model = vitempo.read(nas_bench_201(ALL_3X3))
    assert model.macs == pytest.approx(220.12e6, rel=1e-3)
    assert model.parameters == pytest.approx(1.53e6, rel=5e-3)
    assert bundle.predict(nas_bench_201(ALL_3X3)).ms > bundle.predict(nas_bench_201(MIXED)).ms


def test_edges_become_operators():
    kinds = vitempo.read(nas_bench_201(MIXED, cells=1)).kinds
    # A stem, a cell of two convolutions in each of three stages, two residual blocks of three.
    assert kinds["conv"] == 1 + 3 * 2 + 2 * 3
    pools = sum(count for kind, count in kinds.items() if "pool" in kind)
    assert pools == 3 + 2 + 1
    assert parse(MIXED)[1] == [("nor_conv_1x1", 0), ("skip_connect", 1)]


def test_dead_edges_are_absent():
    dead = "|nor_conv_3x3~0|+|none~0|none~1|+|nor_conv_1x1~0|none~1|nor_conv_3x3~2|"
    only = "|none~0|+|none~0|none~1|+|nor_conv_1x1~0|none~1|none~2|"
    one, other = vitempo.read(nas_bench_201(dead)), vitempo.read(nas_bench_201(only))
    assert one.architecture == other.architecture


def test_image_and_classes(bundle):
    large = vitempo.read(nas_bench_201(ALL_3X3, image_size=64, classes=100))
    small = vitempo.read(nas_bench_201(ALL_3X3))
    assert large.macs == pytest.approx(4 * small.macs, rel=1e-3)


def test_sizes():
    narrow = vitempo.read(nats_bench_size("8:8:8:8:8"))
    wide = vitempo.read(nats_bench_size("64:64:64:64:64"))
    mixed = vitempo.read(nats_bench_size("64:32:16:48:8", classes=120))
    assert narrow.macs < mixed.macs < wide.macs
    # Where a cell widens, its shortcut is a convolution.
    assert mixed.kinds["conv"] > narrow.kinds["conv"]


@pytest.mark.parametrize(
    "text",
    ["", "|nor_conv_3x3~0|", "|nor_conv_5x5~0|+|none~0|none~1|+|none~0|none~1|none~2|", "|none~3|"],
)
def test_what_is_no_cell(text):
    with pytest.raises(vitempo.InvalidEncoding, match="is not a cell"):
        nas_bench_201(text)


def test_a_cell_whose_output_is_constant():
    with pytest.raises(vitempo.InvalidEncoding, match="does not depend on its input"):
        nas_bench_201("|nor_conv_3x3~0|+|none~0|none~1|+|none~0|none~1|nor_conv_3x3~2|")
    with pytest.raises(vitempo.InvalidEncoding, match="five numbers of channels"):
        nats_bench_size("8:8:8:8")
