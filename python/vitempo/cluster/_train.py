"""Trains the predictors of many environments, the regressors of each in shares.

A share is some of the regressors of an environment: each is of one operator class, one memory
format and one fold. The last step of an environment takes all shares, and makes the bundle.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Optional, Union

import vitempo

from .. import _program
from .._dataset import Dataset
from .._vitempo import Bundle
from ..errors import ClusterError
from ._folders import Data, LakeAtAddress, chosen
from ._run import STOP, Failure, Part, Progress, Settings, run
from ._shared import scratch
from ._store import Store


@dataclass(frozen=True)
class TrainResult:
    """What was trained.

    Attributes:
        bundles: By environment; their files are in the folder of the job.
        failed: Environments without a bundle.
    """

    bundles: dict[str, Bundle]
    failed: list[Failure]


@dataclass(frozen=True)
class Training:
    """What training on a node needs: the dataset, and options of the program."""

    data: Data
    options: tuple[str, ...]

    def arguments(self, environment: str, out: Path, *more: str) -> list[str]:
        """Of the program, to train an environment."""
        data = str(self.data.path())
        to = ["--environment", environment, "--out", str(out)]
        return ["train", data, *to, *self.options, *more]

    def bundle(self, environment: str, *more: str) -> tuple[Any, bytes]:
        """Trains a bundle: what the program says of it, and the file."""
        with tempfile.TemporaryDirectory(dir=scratch()) as folder:
            # The name of the file is no part of the bundle.
            out = Path(folder) / "trained.vtb"
            said = _program.run(self.arguments(environment, out, *more))
            return said, out.read_bytes()


def train(
    dataset: Union[Dataset, str, os.PathLike[str]],
    out: Union[str, os.PathLike[str]],
    *,
    environments: Optional[Sequence[str]] = None,
    shares: int = 1,
    method: str = "gbdt",
    max_rows: Optional[int] = None,
    seed: int = 1,
    level: float = 0.9,
    address: Optional[str] = None,
    on_error: str = STOP,
    progress: Progress = False,
) -> TrainResult:
    """Trains a bundle for each environment of a dataset, each by several tasks.

    A bundle has the bytes that `vitempo train` makes on one machine. The same call goes on where an
    interrupted one stopped. Nodes need the program `vitempo`.

    Args:
        dataset: A dataset, or its folder, which goes to each node once; or a lake at
            `s3://BUCKET/PREFIX`, which nodes read where it is.
        out: The folder of the job; bundles are `out/ENVIRONMENT.vtb`.
        environments: Some of `Dataset.environments`; all of them if left out.
        shares: Tasks that fit the regressors of an environment; a further one makes the bundle.
            With 1 there is a single task for each environment: enough where there are many.
        method: `gbdt`, `random-forest` or `lasso`.
        max_rows: Where an environment has more rows of operators, it is trained on a sample of its
            architectures that has at most as many.
        seed: The same data and seed give the same bundle, byte for byte.
        level: Level of the intervals, between 0 and 1.
        address: Of the cluster: `HOST:PORT`, `auto`, `local`, or `here` for this process alone.
        on_error: `stop`, or `go-on`, which lists environments that failed.
        progress: True prints how many are done; a function is called with those done and all.

    Raises:
        ClusterError: An environment failed and `on_error` is `stop`; or the folder is of another
            job.
    """
    how = Settings(address, on_error, progress)
    if shares < 1:
        raise ValueError(f"shares {shares}: expected at least 1")
    data, names = chosen(dataset, environments)
    options = ("--method", method, "--seed", str(seed), "--level", repr(level), *_sample(max_rows))
    job = {
        "job": "train",
        "vitempo": vitempo.__version__,
        "data": data.digest,
        "environments": names,
        "shares": shares,
        "options": list(options),
    }
    wholes = [Part(f"{file_name(name)}.vtb", (name,)) for name in names]
    pieces = {name: _shares(name, shares) for name in names if shares > 1}
    with Store(out, job) as store:
        left = [
            piece
            for name, whole in zip(names, wholes)
            for piece in pieces.get(name, [])
            if not store.has(whole.key)
        ]
        shared = Training(data, options)
        run(_fit, shared, left, store, how)
        # A share that failed is fitted in the last step of its environment.
        last = [
            replace(whole, arguments=(name, _kept(store, pieces.get(name, []))))
            for name, whole in zip(names, wholes)
        ]
        failed = run(_bundle, shared, last, store, how)
        unchanged(data)
        return TrainResult(finished(store, wholes), failed)


def unchanged(data: Data) -> None:
    """A lake has the files that it had when the job began.

    Raises:
        ClusterError: It grew.
    """
    if isinstance(data, LakeAtAddress):
        data.check()


def _sample(max_rows: Optional[int]) -> tuple[str, ...]:
    return () if max_rows is None else ("--max-rows", str(max_rows))


def finished(store: Store, wholes: Sequence[Part]) -> dict[str, Bundle]:
    """The bundles that are done, by environment, which is the first argument of their parts."""
    return {
        part.arguments[0]: Bundle.load(store.finish(part.key, store.get(part.key)))
        for part in wholes
        if store.has(part.key)
    }


def _shares(environment: str, count: int) -> list[Part]:
    return [
        Part(f"{file_name(environment)}-share-{n}-of-{count}", (environment, f"{n}/{count}"))
        for n in range(1, count + 1)
    ]


def file_name(environment: str) -> str:
    """Of the environment's parts."""
    return re.sub(r"[^\w.+-]", "_", environment)


def _kept(store: Store, pieces: list[Part]) -> list[bytes]:
    return [store.get(piece.key) for piece in pieces if store.has(piece.key)]


def _fit(shared: Training, environment: str, share: str) -> bytes:
    """What a node does for a share: its regressors."""
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        out = Path(folder) / "share.fitted"
        _program.printed(shared.arguments(environment, out, "--share", share))
        return out.read_bytes()


def _bundle(shared: Training, environment: str, fitted: list[bytes]) -> bytes:
    """What a node does for the bundle of an environment."""
    with tempfile.TemporaryDirectory(dir=scratch()) as folder:
        files: list[str] = []
        for number, content in enumerate(fitted):
            file = Path(folder) / f"{number}.fitted"
            file.write_bytes(content)
            files += ["--fitted", str(file)]
        return shared.bundle(environment, *files)[1]
