"""How verbs of the command `vitempo` print, and quantities of its flags."""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from ._numbers import MOST
from .errors import VitempoError

TIMES = (
    ("ns", 1e-6),
    ("us", 1e-3),
    ("ms", 1.0),
    ("s", 1e3),
    ("m", 6e4),
    ("min", 6e4),
    ("h", 3.6e6),
)
RATES = (
    ("kbit/s", 1e-3),
    ("Mbit/s", 1.0),
    ("Gbit/s", 1e3),
    ("B/s", 8e-6),
    ("kB/s", 8e-3),
    ("MB/s", 8.0),
    ("GB/s", 8e3),
)
SIZES = (
    ("kB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("KiB", 2.0**10),
    ("MiB", 2.0**20),
    ("GiB", 2.0**30),
    ("B", 1.0),
    ("", 1.0),
)

# As the program reads numbers: those of times have digits on both sides of a point.
TIME = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]+)")
QUANTITY = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*([A-Za-z/]*)\s*")


def finish(parser: argparse.ArgumentParser, run: Any) -> None:
    """Adds what every verb has: its format, and the function that runs it."""
    choices = ("table", "json")
    parser.add_argument("--format", choices=choices, default="table", help="of the output")
    parser.set_defaults(run=run)


def show(given: argparse.Namespace, value: Any, text: str) -> None:
    """Prints a result in the format asked for."""
    print(json.dumps(value, indent=2) if given.format == "json" else text)


def whole(least: int) -> Callable[[str], int]:
    """For arguments that are whole numbers of at least `least`."""

    def parsed(text: str) -> int:
        if not (text.isascii() and text.isdecimal()) or not least <= int(text) <= MOST:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number from {least}")
        return int(text)

    return parsed


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows under headings, columns aligned."""
    every = [list(headings), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(headings))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)) for row in every)
    return "\n".join(line.rstrip() for line in lines)


def duration(ms: float) -> str:
    """A time to print; `-` for an upper end that is not known."""
    return "-" if ms == float("inf") else f"{ms:.3f} ms"


def time_ms(text: str) -> float:
    """`20ms`, in ms."""
    return _quantity(TIME, text, TIMES, "a time", "20ms, 1.5s")


def size_bytes(text: str) -> int:
    """`40MB`, in bytes."""
    return math.floor(_quantity(QUANTITY, text, SIZES, "a size", "40MB, 64MiB") + 0.5)


def mbit_per_s(text: str) -> float:
    """`20Mbit/s`, in Mbit/s."""
    return _quantity(QUANTITY, text, RATES, "a rate", "20Mbit/s, 8GB/s")


def _quantity(
    form: re.Pattern[str],
    text: str,
    units: Sequence[tuple[str, float]],
    what: str,
    example: str,
) -> float:
    found = form.fullmatch(text)
    factor = None if found is None else dict(units).get(found[2])
    if found is not None and factor is not None:
        return float(found[1]) * factor
    raise VitempoError(f"`{text}` is not {what}", hint=f"a number and a unit: {example}")
