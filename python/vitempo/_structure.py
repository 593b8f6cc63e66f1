"""A key of what an exported graph depends on, so that equal modules of torch are exported once.

The key has the classes of a module and of all its parts, their attributes, the shapes and types of
parameters and buffers, the values of integer buffers (indices and masks, which exporters fold), and
the shapes and types of example inputs. It has no values of floating point: a module whose control
flow depends on the values of its weights has to be read by `vitempo.read` each time.

A module with an attribute that is none of these has no key, and is exported each time.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import enum
import functools
import types
from collections.abc import Hashable, Iterator
from typing import Any, Optional

# What torch keeps in a module beside its attributes.
OWN = ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training")
PLAIN = (int, float, str, bytes, type(None), type, enum.Enum, types.FunctionType)
LARGEST_BUFFER = 1 << 20


class _Unknown(Exception):
    """An attribute that a key cannot have."""


def key(module: Any, inputs: tuple[Any, ...]) -> Optional[Hashable]:
    """The key of a module with example inputs; None where it has none."""
    try:
        return tuple(_parts(module)), _value(inputs)
    except (_Unknown, RuntimeError):
        return None


def _parts(module: Any) -> Iterator[Hashable]:
    """Each part with its name; a part that was there before, under another name, by its number."""
    numbers: dict[int, int] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        known = numbers.get(id(part))
        numbers.setdefault(id(part), len(numbers))
        yield (name, *_part(part)) if known is None else (name, known)


def _part(module: Any) -> tuple[Any, ...]:
    state = vars(module)
    attributes = ((n, v) for n, v in state.items() if n not in OWN and not _is_empty(v))
    return (
        type(module),
        tuple((name, _value(value)) for name, value in attributes),
        tuple((name, _tensor(value)) for name, value in module._parameters.items()),
        tuple((name, _value(value)) for name, value in module._buffers.items()),
        tuple(module._modules),
    )


def _is_empty(value: Any) -> bool:
    """Whether it is a table of hooks without any, which every module has."""
    return isinstance(value, dict) and not value


def _value(value: Any) -> Hashable:
    import torch

    if isinstance(value, torch.Tensor):
        return _buffer(value)
    if isinstance(value, (*PLAIN, torch.dtype, torch.device, torch.memory_format)):
        return (type(value), value)
    if isinstance(value, functools.partial):
        return (functools.partial, _value(value.func), _value(value.args), _value(value.keywords))
    if isinstance(value, (list, tuple)):
        return (type(value), tuple(_value(each) for each in value))
    if isinstance(value, (set, frozenset)):
        return (type(value), frozenset(_value(each) for each in value))
    if isinstance(value, dict):
        return (type(value), tuple((_value(k), _value(v)) for k, v in value.items()))
    if isinstance(value, types.BuiltinFunctionType):
        return value
    raise _Unknown


def _tensor(value: Any) -> Hashable:
    return None if value is None else (tuple(value.shape), str(value.dtype), str(value.device))


def _buffer(value: Any) -> Hashable:
    if value.is_floating_point() or value.is_complex():
        return _tensor(value)
    if value.numel() > LARGEST_BUFFER:
        raise _Unknown
    return (_tensor(value), value.detach().cpu().contiguous().numpy().tobytes())
