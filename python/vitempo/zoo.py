"""Variants of models that can be stitched: made, run and measured by the program `vitempo`.

A variant is made of a model without training: quantised, or with channels or weights removed. All
variants of a model are cut at the same tensors, so that a stitched variant can take each subgraph
from another one. `vitempo.plan.stitch` chooses among them.
"""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import numpy as np
import numpy.typing as npt

from ._files import dim_arguments, named_models
from ._program import Path, Progress, printed, run

__all__ = [
    "Measured",
    "RECIPES",
    "Stitched",
    "Variant",
    "Zoo",
    "make",
    "measure",
    "report",
    "sample",
    "stitch",
]

RECIPES = ("dense", "int8", "structured=25%", "structured=50%", "masked=50%", "masked=80%")
"""The variants that `make` makes by default."""


@dataclass(frozen=True)
class Variant:
    """A variant that was made.

    Attributes:
        model: Name of its base model.
        name: Its own name.
        path: Its ONNX file.
        flops: FLOPs of one run.
        parameters: Its weights.
        nonzero: Those that are not 0.
        weights_bytes: Size of its weights, bytes.
        similarity: Of its results to those of the base model, a share; None where nothing was
            compared.
    """

    model: str
    name: str
    path: str
    flops: int
    parameters: int
    nonzero: int
    weights_bytes: int
    similarity: Optional[float]


@dataclass(frozen=True)
class Zoo:
    """Variants of models with the file of their tasks.

    Attributes:
        tasks: The file `tasks.toml`: a task per model, with its variants, cuts and accuracies.
        variants: By model.
        cuts: The tensors at which the variants of each model are cut.
    """

    tasks: str
    variants: list[Variant] = field(default_factory=list[Variant])
    cuts: dict[str, list[str]] = field(default_factory=dict[str, list[str]])

    def __fspath__(self) -> str:
        return self.tasks

    def __getitem__(self, model: str) -> list[Variant]:
        found = [variant for variant in self.variants if variant.model == model]
        if not found:
            raise KeyError(model)
        return found


@dataclass(frozen=True)
class Stitched:
    """A stitched variant that ran.

    Attributes:
        variants: The variant of each position.
        similarity: Of its results to those of the task's first variant, a share; None where it
            does not run.
        apart: Largest difference from its subgraphs run one after the other, as a share of the
            largest value.
        refused: Why it does not run; None where it does.
    """

    variants: list[str]
    similarity: Optional[float]
    apart: Optional[float]
    refused: Optional[str]


@dataclass(frozen=True)
class Measured:
    """Accuracies on labelled images.

    Attributes:
        task: Name of the task.
        images: How many images there are.
        accuracies: Percent of each stitched variant, by the variant of each position; an original
            has one variant at all positions.
    """

    task: str
    images: int
    accuracies: dict[tuple[str, ...], float]

    def __getitem__(self, variants: Union[str, Sequence[str]]) -> float:
        if isinstance(variants, str):
            positions = len(next(iter(self.accuracies)))
            return self.accuracies[(variants,) * positions]
        return self.accuracies[tuple(variants)]


def make(
    models: Any,
    out: Path,
    *,
    variants: Sequence[str] = RECIPES,
    positions: int = 3,
    cuts: Sequence[str] = (),
    compare: Optional[str] = None,
    images: int = 4,
    seed: int = 0,
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> Zoo:
    """Makes variants of models without training, cut at the same tensors, by `vitempo zoo make`.

    Args:
        models: One model as for `Bundle.predict`, several, or models by name; also folders and
            globs of ONNX files. Modules of torch are exported with their weights.
        out: The folder of the variants and their tasks file.
        variants: `dense`, `int8`, `integer`, `structured=50%`, `masked=80%`, or several of these
            joined by `+`.
        positions: Subgraphs per variant.
        cuts: Cut at these tensors instead of where the subgraphs have equal work.
        compare: Engine on which every variant runs, to compare its results with the base model's.
        images: Number of seeded inputs for `compare`.
        seed: Of weights that a model lacks.
        inputs: Example inputs of torch modules, or the shape of their input.
        dims: Extents of symbolic dimensions.
        options: More of the command's options, as on its command line.
        progress: True shows what the program says; a function gets each line.

    Raises:
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed: its message and hint.
    """
    with tempfile.TemporaryDirectory() as folder:
        files = named_models(models, folder, inputs)
        arguments = ["zoo", "make", *files, "--variant", ",".join(variants)]
        arguments += ["--positions", str(positions), "--seed", str(seed), "--out", os.fspath(out)]
        arguments += [word for cut in cuts for word in ("--cut", cut)] + dim_arguments(dims)
        if compare is not None:
            arguments += ["--compare", compare, "--inputs", str(images)]
        found = run([*arguments, *options], progress)
    made = [_variant(row, os.fspath(out)) for row in found["variants"]]
    return Zoo(found["tasks"], made, dict(found["cuts"]))


def stitch(
    zoo: Union[Zoo, Path],
    variants: Sequence[str],
    *,
    task: Optional[str] = None,
    out: Optional[Path] = None,
    engine: str = "rten",
    images: int = 4,
    seed: int = 0,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> Stitched:
    """Assembles a stitched variant as one model, and checks that it runs.

    Args:
        zoo: A zoo, or its tasks file.
        variants: The variant of each position.
        task: The task; may be left out where there is one.
        out: Write the stitched variant here, `NAME.onnx`.
        engine: The engine that runs it.
        images: Number of seeded inputs.
        seed: Of the inputs.
        options: More of the command's options, as on its command line.
        progress: True shows what the program says; a function gets each line.

    Raises:
        ProgramError: It does not run, or neighbours do not fit: message and hint.
    """
    arguments = ["--variants", ",".join(variants)]
    if out is not None:
        arguments += ["--out", os.fspath(out)]
    given = _engine_arguments(engine, seed) + ["--inputs", str(images), *options]
    found = run(["zoo", "stitch", *_task_arguments(zoo, task), *arguments, *given], progress)
    return _stitched(found["stitched"][0])


def sample(
    zoo: Union[Zoo, Path],
    count: int,
    *,
    task: Optional[str] = None,
    accuracies: Optional[Path] = None,
    engine: str = "rten",
    images: int = 4,
    seed: int = 0,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> list[Stitched]:
    """Runs stitched variants drawn at random, and compares their results with those of the first
    variant.

    Args:
        zoo: A zoo, or its tasks file.
        count: How many; all of them where there are no more.
        task: The task; may be left out where there is one.
        accuracies: Write the similarities here as CSV, which a task can name as `stitched`.
        engine: The engine that runs them.
        images: Number of seeded inputs of each.
        seed: The same seed draws the same variants.
        options: More of the command's options, as on its command line.
        progress: True shows what the program says; a function gets each line.
    """
    arguments = ["--sample", str(count), "--inputs", str(images)]
    if accuracies is not None:
        arguments += ["--accuracies", os.fspath(accuracies)]
    given = _engine_arguments(engine, seed) + list(options)
    found = run(["zoo", "stitch", *_task_arguments(zoo, task), *arguments, *given], progress)
    return [_stitched(row) for row in found["stitched"]]


def measure(
    zoo: Union[Zoo, Path],
    images: npt.ArrayLike,
    labels: npt.ArrayLike,
    *,
    task: Optional[str] = None,
    count: Optional[int] = None,
    update: bool = False,
    engine: str = "rten",
    seed: int = 0,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> Measured:
    """Measures the accuracy of variants and stitched variants on labelled images, by
    `vitempo zoo measure`.

    Args:
        zoo: A zoo, or its tasks file.
        images: As the model reads them, shape (n, ...), float32.
        labels: The class of each image from 0, shape (n,), integers.
        task: The task; may be left out where there is one.
        count: How many stitched variants to measure: half at random, the others close to the
            border of the best tenth; all by default.
        update: Write the accuracies into the tasks file too, for `vitempo.plan.stitch`.
        engine: The engine that runs them.
        seed: The same seed draws the same variants.
        options: More of the command's options, as on its command line.
        progress: True shows what the program says; a function gets each line.
    """
    arguments = _task_arguments(zoo, task) + _engine_arguments(engine, seed)
    if count is not None:
        arguments += ["--sample", str(count)]
    if update:
        arguments.append("--update")
    with tempfile.TemporaryDirectory() as folder:
        arrays = [("images", images, np.float32), ("labels", labels, np.int64)]
        for name, values, kind in arrays:
            path = os.path.join(folder, f"{name}.npy")
            np.save(path, np.ascontiguousarray(values, dtype=kind))
            arguments += [f"--{name}", path]
        found = run(["zoo", "measure", *arguments, *options], progress)
    rows = {tuple(row["variants"]): float(row["accuracy"]) for row in found["stitched"]}
    return Measured(found["task"], found["images"], rows)


def report(record: Path, out: Optional[Path] = None, *, progress: Progress = False) -> str:
    """A report on a zoo whose plans were measured, as Markdown, by `vitempo zoo report`: violated
    SLOs, throughput, memory, and the errors of estimators. No model runs.

    Args:
        record: The file that `vitempo.plan.stitch(..., record=...)` wrote.
        out: A file to write the report to as well.
        progress: True shows what the program says; a function gets each line.
    """
    arguments = ["zoo", "report", os.fspath(record)]
    if out is None:
        return printed(arguments, progress)
    printed([*arguments, "--out", os.fspath(out)], progress)
    with open(out, encoding="utf-8") as file:
        return file.read()


def _task_arguments(zoo: Union[Zoo, Path], task: Optional[str]) -> list[str]:
    named = [] if task is None else ["--task", task]
    return ["--tasks", os.fspath(zoo), *named]


def _engine_arguments(engine: str, seed: int) -> list[str]:
    return ["--engine", engine, "--seed", str(seed)]


def _variant(row: Mapping[str, Any], folder: str) -> Variant:
    return Variant(
        row["model"],
        row["variant"],
        os.path.join(folder, row["file"]),
        row["flops"],
        row["params"],
        row["nonzero"],
        row["weights_bytes"],
        row["similarity"],
    )


def _stitched(row: Mapping[str, Any]) -> Stitched:
    return Stitched(row["variants"], row["similarity"], row["apart"], row["refused"])
