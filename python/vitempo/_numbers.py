"""Checks numbers that callers give: an error names the argument, its value and its unit."""

from __future__ import annotations

import json
import math
import numbers
from collections.abc import Sequence
from typing import Any, Optional, Union

from .errors import InvalidArgument, VitempoError

Error = type[VitempoError]

# The largest number of an unsigned integer with 64 bits.
MOST = 2**64 - 1


def number(
    name: str, value: Any, unit: str = "", *, above: bool = False, error: Error = InvalidArgument
) -> float:
    """A finite number of at least 0, or above 0."""
    found = _real(value)
    if found is None or not math.isfinite(found) or found < 0 or (above and found == 0):
        least = "above 0" if above else "of at least 0"
        raise _refused(error, name, value, f"a number {least}", unit)
    return found


def optional(
    name: str, value: Any, unit: str = "", *, error: Error = InvalidArgument
) -> Optional[float]:
    """The same, or None."""
    return None if value is None else number(name, value, unit, error=error)


def count(
    name: str, value: Any, unit: str = "", *, least: int = 0, error: Error = InvalidArgument
) -> int:
    """A whole number of at least `least`."""
    found = _real(value)
    if found is None or not found.is_integer() or not least <= int(value) <= MOST:
        raise _refused(error, name, value, f"a whole number of at least {least}", unit)
    return int(value)


def scaled(
    name: str, value: Any, factor: float, unit: str, *, error: Error = InvalidArgument
) -> int:
    """A number of at least 0 in a smaller unit, as a whole number."""
    found = number(name, value, unit, error=error) * factor
    if found > MOST:
        raise _refused(error, name, value, f"a number of at most {MOST / factor:.3g}", unit)
    return round(found)


def each(value: Any) -> Sequence[Any]:
    """One number or several, as several; none for None."""
    if value is None:
        return []
    if getattr(value, "ndim", None) == 0:
        return [value.item()]
    return [value] if isinstance(value, (numbers.Real, str)) else value


def as_json(value: Any) -> str:
    """JSON, where numbers and arrays of NumPy are numbers and lists."""

    def plain(other: Any) -> Any:
        if hasattr(other, "tolist"):
            return other.tolist()
        raise TypeError(f"a {type(other).__qualname__} is not a value of an architecture")

    return json.dumps(value, default=plain)


def _real(value: Any) -> Optional[float]:
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _refused(error: Error, name: str, value: Any, expected: str, unit: str) -> VitempoError:
    in_unit = f", {unit}" if unit else ""
    return error(f"`{name}` is {shown(value)}, expected {expected}{in_unit}")


def real(value: Any) -> Optional[float]:
    """A real number as a float; None where it is not one, or larger than any float."""
    found = _real(value)
    return None if found is None or (math.isinf(found) and value != found) else found


def shown(value: Any) -> Union[str, Any]:
    """A value for a message, at most a line of it."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no integer of thousands of digits.
        text = "a number of thousands of digits"
    return text if len(text) <= 60 else f"{text[:57]}..."
