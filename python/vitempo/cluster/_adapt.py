"""Adapts to many devices from a few latencies of each, and judges each by leaving models out."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

import vitempo

from .. import _adapt
from .._open import Named
from .._vitempo import Bundle
from ..errors import ClusterError
from ._folders import SentFolder
from ._run import STOP, Failure, Part, Progress, Settings, run
from ._shared import SentBundle, scratch, sent_bundles
from ._store import Store, to_json


@dataclass(frozen=True)
class AdaptedDevice:
    """A device and how well it is forecast.

    Attributes:
        bundle: Forecasts any model on it.
        mape: Mean absolute percentage error of each measured model forecast from the others,
            percent; None where a single one was measured.
        inside: How many of these latencies are in their interval.
        measured: How many models were measured.
    """

    bundle: Bundle
    mape: Optional[float]
    inside: Optional[int]
    measured: int


@dataclass(frozen=True)
class AdaptResult:
    """What was adapted.

    Attributes:
        devices: By name; their bundles are in the folder of the job.
        failed: Devices without a bundle.
    """

    devices: dict[str, AdaptedDevice]
    failed: list[Failure]


@dataclass(frozen=True)
class _Shared:
    models: SentFolder
    sources: list[SentBundle]
    options: Mapping[str, Any]


def adapt(
    latencies: Union[str, os.PathLike[str]],
    models: Union[str, os.PathLike[str]],
    out: Union[str, os.PathLike[str]],
    *,
    sources: Sequence[Named] = (),
    options: Optional[Mapping[str, Any]] = None,
    address: Optional[str] = None,
    on_error: str = STOP,
    progress: Progress = False,
) -> AdaptResult:
    """Adapts to many devices, each of them a task. A device is judged by forecasting each of its
    models from the other ones; a source of its own name is left out.

    Args:
        latencies: A folder of CSV files, one for each device, named by it, with the columns
            `model` and `latency_ms` (or `_s`, `_us`, `_ns`).
        models: A folder with the ONNX files of all measured models; weights may be absent.
        out: The folder of the job: `DEVICE.vtb`, `result.json`, and what is done so far.
        sources: Bundles of other devices, by name or path.
        options: Of `vitempo.adapt`, for every device: `processor`, `framework`, `threads`,
            `precision`, `source`.
        address: Of the cluster: `HOST:PORT`, `auto`, `local`, or `here` for this process alone.
        on_error: `stop`, or `go-on`, which lists devices that failed.
        progress: True prints how many are done; a function is called with those done and all.

    Raises:
        ClusterError: A device failed and `on_error` is `stop`; or the folder is of another job.
    """
    how = Settings(address, on_error, progress)
    files = sorted(Path(latencies).glob("*.csv"))
    if not files:
        raise ClusterError(f"no CSV file in {os.fspath(latencies)}")
    sent, bundles = SentFolder.of(models), sent_bundles(sources)
    job = {
        "job": "adapt",
        "vitempo": vitempo.__version__,
        "models": sent.digest,
        "sources": [[bundle.name, bundle.digest] for bundle in bundles],
        "latencies": [[file.name, file.read_text()] for file in files],
        "options": dict(options or {}),
    }
    parts = [Part(f"device-{file.stem}", (file.name, file.read_bytes())) for file in files]
    with Store(out, job) as store:
        shared = _Shared(sent, bundles, dict(options or {}))
        failed = run(_work, shared, parts, store, how)
        devices: dict[str, AdaptedDevice] = {}
        for file, part in zip(files, parts):
            if store.has(part.key):
                of, bundle = _divided(store.get(part.key))
                path = store.finish(f"{file.stem}.vtb", bundle)
                devices[file.stem] = AdaptedDevice(
                    Bundle.load(path), of["mape"], of["inside"], of["measured"]
                )
        store.finish("result.json", to_json({name: _plain(d) for name, d in devices.items()}))
    return AdaptResult(devices, failed)


def _plain(device: AdaptedDevice) -> dict[str, Any]:
    return {
        "digest": device.bundle.digest,
        "mape": device.mape,
        "inside": device.inside,
        "measured": device.measured,
    }


def _work(shared: _Shared, file: str, content: bytes) -> bytes:
    """What a node does for a device: what it is like, in a line, and then its bundle."""
    name = Path(file).stem
    sources = [source.load() for source in shared.sources if Path(source.name).stem != name]
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        measured = Path(folder) / file
        measured.write_bytes(content)
        out = Path(folder) / f"{name}.vtb"
        found = _adapt.adapt(
            measured, shared.models.path(), out=out, sources=sources, **shared.options
        )
        of = {"mape": found.mape, "inside": found.inside, "measured": len(found.measured)}
        return to_json(of) + out.read_bytes()


def _divided(result: bytes) -> tuple[dict[str, Any], bytes]:
    line, _, bundle = result.partition(b"\n")
    of: dict[str, Any] = json.loads(line)
    return of, bundle
