"""A bundle for a device of which only a few end-to-end latencies are known."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import csv
import io
import json
import logging
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union, cast

from . import _vitempo
from ._dataset import Dataset
from ._latency import Latency
from ._numbers import count as whole
from ._numbers import real, shown
from ._open import Named, opened, several, written
from ._vitempo import Bundle, Model, read
from .errors import InvalidArgument, InvalidLatencies, InvalidModel

_log = logging.getLogger("vitempo")

Latencies = Union[str, "os.PathLike[str]", Mapping[str, Union[float, Sequence[float]]]]
Models = Union[str, "os.PathLike[str]", Iterable[Any], Mapping[str, Any]]
Sources = Union[Named, Dataset, Iterable[Union[Named, Dataset]]]
PROCESSORS = ("cpu", "gpu", "npu")
PRECISIONS = ("f32", "bf16", "f16", "int8")


@dataclass(frozen=True)
class MeasuredModel:
    """A measured model, and its forecast from the other ones; None where it is the only one."""

    model: str
    ms: float
    from_others: Optional[Latency]


@dataclass(frozen=True)
class Adaptation:
    """The result of an adaptation.

    Attributes:
        bundle: Forecasts any model on the device.
        measured: The measured models, each with a forecast from the others.
        mape: Mean absolute percentage error of these forecasts, percent; None where a single model
            was measured.
        inside: How many latencies are in the interval of these forecasts.
        unconstrained: Costs that the latencies say nothing about, with their share of the time.
        suggested: Models to measure next; the first narrows the forecasts most.
        warnings: Latencies that are valid but implausible.
        sources: Other devices that it learned from.
    """

    bundle: Bundle
    measured: list[MeasuredModel]
    mape: Optional[float]
    inside: Optional[int]
    unconstrained: dict[str, float]
    suggested: list[str]
    warnings: list[str]
    sources: list[str]

    def __str__(self) -> str:
        lines = [f"{self.bundle.name}   {self.bundle.environment}"]
        for row in self.measured:
            others = row.from_others
            told = "" if others is None else f", from the others {others.ms:.3g} ms"
            lines.append(f"{row.model}: {row.ms:.3g} ms{told}")
        if self.mape is not None:
            lines.append(f"each model from the others: {self.mape:.1f} % mean error")
        return "\n".join(lines)


def adapt(
    latencies: Latencies,
    models: Models,
    *,
    out: Union[str, os.PathLike[str]],
    sources: Sources = (),
    name: Optional[str] = None,
    processor: str = "cpu",
    framework: str = "unknown",
    threads: int = 1,
    precision: str = "f32",
    source: Optional[str] = None,
    suggest: int = 0,
) -> Adaptation:
    """Makes a bundle from the end-to-end latencies of about ten models on a device.

    Args:
        latencies: A CSV with the columns `model` and `latency_ms` (or `_s`, `_us`, `_ns`), or a
            mapping from names of models to latencies in ms; several of one model are samples.
        models: The measured models, and candidates for `suggest`: a folder of ONNX files, models as
            for `Bundle.predict`, or a mapping from names to models. A file has the name of its
            stem.
        out: The bundle to write, `NAME.vtb`.
        sources: Another device, or several: bundles, names, paths, and datasets.
        name: The device; by default the stem of the CSV, or `device`.
        processor: `cpu`, `gpu` or `npu`.
        framework: The inference engine, e.g. `tflite`.
        threads: Threads that the models ran with.
        precision: `f32`, `bf16`, `f16` or `int8`.
        source: Publisher and licence of latencies that you did not measure.
        suggest: How many models worth measuring next to name.

    Raises:
        InvalidLatencies: A latency is not one, or of a model that is not given.
        InvalidModel: Two models have the same name.
        InvalidArgument: A number or a text is not one.
    """
    return adapted(
        latencies,
        models,
        out=out,
        sources=sources,
        name=name,
        processor=processor,
        framework=framework,
        threads=threads,
        precision=precision,
        source=source,
        suggest=suggest,
    )[0]


def adapted(
    latencies: Latencies,
    models: Models,
    *,
    out: Union[str, os.PathLike[str]],
    sources: Sources,
    name: Optional[str],
    processor: str,
    framework: str,
    threads: int,
    precision: str,
    source: Optional[str],
    suggest: int,
) -> tuple[Adaptation, dict[str, Any]]:
    """The adaptation, and what the library says of it, ns."""
    named = _named(models)
    text, file = _text(latencies, [one for one, _ in named])
    bundles, folders = _divided(sources)
    is_file = isinstance(latencies, (str, os.PathLike))
    known = "device" if name is None and not is_file else name
    suggested = whole("suggest", suggest)
    device = _device(file, folders, known, processor, framework, threads, precision, suggested)
    if source is not None and not source.strip():
        raise InvalidArgument("`source` is empty, expected publisher and licence")
    options = {**device, "out": os.fspath(out), "source": source}
    of = json.loads(_vitempo.adapt(text, named, bundles, json.dumps(options)))
    for warning in of["warnings"]:
        _log.warning("%s: %s", file, warning)
    adaptation = Adaptation(
        written(out),
        [_measured(row) for row in of["measured"]],
        of["mape"],
        of["inside"],
        of["unconstrained"],
        of["suggested"],
        of["warnings"],
        of["sources"],
    )
    return adaptation, of


def first_models(
    models: Models,
    count: int = 10,
    *,
    sources: Sources = (),
    name: Optional[str] = None,
    processor: str = "cpu",
    framework: str = "unknown",
    threads: int = 1,
    precision: str = "f32",
) -> list[str]:
    """Names the models to measure on a device before any latency of it is known.

    Args:
        models: To choose from, as for `adapt`.
        count: How many.
        sources: Another device, or several: bundles, names, paths, and datasets.
        name: The device, which is left out of the sources.
        processor: `cpu`, `gpu` or `npu`.
        framework: The inference engine, e.g. `tflite`.
        threads: Threads that the models will run with.
        precision: `f32`, `bf16`, `f16` or `int8`.

    Returns:
        Names; the latency of the first narrows the forecasts most.
    """
    found = firsts(
        models,
        count,
        sources=sources,
        name=name,
        processor=processor,
        framework=framework,
        threads=threads,
        precision=precision,
    )
    return cast("list[str]", found["suggested"])


def firsts(
    models: Models,
    count: int,
    *,
    sources: Sources,
    name: Optional[str],
    processor: str,
    framework: str,
    threads: int,
    precision: str,
) -> dict[str, Any]:
    """The same, with the sources and the environments that are left out of them."""
    named = _named(models)
    bundles, folders = _divided(sources)
    known = "device" if name is None else name
    chosen = whole("count", count)
    options = _device("", folders, known, processor, framework, threads, precision, chosen)
    found: dict[str, Any] = json.loads(_vitempo.first_models(named, bundles, json.dumps(options)))
    return found


def _device(
    file: str,
    folders: list[str],
    name: Optional[str],
    processor: str,
    framework: str,
    threads: int,
    precision: str,
    suggest: int,
) -> dict[str, Any]:
    for what, given, known in (
        ("processor", processor, PROCESSORS),
        ("precision", precision, PRECISIONS),
    ):
        if given not in known:
            raise InvalidArgument(f"{what} {given!r}: expected one of {', '.join(known)}")
    for argument, text in (("name", name), ("framework", framework)):
        if text is not None and not text.strip():
            raise InvalidArgument(f"`{argument}` is empty, expected a text")
    return {
        "file": file,
        "datasets": folders,
        "name": name,
        "processor": processor,
        "framework": framework,
        "threads": whole("threads", threads, least=1),
        "precision": "i8" if precision == "int8" else precision,
        "suggest": suggest,
    }


def _measured(row: dict[str, Any]) -> MeasuredModel:
    others = row["from_others"]
    return MeasuredModel(row["model"], row["ms"], None if others is None else Latency(*others))


def _divided(sources: Sources) -> tuple[list[Bundle], list[str]]:
    """Bundles, and folders of datasets."""
    bundles: list[Bundle] = []
    folders: list[str] = []
    for source in several(sources):
        if isinstance(source, Dataset):
            folders.append(source.path)
        elif not isinstance(source, Bundle) and os.path.isdir(source):
            folders.append(os.fspath(source))
        else:
            bundles.append(opened(source))
    return bundles, folders


def _named(models: Models) -> list[tuple[str, Model]]:
    """Models by name, each name once."""
    if isinstance(models, Mapping):
        named = cast("Mapping[str, Any]", models)
        return _each_once([(_name(name), "a model", read(model)) for name, model in named.items()])
    if isinstance(models, (str, os.PathLike)):
        path = Path(models)
        return _named(files_in(path) if path.is_dir() else [path])
    return _each_once([_one(model) for model in models])


def _name(key: Any) -> str:
    """The name of a model as the file of latencies has it: without spaces around it."""
    return str(key).strip()


def files_in(folder: Path) -> list[Path]:
    """The ONNX files of a folder, sorted."""
    found = sorted(folder.glob("*.onnx"))
    if not found:
        hint = "give ONNX files, or folders that contain some"
        raise InvalidModel(f"no .onnx file in folder {folder}", hint=hint)
    return found


def _each_once(models: Iterable[tuple[str, str, Model]]) -> list[tuple[str, Model]]:
    """Names and models, of names, what has them, and models."""
    found: dict[str, tuple[str, Model]] = {}
    for name, what, graph in models:
        if name in found:
            raise InvalidModel(
                f"two of the models are called `{name}`: {found[name][0]} and {what}",
                hint="leave one out, or give a mapping from names of their own to models",
            )
        found[name] = what, graph
    return [(name, graph) for name, (_, graph) in found.items()]


def _one(model: Any) -> tuple[str, str, Model]:
    graph = read(model)
    name = Path(model).stem if _is_file(model) else graph.name
    return _name(name), _what(model), graph


def _is_file(model: Any) -> bool:
    return isinstance(model, os.PathLike) or isinstance(model, str) and os.path.exists(model)


def _what(model: Any) -> str:
    """A model for a message: its file, or its type."""
    return os.fspath(model) if _is_file(model) else f"a {type(model).__qualname__}"


def _text(latencies: Latencies, names: list[str]) -> tuple[bytes, str]:
    """The text of a CSV, and the name of its file."""
    if isinstance(latencies, (str, os.PathLike)):
        return Path(latencies).read_bytes(), os.fspath(latencies)
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["model", "latency_ms"])
    for key, samples in latencies.items():
        name = _name(key)
        if name not in names:
            raise InvalidLatencies(
                f"none of the models is called `{name}`", hint=f"there are {', '.join(names)}"
            )
        for ms in _samples(name, samples):
            rows.writerow([name, repr(ms)])
    return out.getvalue().encode(), "latencies"


def _samples(name: str, samples: Any) -> list[float]:
    """The samples of a model, ms: one number, or several."""
    if isinstance(samples, numbers.Real):
        return [_ms(name, samples)]
    is_text = isinstance(samples, (str, bytes, bytearray, memoryview))
    if is_text or not isinstance(samples, Iterable):
        raise _no_latency(name, samples)
    found = list(samples)
    if not found:
        raise InvalidLatencies(f"`{name}` has no latency", hint="leave the model out")
    return [_ms(name, ms) for ms in found]


def _ms(name: str, value: Any) -> float:
    ms = real(value)
    if ms is None:
        raise _no_latency(name, value)
    return ms


def _no_latency(name: str, value: Any) -> InvalidLatencies:
    return InvalidLatencies(
        f"the latency of `{name}` is {shown(value)}, expected a number of ms, or several",
        hint="give numbers instead of texts: float(text)",
    )
