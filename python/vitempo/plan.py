"""Plans: where each operator of a model runs, and which of several models runs where. Costs are the
forecasts of bundles."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _numbers, _vitempo
from ._latency import Latency, latency_of
from ._open import Named, opened, several
from ._placing import PlacedTask, PlacedWay, Placing, Task, place
from ._stitching import StitchedOrder, StitchedTask, Stitching, stitch
from ._vitempo import read
from .errors import InvalidArgument, PlanError

__all__ = [
    "PlacedTask",
    "PlacedWay",
    "Placing",
    "Plan",
    "Stage",
    "StitchedOrder",
    "StitchedTask",
    "Stitching",
    "Task",
    "Transfer",
    "multitask",
    "pipeline",
    "place",
    "split",
    "stitch",
]

CRITERIA = ("latency", "device_energy", "device_memory", "bytes_sent", "server_memory")


@dataclass(frozen=True)
class Stage:
    """Nodes that run on one processor, one after the other, and the bytes of their weights."""

    processor: str
    nodes: list[str]
    latency: Latency
    memory_bytes: int


@dataclass(frozen=True)
class Transfer:
    """Tensors that one processor sends to another."""

    sender: str
    receiver: str
    tensors: list[str]
    size_bytes: int
    latency: Latency


@dataclass(frozen=True)
class Plan:
    """Where each part of a model runs.

    Attributes:
        model: Name of the model.
        stages: In the order in which a frame passes them.
        transfers: What is sent between stages.
        latency: From the input of a frame to its results.
        period: Between the results of two frames, where frames overlap.
        gap: No plan in the cost model is better by more than this share; 0 where that is proven.
    """

    model: str
    stages: list[Stage]
    transfers: list[Transfer]
    latency: Latency
    period: Optional[Latency]
    gap: float
    _json: str
    _text: str

    def to_dict(self) -> dict[str, Any]:
        """All fields as vitempo's JSON has them; ns, nJ, bytes."""
        found: dict[str, Any] = json.loads(self._json)
        return found

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        parts = " -> ".join(f"{s.processor}: {len(s.nodes)} nodes" for s in self.stages)
        return f"Plan({self.model}: {parts}, {self.latency.ms:.3g} ms)"


def split(
    model: Any,
    device: Named,
    server: Named,
    *,
    bandwidth: float,
    round_trip: float = 0.0,
    active_power: float = 0.0,
    idle_power: float = 0.0,
    transmit_power: float = 0.0,
    minimise: str = "latency",
    max_latency: Optional[float] = None,
    max_energy: Optional[float] = None,
    max_memory: Optional[int] = None,
    confine: Union[str, Sequence[str]] = (),
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
) -> Plan:
    """The best division of a model between a device and a server.

    Args:
        model: As for `Bundle.predict`, one model.
        device: Bundle of the device.
        server: Bundle of the server.
        bandwidth: Of the link, in both directions, Mbit/s.
        round_trip: Once per inference that uses the server, ms.
        active_power: What the device draws while it computes, W.
        idle_power: While it waits, W.
        transmit_power: While it sends, W.
        minimise: `latency`, `device_energy`, `device_memory`, `bytes_sent` or `server_memory`.
        max_latency: Bound, ms.
        max_energy: Bound on the energy of the device, mJ.
        max_memory: Bound on the memory that the device's engine takes, with the activations of
            the whole model; of engines whose memory is not known, on the weights; bytes.
        confine: A tensor, or several, by names, that may not leave the device.

    Raises:
        PlanError: No split is within the bounds, or a number is not in its range.
    """
    if minimise not in CRITERIA:
        raise InvalidArgument(f"minimise {minimise!r}: expected one of {', '.join(CRITERIA)}")
    options = {
        "bytes_per_s": _bytes_per_s(bandwidth),
        "round_trip_ns": _nano("round_trip", round_trip, "ms"),
        "transmit_w": _numbers.number("transmit_power", transmit_power, "W", error=PlanError),
        "active_w": _numbers.number("active_power", active_power, "W", error=PlanError),
        "idle_w": _numbers.number("idle_power", idle_power, "W", error=PlanError),
        "minimise": minimise,
        "latency_ns": _optional_nano("max_latency", max_latency, "ms"),
        "device_energy_nj": _optional_nano("max_energy", max_energy, "mJ"),
        "device_memory_bytes": None
        if max_memory is None
        else _numbers.count("max_memory", max_memory, "bytes", error=PlanError),
        "confined": several(confine),
    }
    graph = read(model, inputs=inputs, dims=dims)
    found = _vitempo.plan_split(graph, opened(device), opened(server), json.dumps(options))
    return _plan(*found)


def pipeline(
    model: Any,
    processors: Mapping[str, Named],
    *,
    bandwidth: float,
    hand_over: float = 0.0,
    minimise: str = "period",
    max_latency: Optional[float] = None,
    max_period: Optional[float] = None,
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
) -> Plan:
    """The best pipeline of a model over processors that work on different frames.

    Args:
        model: As for `Bundle.predict`, one model.
        processors: Names of processors and their bundles; inputs arrive at the first.
        bandwidth: Between any two processors, Mbit/s.
        hand_over: Fixed time of each transfer of a tensor, ms.
        minimise: `period` or `latency`.
        max_latency: Bound where the period is minimised, ms.
        max_period: Bound where the latency is minimised, ms.

    Raises:
        PlanError: No pipeline is within the bounds, or a number is not in its range.
    """
    options = {
        "bytes_per_s": _bytes_per_s(bandwidth),
        "message_ns": _nano("hand_over", hand_over, "ms"),
        "minimise": minimise,
        "latency_ns": _optional_nano("max_latency", max_latency, "ms"),
        "period_ns": _optional_nano("max_period", max_period, "ms"),
    }
    named = [(name, opened(bundle)) for name, bundle in processors.items()]
    graph = read(model, inputs=inputs, dims=dims)
    return _plan(*_vitempo.plan_pipeline(graph, named, json.dumps(options)))


def multitask(
    model: Any,
    processors: Mapping[str, Named],
    *,
    bandwidth: Optional[float] = None,
    hand_over: float = 0.0,
    encoder: Optional[str] = None,
    postprocessing: Optional[str] = None,
    inputs: Optional[Any] = None,
    dims: Optional[dict[str, int]] = None,
) -> Plan:
    """The placement of a model with several outputs that has the shortest period: its encoder, and
    the decoder of each output, each whole on one processor. Stages are these parts.

    Args:
        model: As for `Bundle.predict`, one model with several outputs.
        processors: Names of processors and their bundles.
        bandwidth: Between any two processors, Mbit/s; without it only `hand_over` counts.
        hand_over: Fixed time of each transfer, ms.
        encoder: Beginning of the names of nodes that are the encoder; by default the nodes that
            lead to several outputs.
        postprocessing: Beginning of the names of nodes that are postprocessing, a part of its own.

    Raises:
        PlanError: The model has no encoder and decoders, or a number is not in its range.
    """
    options = {
        "bytes_per_s": None if bandwidth is None else _bytes_per_s(bandwidth),
        "message_ns": _nano("hand_over", hand_over, "ms"),
        "encoder": encoder,
        "postprocessing": postprocessing,
    }
    named = [(name, opened(bundle)) for name, bundle in processors.items()]
    graph = read(model, inputs=inputs, dims=dims)
    return _plan(*_vitempo.plan_multitask(graph, named, json.dumps(options)))


def _nano(name: str, milli: float, unit: str) -> int:
    """Nano from milli: ns from ms, nJ from mJ."""
    return _numbers.scaled(name, milli, 1e6, unit, error=PlanError)


def _optional_nano(name: str, milli: Optional[float], unit: str) -> Optional[int]:
    return None if milli is None else _nano(name, milli, unit)


def _bytes_per_s(bandwidth: float) -> int:
    """From Mbit/s."""
    found = _numbers.scaled("bandwidth", bandwidth, 1e6 / 8, "Mbit/s", error=PlanError)
    if found == 0:
        raise PlanError(f"`bandwidth` is {bandwidth!r}, expected at least 8e-06 Mbit/s: 1 byte/s")
    return found


def _plan(text: str, table: str) -> Plan:
    of = json.loads(text)
    stages = [
        Stage(s["processor"], s["nodes"], latency_of(s["latency_ns"]), s["memory_bytes"])
        for s in of["stages"]
    ]
    transfers = [
        Transfer(t["from"], t["to"], t["tensors"], t["size_bytes"], latency_of(t["latency_ns"]))
        for t in of["transfers"]
    ]
    predicted = of["predicted"]
    period = predicted.get("period_ns")
    return Plan(
        of["model"],
        stages,
        transfers,
        latency_of(predicted["latency_ns"]),
        None if period is None else latency_of(period),
        of["optimal"]["gap"],
        text,
        table,
    )
