"""An Arrow stream as `vitempo serve` writes it, read by other programs.

`serve/src/arrow.rs` writes `serve/tests/table.arrows` in a test and compares the bytes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[2] / "serve" / "tests" / "table.arrows"
ROWS = [*range(10), *range(11)]


def expected() -> dict[str, list[object]]:
    missing = [row % 3 == 1 for row in ROWS]
    return {
        "row": list(ROWS),
        "bundle": ["first" if row % 2 == 0 else "second, longer" for row in ROWS],
        "value": [None if gone else row * 0.5 for row, gone in zip(ROWS, missing)],
        "problem": ["no \u00e9" if gone else None for gone in missing],
    }


def test_pyarrow_reads_a_stream() -> None:
    ipc = pytest.importorskip("pyarrow.ipc")
    table = ipc.open_stream(FILE.read_bytes()).read_all()
    assert table.to_pydict() == expected()
    assert table.schema.metadata == {b"level": b"0.9"}


def test_polars_reads_a_stream() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.read_ipc_stream(FILE.read_bytes())
    assert frame.to_dict(as_series=False) == expected()
