"""What `predict` takes beside paths and encodings, reduced to a file, bytes, a model, or
encodings."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
from typing import Any, Optional

import numpy as np

from .errors import InvalidEncoding, InvalidModel

Reduced = tuple[str, str, Any]

# Frameworks whose models have no ONNX in memory: what to do instead.
OTHERS = {
    "openvino": "OpenVINO writes no ONNX: give the model that it was converted from",
    "coremltools": "coremltools writes no ONNX: give the model that it was converted from",
    "tensorflow": "convert it to ONNX (tf2onnx), or give the path of its .tflite file",
    "keras": "model.export(FILE, format='onnx') writes a file to give",
    "jax": "convert it to ONNX (jax2onnx), or give the path of its .tflite file",
    "flax": "convert it to ONNX (jax2onnx), or give the path of its .tflite file",
    "onnxruntime": "give the file that the session was made from",
}


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
    if _is_kind(model, "torch.export.exported_program", "ExportedProgram"):
        from . import _torch

        return "model", "ExportedProgram", _torch.read_program(model, inputs)
    framework = next((t for t in map(_package, type(model).__mro__) if t in OTHERS), None)
    if framework is not None:
        what = f"{framework}.{type(model).__qualname__}"
        raise InvalidModel(f"a model of {what} is not read", hint=OTHERS[framework])
    raise TypeError(
        f"cannot forecast a {type(model).__qualname__}: expected the path or the bytes of an ONNX "
        "model, an onnx.ModelProto, a torch.nn.Module, a vitempo.Model, an encoding, or encodings"
    )


def is_module(value: Any) -> bool:
    """Whether a value is a module of torch; does not import torch."""
    return _is_kind(value, "torch.nn.modules.module", "Module")


def _is_kind(value: Any, module: str, name: str) -> bool:
    return any(b.__module__ == module and b.__name__ == name for b in type(value).__mro__)


def _package(kind: type) -> str:
    return kind.__module__.split(".")[0]


def _columns(values: np.ndarray[Any, Any]) -> Any:
    if values.ndim != 1:
        raise ValueError(f"an array of encodings has 1 dimension, not {values.ndim}")
    masked = np.flatnonzero(np.ma.getmaskarray(values))
    if len(masked):
        raise InvalidEncoding(f"encoding {masked[0]} is masked", hint="leave masked ones out")
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
