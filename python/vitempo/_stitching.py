"""Plans of stitched variants: for the program, whose estimator of accuracies is trained."""

# pyright: reportUnknownArgumentType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _vitempo
from ._files import bundle_argument, model_file
from ._latency import Latency, latency_of
from ._numbers import count, number, shown
from ._placing import Processors, Task, by_name
from ._program import Path, Progress, run
from ._tasks import OfTasks
from ._vitempo import read
from .errors import PlanError

Tasks = Union[Path, Mapping[str, Task]]


@dataclass(frozen=True)
class StitchedTask:
    """The stitched variant of a task.

    Attributes:
        name: Name of the task.
        variants: The variant of each position; None where no stitched variant can run.
        accuracy: Its accuracy, percent.
        latency: Its latency alone on the device.
        asked_accuracy: The least accuracy, percent.
        asked_latency: The longest latency, ms.
        met: Whether both are met by the forecast.
        fetched: Positions, from 1, whose subgraph is not in memory and loaded first.
        cuts: The tensors between positions.
    """

    name: str
    variants: Optional[list[str]]
    accuracy: Optional[float]
    latency: Optional[Latency]
    asked_accuracy: float
    asked_latency: float
    met: bool
    fetched: list[int]
    cuts: list[str]


@dataclass(frozen=True)
class StitchedOrder:
    """An order of processors with the best variants in it.

    Attributes:
        order: The processor of each position.
        violations: Tasks that are later or less accurate than asked; None where one cannot run.
        mean: Mean latency over tasks, ms.
    """

    order: list[str]
    violations: Optional[int]
    mean: Optional[float]


@dataclass(frozen=True)
class Stitching(OfTasks[StitchedTask]):
    """A plan of stitched variants.

    Attributes:
        order: The processor of each position, for all tasks.
        tasks: In the order in which they were given.
        violations: Tasks that are later or less accurate than asked.
        mean: Mean latency over tasks, ms.
        busiest: How long one query of each task takes the busiest processor, ms.
        orders: All orders, the best first; at most 1000.
        is_complete: Whether no order was left unsearched.
    """

    order: list[str]
    tasks: list[StitchedTask]
    violations: int
    mean: float
    busiest: float
    orders: list[StitchedOrder]
    is_complete: bool
    _json: str

    def __str__(self) -> str:
        lines = [f"order: {' - '.join(self.order)}"]
        for task in self.tasks:
            if task.variants is None or task.latency is None:
                lines.append(f"{task.name}: no variant can run")
                continue
            lines.append(
                f"{task.name}: {' | '.join(task.variants)}, {task.accuracy:.2f} % (asked "
                f"{task.asked_accuracy:.2f} %), {task.latency.ms:.3g} ms (asked "
                f"{task.asked_latency:.3g} ms){'' if task.met else ', violated'}"
            )
        lines.append(f"{self.violations} of {len(self.tasks)} tasks are violated")
        return "\n".join(lines)


def stitch(
    tasks: Tasks,
    processors: Optional[Processors] = None,
    *,
    positions: int = 3,
    slos: Optional[Mapping[str, tuple[float, float]]] = None,
    costs: Optional[Path] = None,
    bandwidth: Optional[float] = None,
    hand_over: Optional[float] = None,
    any_order: bool = False,
    as_printed: bool = False,
    memory: Optional[Union[str, int]] = None,
    preload: str = "exact",
    engines: Optional[Mapping[str, str]] = None,
    record: Optional[Path] = None,
    systems: bool = False,
    seed: int = 0,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> Stitching:
    """One order of processors for all tasks, and for each task a stitched variant, which takes each
    subgraph from some variant of its model. By `vitempo plan stitch`.

    Args:
        tasks: A zoo of `vitempo.zoo.make`, its tasks file, or tasks by name; the variants of a
            `Task` have the same tensors at the cuts.
        processors: Names of processors and their bundles; several for several precisions. By
            default those of the file.
        positions: Subgraphs per variant, where tasks are given by name.
        slos: Least accuracy (percent) and longest latency (ms) of tasks, instead of the file's.
        costs: A costs file instead of bundles: a node `TASK/VARIANT/POSITION` for each subgraph.
        bandwidth: Between any two processors, Mbit/s; without it, transfers cost nothing.
        hand_over: Time of each subgraph beside its run alone, ms.
        any_order: A processor may run several positions, and others none.
        as_printed: Choose by algorithm 1 of the stitching paper as it is printed.
        memory: Budget of the subgraphs that stay in memory: a share like `50%`, or bytes.
        preload: How to choose them: `exact`, `round-robin` or `as-printed`.
        engines: Measure on engines instead of forecasting: `{"a": "rten@0"}`.
        record: Write the measurements here, for `vitempo zoo report` and `plan place`.
        systems: Simulate systems that do not stitch, too; they are in `to_dict()`.
        seed: Of the accuracy estimator.
        options: More of the command's options, as on its command line.
        progress: True shows what the program says; a function gets each line.

    Raises:
        PlanError: A number is not in its range.
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed: its message and hint.
    """
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["plan", "stitch", "--tasks"]
        arguments.append(_tasks_file(tasks, positions, folder, engines is not None))
        for name, bundle in by_name(processors or {}):
            arguments += ["--processor", f"{name}={bundle_argument(bundle)}"]
        for task, slo in (slos or {}).items():
            arguments += ["--slo", f"{task}={_slo(f'slos[{task!r}]', slo)}"]
        for name, engine in (engines or {}).items():
            arguments += ["--live", f"{name}={engine}"]
        arguments += _valued("--costs", costs) + _valued("--record", record)
        arguments += _valued("--memory", None if memory is None else _budget(memory))
        if memory is not None:
            arguments += ["--preload", preload]
        if bandwidth is not None:
            link = number("bandwidth", bandwidth, "Mbit/s", error=PlanError)
            arguments += ["--bandwidth", f"{link:f}Mbit/s"]
        if hand_over is not None:
            passed = number("hand_over", hand_over, "ms", error=PlanError)
            arguments += ["--hand-over", f"{passed:f}ms"]
        switches = [("--any-order", any_order), ("--as-printed", as_printed)]
        switches.append(("--systems", systems))
        arguments += [switch for switch, is_on in switches if is_on]
        chosen = count("seed", seed, error=PlanError)
        found = run([*arguments, "--seed", str(chosen), *options], progress)
    return _stitching(found)


def _valued(flag: str, value: Optional[Path]) -> list[str]:
    return [] if value is None else [flag, os.fspath(value)]


def _budget(memory: Union[str, int]) -> str:
    return memory if isinstance(memory, str) else str(memory)


def _slo(name: str, given: Any) -> str:
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise PlanError(f"`{name}` is {shown(given)}, expected an accuracy and a latency")
    accuracy = number(f"{name}[0]", given[0], "percent", error=PlanError)
    return f"{accuracy:f}%,{number(f'{name}[1]', given[1], 'ms', error=PlanError):f}ms"


def _tasks_file(tasks: Tasks, positions: int, folder: str, is_live: bool) -> str:
    """The tasks file, or one that is written for tasks by name."""
    if not isinstance(tasks, Mapping):
        return os.fspath(tasks)
    lines = [f"positions = {positions}"]
    for place, (name, task) in enumerate(tasks.items()):
        lines += ["[[task]]", f"name = {_quoted(name)}"]
        of = f"tasks[{name!r}]"
        accuracy = number(f"{of}.accuracy", task.accuracy, "percent", error=PlanError)
        latency = number(f"{of}.latency", task.latency, "ms", error=PlanError)
        slo = f"accuracy = {accuracy!r}, latency = {_quoted(f'{latency:f}ms')}"
        lines.append(f"slo = {{ {slo} }}")
        own = os.path.join(folder, str(place))
        os.makedirs(own)
        for variant, path in _variant_files(name, task, own, is_live):
            lines += ["[[task.variant]]", f"name = {_quoted(variant)}"]
            lines.append(f"model = {_quoted(os.path.abspath(path))}")
            if variant in task.accuracies:
                told = f"{of}.accuracies[{variant!r}]"
                has = number(told, task.accuracies[variant], "percent", error=PlanError)
                lines.append(f"accuracy = {has!r}")
    path = os.path.join(folder, "tasks.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


def _variant_files(name: str, task: Task, folder: str, is_live: bool) -> list[tuple[str, str]]:
    for option in ("every", "rate"):
        if getattr(task, option) is not None:
            raise TypeError(f"task {name!r}: `{option}` is for `plan.place`, not for `stitch`")
    given: Any = task.models
    variants = {name: given}
    if isinstance(given, Mapping):
        variants = {str(key): model for key, model in given.items()}
    found: list[tuple[str, str]] = []
    for index, (variant, model) in enumerate(variants.items()):
        file = f"{index}-{variant}"
        if task.dims:
            model = read(model, inputs=task.inputs, dims=task.dims)
            path = os.path.join(folder, f"{index}.onnx")
            # Engines run random weights; forecasts need none.
            _vitempo.write_model(model, path, 0 if is_live else None)
        else:
            path = model_file(model, folder, inputs=task.inputs, name=file)
        found.append((variant, path))
    return found


def _quoted(text: str) -> str:
    """A string of TOML."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _stitching(of: Mapping[str, Any]) -> Stitching:
    orders = [
        StitchedOrder(row["order"], row["violations"], _ms(row["mean_latency_ns"]))
        for row in of["orders"]
    ]
    return Stitching(
        of["order"],
        [_task(row) for row in of["tasks"]],
        of["violations"],
        of["mean_latency_ns"] / 1e6,
        of["bottleneck_ns"] / 1e6,
        orders,
        of["search"]["is_complete"],
        json.dumps(of),
    )


def _task(row: Mapping[str, Any]) -> StitchedTask:
    latency, slo = row["latency_ns"], row["slo"]
    return StitchedTask(
        row["task"],
        row["variants"],
        row["accuracy"],
        None if latency is None else latency_of(latency),
        slo["accuracy"],
        slo["latency_ns"] / 1e6,
        row["slo_met"],
        row["fetched"] or [],
        row["cuts"] or [],
    )


def _ms(ns: Optional[float]) -> Optional[float]:
    return None if ns is None else ns / 1e6
