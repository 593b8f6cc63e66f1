"""Forecasts of one model, narrowed by measuring: for the program, as `_program` is."""

# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from ._files import bundle_argument, dim_arguments, read_file
from ._latency import Latency, latency_of
from ._open import Named, opened, written
from ._program import Path, Progress, run
from ._vitempo import Bundle

Time = Union[float, str]


@dataclass(frozen=True)
class RefinedKernel:
    """Kernels of a model that are equal, and what measuring them brings.

    Attributes:
        node: Name of the first node that becomes one.
        kind: Its kind of operator.
        count: How many are equal.
        ms: Time of all of them by the forecast.
        share_of_time: Share of the model's time.
        share_of_width: Share of the width of the model's interval.
        trained: Whether a predictor forecasts it.
        extrapolating: Whether it is outside of the training data.
        cost_s: Time that measuring it takes, s.
        chosen: Whether it is measured within the time given.
        with_another: Whether a network that is measured for another kernel has it too.
    """

    node: str
    kind: str
    count: int
    ms: float
    share_of_time: float
    share_of_width: float
    trained: bool
    extrapolating: bool
    cost_s: float
    chosen: bool
    with_another: bool


@dataclass(frozen=True)
class RefinePlan:
    """What would be measured for a model.

    Attributes:
        model: Its name.
        before: Its forecast.
        kernels: The kernels that bring most per second first.
        cost_s: Time that measuring the chosen ones takes, s.
        covered: Share of the interval's width that they bring.
        out_of_reach: Share of the width of kernels that cannot be measured alone.
    """

    model: str
    before: Latency
    kernels: list[RefinedKernel]
    cost_s: float
    covered: float
    out_of_reach: float

    @property
    def chosen(self) -> list[RefinedKernel]:
        """The kernels that are measured."""
        return [kernel for kernel in self.kernels if kernel.chosen]

    def __str__(self) -> str:
        lines = [f"{self.model}: {_spelled(self.before)}"]
        lines += [
            f"{kernel.node}: {kernel.share_of_width:.1%} of the width, {kernel.cost_s:.1f} s"
            for kernel in self.chosen
        ]
        lines.append(
            f"{self.cost_s:.0f} s of measuring: {self.covered:.1%} of the interval's width; "
            f"{self.out_of_reach:.1%} is out of reach"
        )
        return "\n".join(lines)


@dataclass(frozen=True)
class Refinement:
    """A bundle that is corrected for the kernels of a model.

    Attributes:
        bundle: The corrected bundle.
        plan: What was measured, and the forecast before.
        after: The forecast of the model by the corrected bundle.
        kernels: How many kernels are corrected.
        networks: How many networks these were measured in.
        seconds: Time that measuring took, s; 0 where everything was measured before.
        failed: Networks that could not be measured, and why.
        data: Folder of the measurements, a `Dataset`.
    """

    bundle: Bundle
    plan: RefinePlan
    after: Latency
    kernels: int
    networks: int
    seconds: float
    failed: dict[str, str]
    data: str

    @property
    def before(self) -> Latency:
        """The forecast of the model by the bundle that was refined."""
        return self.plan.before

    def __str__(self) -> str:
        return (
            f"{self.plan.model}\nbefore  {_spelled(self.before)}\nafter   {_spelled(self.after)}\n"
            f"{self.kernels} kernels corrected by {self.networks} networks, measured in "
            f"{self.seconds:.0f} s"
        )


def refine_plan(
    bundle: Named,
    model: Any,
    *,
    within: Time = 60.0,
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> RefinePlan:
    """What `refine` would measure, and what it would cost; measures nothing.

    Args:
        bundle: A trained bundle, its name, or its path.
        model: As for `Bundle.predict`, one model.
        within: Time for measuring, s, or a text like `2m`.
        inputs: Example inputs of a torch module, or the shape of its input.
        dims: Extents of symbolic dimensions.
        options: More of the command's options, as on its command line.
        progress: True shows what the program says; a function gets each line.

    Raises:
        InvalidModel: The model cannot be read.
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed: its message and hint.
    """
    device = opened(bundle)
    with tempfile.TemporaryDirectory() as folder:
        asked = _asked(device, model, within, folder, inputs, dims)
        return _plan(run([*asked, "--list", *options], progress))


def refine(
    bundle: Named,
    model: Any,
    *,
    out: Path,
    within: Time = 60.0,
    data: Optional[Path] = None,
    cores: Sequence[int] = (),
    anywhere: bool = False,
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> Refinement:
    """Measures the kernels that the forecast of one model is least sure of, by `vitempo refine`,
    and writes a bundle that is corrected by them. Nothing else should run meanwhile. The same call
    goes on where an interrupted one stopped.

    Args:
        bundle: A trained bundle, its name, or its path; this machine and the engine have to be
            those of its environment.
        model: As for `Bundle.predict`, one model.
        out: The bundle to write, `NAME.vtb`.
        within: Time for measuring, s, or a text like `2m`; kernels that bring most per second come
            first.
        data: Folder of the measurements; by default that of `out` with `-data`.
        cores: Logical cores to measure on; by default the last ones.
        anywhere: Measure though machine or engine are not those of the bundle.
        inputs: Example inputs of a torch module, or the shape of its input.
        dims: Extents of symbolic dimensions.
        options: More of the command's options, as on its command line.
        progress: True shows the program's bars; a function gets each line that it prints.

    Raises:
        InvalidModel: The model cannot be read.
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed: its message and hint.
    """
    device = opened(bundle)
    path = os.fspath(out)
    stem = os.path.splitext(path)[0]
    measured = f"{stem}-data" if data is None else os.fspath(data)
    with tempfile.TemporaryDirectory() as folder:
        asked = _asked(device, model, within, folder, inputs, dims)
        asked += ["--out", path, "--data", measured]
        if cores:
            asked += ["--cores", ",".join(str(core) for core in cores)]
        if anywhere:
            asked.append("--anywhere")
        found = run([*asked, *options], progress)
    return Refinement(
        written(path),
        _plan(found),
        latency_of(found["after"]),
        found["corrected_kernels"],
        found["networks"],
        float(found["seconds"]),
        dict(found["failed"]),
        measured,
    )


def _asked(
    bundle: Bundle,
    model: Any,
    within: Time,
    folder: str,
    inputs: Optional[Any],
    dims: Optional[dict[str, int]],
) -> list[str]:
    path = read_file(model, folder, inputs, dims)
    time = within if isinstance(within, str) else f"{within:f}"
    arguments = ["refine", path, "--bundle", bundle_argument(bundle), "--within", time]
    return arguments + dim_arguments(dims)


def _plan(found: Mapping[str, Any]) -> RefinePlan:
    return RefinePlan(
        found["model"],
        latency_of(found["before"]),
        [_kernel(kernel) for kernel in found["kernels"]],
        found["cost_s"],
        found["covered"],
        found["out_of_reach"],
    )


def _kernel(of: Mapping[str, Any]) -> RefinedKernel:
    return RefinedKernel(
        of["node"],
        of["kind"],
        of["count"],
        of["latency_ns"] / 1e6,
        of["share_of_time"],
        of["share_of_width"],
        of["trained"],
        of["extrapolating"],
        of["cost_s"],
        of["chosen"],
        of["with_another"],
    )


def _spelled(of: Latency) -> str:
    wide = (of.upper - of.lower) / of.ms if of.ms else 0.0
    return f"{of.ms:.3g} ms [{of.lower:.3g} .. {of.upper:.3g} ms], {wide:.1%} wide"
