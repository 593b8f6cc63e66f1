"""Files: models for the program `vitempo`, which reads them by path, and what is written whole."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Optional

from . import _vitempo
from ._inputs import is_module
from ._vitempo import Bundle, read

Dims = Optional[dict[str, int]]

NAME_LENGTH = 80


def model_file(
    model: Any, folder: str, *, inputs: Optional[Any] = None, name: Optional[str] = None
) -> str:
    """The ONNX file of a model: its own, where it has one; else one in the folder. Bytes, protos
    and modules keep their weights."""
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(os.fspath(model))
        if not path.lower().endswith(".tflite") and (os.path.exists(path) or _is_onnx(path)):
            return path
    content, own = _content(model, inputs)
    path = os.path.join(folder, f"{_file_name(name or own)}.onnx")
    if isinstance(content, bytes):
        with open(path, "wb") as file:
            file.write(content)
    else:
        _vitempo.write_model(content, path, None)
    return path


def read_file(model: Any, folder: str, inputs: Optional[Any], dims: Dims) -> str:
    """The same of a model whose weights do not count, which is read before: errors are those of
    `read`. Files that are not ONNX are written as such."""
    graph = read(model, inputs=inputs, dims=dims)
    if isinstance(model, (str, os.PathLike)):
        path = os.fsdecode(os.fspath(model))
        if _is_onnx(path):
            return path
    path = os.path.join(folder, f"{_file_name(graph.name)}.onnx")
    _vitempo.write_model(graph, path, None)
    return path


def dim_arguments(dims: Dims) -> list[str]:
    """Symbolic dimensions as arguments."""
    return [word for name, size in (dims or {}).items() for word in ("--dim", f"{name}={size}")]


def bundle_argument(bundle: Bundle) -> str:
    """A bundle as the program finds it: a name, or a path."""
    embedded = "embedded:"
    location = bundle.location
    return location[len(embedded) :] if location.startswith(embedded) else location


def named_models(models: Any, folder: str, inputs: Optional[Any]) -> list[str]:
    """Files, folders and globs of models: one, several, or by name."""
    if isinstance(models, Mapping):
        return [
            model_file(model, folder, inputs=inputs, name=str(name))
            for name, model in models.items()
        ]
    if isinstance(models, (list, tuple)):
        return [model_file(model, folder, inputs=inputs) for model in models]
    if isinstance(models, (str, os.PathLike)):
        return [os.fspath(models)]
    return [model_file(models, folder, inputs=inputs)]


def write_whole(path: Path, content: bytes) -> None:
    """Writes a file whole, or not at all: on the disk, then under its name."""
    handle, unfinished = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        os.unlink(unfinished)
        raise


def _is_onnx(path: str) -> bool:
    """Whether a text is the path of a file, which may be missing, rather than an encoding."""
    return path.lower().endswith(".onnx")


def _content(model: Any, inputs: Optional[Any]) -> tuple[Any, str]:
    """The bytes of an ONNX file, or a model that was read; and a name."""
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model), "model"
    if hasattr(model, "SerializeToString"):
        name = getattr(getattr(model, "graph", None), "name", "")
        return model.SerializeToString(), str(name or "model")
    if is_module(model):
        from . import _torch

        arguments = _torch.example_inputs(model, inputs)
        return _torch.export(model, arguments), type(model).__name__
    graph = read(model, inputs=inputs)
    return graph, graph.name


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.+-]", "_", name)[:NAME_LENGTH] or "model"
