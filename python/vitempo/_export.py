"""Models as files for others."""

from __future__ import annotations

import os
import re
from typing import Any, Optional, Union

from . import _vitempo
from ._vitempo import Model, Space, models, read

Path = Union[str, "os.PathLike[str]"]


def export(
    model: Any,
    out: Path,
    *,
    weights: bool = True,
    seed: int = 0,
    space: Optional[Union[Space, Path]] = None,
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
) -> str:
    """Writes a model as a file: TensorFlow Lite where its name ends in `.tflite`, else ONNX. The
    file has the operators and shapes of the model, and random weights: it is for measuring.

    Args:
        model: The name of a model that ships (`models()`), the encoding of an architecture, or a
            model as for `Bundle.predict`.
        out: The file, or a folder, where the file is called like the model, `NAME.onnx`.
        weights: Whether an ONNX file has weights. Without them it has kilobytes; vitempo reads it,
            engines cannot run it.
        seed: Decides the weights: the same seed gives the same file.
        space: The space of the encoding, where it is not one that comes with vitempo.
        inputs: Example inputs of a torch module, or the shape of its input.
        dims: Extents of symbolic dimensions.

    Returns:
        The path of the file.

    Raises:
        ModelNotFound: No model of this name ships.
        UnsupportedOperator: The format has no form for a node.
        OSError: The file cannot be written.
        TypeError: An option is for another kind of model or file.
    """
    graph = _found(model, space, inputs, dims)
    path = os.fspath(out)
    if not weights and path.lower().endswith(".tflite"):
        raise TypeError("`weights` is for ONNX; a TensorFlow Lite file always has weights")
    if os.path.isdir(path):
        path = os.path.join(path, re.sub(r"[^\w.+-]", "_", graph.name) + ".onnx")
    _vitempo.write_model(graph, path, seed if weights else None)
    return path


def _found(
    model: Any,
    space: Optional[Union[Space, Path]],
    inputs: Optional[Any],
    dims: Optional[dict[str, int]],
) -> Model:
    ships = isinstance(model, str) and model in models()
    if ships or space is not None:
        kind = "a model that ships" if ships else "an encoding"
        for option, value in (("inputs", inputs), ("dims", dims)):
            if value is not None:
                raise TypeError(f"`{option}` is not for {kind}")
        if not isinstance(model, str):
            raise TypeError("`space` is for encodings, not for a model")
        return Model.load(model, space=space)
    return read(model, inputs=inputs, dims=dims)
