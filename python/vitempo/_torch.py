"""Modules of torch as models, by ONNX. Imported only where such a module is forecast.

A module whose structure is that of an earlier one is not exported again: see `_structure`.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import contextlib
import inspect
import io
import os
import tempfile
import threading
import warnings
from collections import OrderedDict
from collections.abc import Generator, Hashable
from typing import Any, Optional

from . import _structure
from ._vitempo import Model, read_named
from .errors import InvalidModel

# Models of modules that were exported, those used last at the end; they have no weights.
MOST_KEPT = 256
_kept: OrderedDict[Hashable, Model] = OrderedDict()
_lock = threading.Lock()


def read_module(module: Any, inputs: Optional[Any]) -> Model:
    """The operators of a module; a structure that was read before is not exported again."""
    arguments = example_inputs(module, inputs)
    key = _structure.key(module, arguments)
    name = type(module).__name__
    if key is None:
        return read_named(name, export(module, arguments))
    with _lock:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    model = read_named(name, export(module, arguments))
    with _lock:
        _kept[key] = model
        while len(_kept) > MOST_KEPT:
            _kept.popitem(last=False)
    return model


def read_program(program: Any, inputs: Optional[Any]) -> Model:
    """The operators of a `torch.export.ExportedProgram`, which has example inputs of its own."""
    if inputs is None and program.example_inputs is not None:
        arguments = tuple(program.example_inputs[0])
    else:
        arguments = example_inputs(program.module(), inputs)
    return read_named("ExportedProgram", export(program.module(), arguments))


def export(module: Any, arguments: tuple[Any, ...]) -> bytes:
    """The ONNX model of a module, by the exporter through TorchScript, else by the newer one."""
    import torch

    has_choice = "dynamo" in inspect.signature(torch.onnx.export).parameters
    newer = {"dynamo": True, "verbose": False, "external_data": False}
    ways: list[dict[str, Any]] = [{"dynamo": False}, newer] if has_choice else [{}]
    first: Optional[Exception] = None
    with _evaluating(module), torch.no_grad(), _quiet(), tempfile.TemporaryDirectory() as folder:
        for number, options in enumerate(ways):
            path = os.path.join(folder, f"{number}.onnx")
            try:
                torch.onnx.export(module, arguments, path, **options)
                with open(path, "rb") as file:
                    return file.read()
            except Exception as error:  # torch documents no class of its exporters' errors
                first = first or error
    raise InvalidModel(
        f"torch cannot export {type(module).__name__}: {first}",
        hint="export the module to ONNX yourself and give the file",
    ) from first


def example_inputs(module: Any, inputs: Optional[Any]) -> tuple[Any, ...]:
    """Inputs to trace a module with: a tensor, a tuple of tensors, or the shape of one; modules
    of timm name the shape themselves."""
    import torch

    if inputs is None:
        size = (getattr(module, "default_cfg", None) or {}).get("input_size")
        if size is None:
            raise InvalidModel(
                f"{type(module).__name__} needs example inputs to be exported",
                hint="give inputs=torch.zeros(1, 3, 224, 224), or its shape",
            )
        inputs = (1, *size)
    if isinstance(inputs, (tuple, list)) and all(isinstance(size, int) for size in inputs):
        parameter = next(module.parameters(), None)
        like = {} if parameter is None else {"dtype": parameter.dtype, "device": parameter.device}
        return (torch.zeros(tuple(inputs), **like),)
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


@contextlib.contextmanager
def _evaluating(module: Any) -> Generator[None, None, None]:
    """In evaluation mode, and each submodule in its own mode afterwards."""
    modes = [(part, part.training) for part in module.modules()]
    # The mode of a module of `torch.export` is part of its graph.
    with contextlib.suppress(NotImplementedError):
        module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


@contextlib.contextmanager
def _quiet() -> Generator[None, None, None]:
    """Without warnings and prints of the exporters."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield
