"""Measures models on the devices of a cluster, in batches."""

from __future__ import annotations

import glob
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Optional, Union

import vitempo

from .. import _program
from .._dataset import Dataset
from ..errors import ClusterError, VitempoError
from ._folders import packed, unpack
from ._run import DEVICE, STOP, Failure, Part, Progress, Settings, run
from ._shared import scratch
from ._store import Store

Path_ = Union[str, "os.PathLike[str]"]
Model = tuple[str, bytes]

# Datasets that one command merges.
AT_ONCE = 100


@dataclass(frozen=True)
class Device:
    """A device of a campaign: the Ray resource `device:NAME` of the node that it is, or that it is
    connected to.

    Attributes:
        name: Its name.
        backend: The inference engine: `rten`, `onnxruntime`, `litert`, ...
        remote: The command that starts an agent on the device, from the node; None where the node
            itself is the device.
        threads: Threads that compute inside one operator.
        precision: `f32`, `bf16`, `f16` or `int8`.
        options: More of the options of `vitempo profile`.
    """

    name: str
    backend: str = "rten"
    remote: Optional[str] = None
    threads: int = 1
    precision: str = "f32"
    options: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, of: Mapping[str, Any]) -> Device:
        """Of a table of a file of devices.

        Raises:
            ClusterError: It has a field that is none, or of another type.
        """
        kinds = {"backend": str, "remote": str, "threads": int, "precision": str, "options": list}
        for field, value in of.items():
            if not isinstance(value, kinds.get(field, ())):
                raise ClusterError(
                    f"device {name}: field `{field}` is {value!r}",
                    hint="fields are " + ", ".join(f"{k} ({v.__name__})" for k, v in kinds.items()),
                )
        fields: dict[str, Any] = dict(of)
        fields["options"] = tuple(str(option) for option in of.get("options", ()))
        return cls(name, **fields)


@dataclass(frozen=True)
class CampaignResult:
    """What was measured.

    Attributes:
        dataset: The measurements of all devices; None where there are none, or where they are in a
            bucket.
        failed: Batches without measurements; the same call measures them.
    """

    dataset: Optional[Dataset]
    failed: list[Failure]


@dataclass(frozen=True)
class _Shared:
    rounds: int
    seed: int
    options: tuple[str, ...]


def campaign(
    models: Union[Path_, Sequence[Path_]],
    devices: Sequence[Device],
    out: Path_,
    *,
    batch: int = 20,
    rounds: int = 1,
    seed: int = 0,
    options: Sequence[str] = (),
    wait: float = 600.0,
    lake: Optional[Path_] = None,
    address: Optional[str] = None,
    on_error: str = STOP,
    progress: Progress = False,
) -> CampaignResult:
    """Measures models on devices of a cluster, a batch of models at a time on each.

    A batch whose node or device vanishes is measured again where the device is found next, and
    counts once. The same call goes on where an interrupted one stopped. Nodes need the program
    `vitempo`, and the driver too.

    Args:
        models: ONNX files, folders of them, or globs.
        devices: Where to measure: all models on each.
        out: The folder of the job; the dataset is `out/data` where there is no lake.
        batch: Models of a batch.
        rounds: How often each model is measured.
        seed: Of inputs, of missing weights, and of the order.
        options: More of the options of `vitempo profile`, for every device.
        wait: How long batches wait for a device that no node has, seconds.
        lake: A folder or `s3://BUCKET/PREFIX` that gets each batch when it is measured. Others may
            append to it too.
        address: Of the cluster: `HOST:PORT`, `auto`, `local`, or `here` for this process alone.
        on_error: `stop`, or `go-on`, which lists batches that failed.
        progress: True prints how many batches are done; a function is called with those done and
            all.

    Raises:
        ClusterError: A batch failed and `on_error` is `stop`; or the folder is of another job.
        ProgramNotFound: The driver has no program.
    """
    how = Settings(address, on_error, progress, wait)
    _program.program()
    files = _models(models)
    if not devices or len({device.name for device in devices}) < len(devices):
        raise ClusterError("devices: expected at least one, each with a name of its own")
    job = {
        "job": "campaign",
        "vitempo": vitempo.__version__,
        "models": [[name, hashlib.sha256(content).hexdigest()] for name, content in files],
        "devices": [asdict(device) for device in devices],
        "protocol": [batch, rounds, seed, list(options)],
    }
    parts = [part for device in devices for part in _batches(device, files, batch)]
    shared = _Shared(rounds, seed, tuple(options))
    with Store(out, job) as store:
        if lake is not None:
            return _into(os.fspath(lake), shared, parts, store, how)
        try:
            failed = run(_work, shared, parts, store, how)
        finally:
            dataset = _merged(store, [part for part in parts if store.has(part.key)])
    return CampaignResult(dataset, failed)


def _into(
    lake: str, shared: _Shared, parts: list[Part], store: Store, how: Settings
) -> CampaignResult:
    """Appends each batch to a lake when it is in the store; what the lake has counts once."""

    def append(part: Part) -> None:
        with tempfile.TemporaryDirectory(dir=store.folder) as folder:
            unpack(store.get(part.key), Path(folder))
            _program.printed(["dataset", "append", folder, "--to", lake])

    # An earlier driver may have been killed before it appended them.
    before = [part for part in parts if store.has(part.key)]
    for part in before:
        append(part)
    failed = run(_work, shared, parts, store, how, append)
    is_here = not lake.startswith("s3://") and any(store.has(part.key) for part in parts)
    return CampaignResult(Dataset(lake) if is_here else None, failed)


def _models(models: Union[Path_, Sequence[Path_]]) -> list[Model]:
    """Name and content of each file, by name."""
    given = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    files: dict[str, Path] = {}
    for path in (Path(found) for one in given for found in _found(os.fspath(one))):
        if files.setdefault(path.stem, path) != path:
            raise ClusterError(
                f"{path} and {files[path.stem]} have one name", hint="rename one of the files"
            )
    if not files:
        raise ClusterError(f"no ONNX file in {', '.join(str(one) for one in given)}")
    return [(name, path.read_bytes()) for name, path in sorted(files.items())]


def _found(text: str) -> list[str]:
    if os.path.isdir(text):
        return sorted(glob.glob(os.path.join(glob.escape(text), "*.onnx")))
    return sorted(glob.glob(text)) or [text]


def _batches(device: Device, files: list[Model], size: int) -> list[Part]:
    if size < 1:
        raise ValueError(f"batch {size}: expected at least 1")
    some = [files[at : at + size] for at in range(0, len(files), size)]
    # An engine of the node itself shares its cores with no other task.
    cpus = 0.0 if device.remote else 1.0
    return [
        Part(
            f"{device.name}-batch-{number}",
            (device, number, batch),
            cpus,
            {DEVICE + device.name: 1.0},
        )
        for number, batch in enumerate(some)
    ]


def _work(shared: _Shared, device: Device, number: int, models: list[Model]) -> bytes:
    """What a node does for a batch: its dataset."""
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        files = Path(folder) / "models"
        files.mkdir()
        for name, content in models:
            (files / f"{name}.onnx").write_bytes(content)
        data = Path(folder) / "data"
        arguments = ["profile", str(files), "--out", str(data), "--backend", device.backend]
        arguments += ["--threads", str(device.threads), "--precision", device.precision]
        arguments += ["--rounds", str(shared.rounds), "--seed", str(shared.seed)]
        arguments += ["--session", f"campaign-{device.name}-{number}"]
        if device.remote:
            arguments += ["--remote", device.remote]
        try:
            _program.run([*arguments, *shared.options, *device.options])
        except VitempoError as error:
            raise ClusterError(f"device {device.name}: {error.message}", hint=error.hint) from error
        return packed(data)


def _merged(store: Store, parts: list[Part]) -> Optional[Dataset]:
    """One dataset of all batches, in the place of an earlier one."""
    final = store.folder / "data"
    if not parts:
        return None
    with tempfile.TemporaryDirectory(dir=store.folder) as name:
        folder = Path(name)
        batches: list[str] = []
        for number, part in enumerate(parts):
            unpack(store.get(part.key), folder / f"batch-{number}")
            batches.append(str(folder / f"batch-{number}"))
        whole = 0
        while len(batches) > 1 or whole == 0:
            some, batches = batches[:AT_ONCE], batches[AT_ONCE:]
            merged = str(folder / f"merged-{whole}")
            _program.printed(["dataset", "merge", *some, "--out", merged])
            batches.append(merged)
            whole += 1
        if final.exists():
            os.rename(final, folder / "before")
        os.rename(batches[0], final)
        shutil.rmtree(folder / "before", ignore_errors=True)
    return Dataset(final)
