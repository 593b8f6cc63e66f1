"""What `predict` takes beside paths and encodings, reduced to a file, bytes, a model, or
encodings."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
from typing import Any, Optional

import numpy as np

Reduced = tuple[str, str, Any]


def reduce(model: Any, inputs: Optional[Any]) -> Reduced:
    """(`file`, path, None), (`bytes`, name, ONNX), (`model`, name, model) or (`encodings`, "",
    values).

    The values are a list of texts, or the code points (uint32) or bytes (uint8) of an array of
    fixed width, one row per text.
    """
    if isinstance(model, os.PathLike):
        return "file", os.fsdecode(os.fspath(model)), None
    if isinstance(model, (bytes, bytearray, memoryview)):
        return "bytes", "model", bytes(model)
    if isinstance(model, np.ndarray):
        return "encodings", "", _columns(model)
    if isinstance(model, (list, tuple)):
        return "encodings", "", _texts(list(model))
    if hasattr(model, "SerializeToString"):
        name = getattr(getattr(model, "graph", None), "name", "") or "model"
        return "bytes", str(name), model.SerializeToString()
    if is_module(model):
        from . import _torch

        return "model", type(model).__name__, _torch.read_module(model, inputs)
    raise TypeError(
        f"cannot forecast a {type(model).__qualname__}: expected the path or the bytes of an ONNX "
        "model, an onnx.ModelProto, a torch.nn.Module, a vitempo.Model, an encoding, or encodings"
    )


def is_module(value: Any) -> bool:
    """Whether a value is a module of torch; does not import torch."""
    bases = type(value).__mro__
    return any(b.__module__ == "torch.nn.modules.module" and b.__name__ == "Module" for b in bases)


def _columns(values: np.ndarray[Any, Any]) -> Any:
    if values.ndim != 1:
        raise ValueError(f"an array of encodings has 1 dimension, not {values.ndim}")
    kind, width = values.dtype.kind, values.dtype.itemsize
    if kind == "U" and width:
        native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
        return native.view(np.uint32).reshape(len(values), width // 4)
    if kind == "S" and width:
        return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), width)
    if kind in "OUS":
        return _texts(values.tolist())
    raise TypeError(f"an array of encodings has texts, not {values.dtype}")


def _texts(values: list[Any]) -> list[str]:
    if set(map(type, values)) <= {str}:
        return values
    for index, value in enumerate(values):
        if not isinstance(value, str):
            what = type(value).__qualname__
            raise TypeError(f"a list is a list of encodings, but item {index} is a {what}")
    return values
