"""Searches hyper-parameters of boosted trees over held-out error, for many environments.

A part is one setting for one environment: the error of models that were held out in
cross-validation. The last step of an environment trains with the best one.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional, Union

import vitempo

from .._dataset import Dataset
from .._vitempo import Bundle
from ..errors import ClusterError
from ._folders import chosen
from ._run import STOP, Failure, Part, Progress, Settings, run
from ._store import Store, to_csv, to_json
from ._train import Training, file_name, finished, unchanged

# Values that are drawn from; the usual ones are among them. `vitempo train --boosting` explains
# the names.
GRID: dict[str, tuple[str, ...]] = {
    "trees": ("100", "200", "400", "800"),
    "leaves": ("7", "15", "31", "32", "63"),
    "learning_rate": ("0.0125", "0.025", "0.05", "0.1"),
    "rows_in_leaf": ("3", "5", "10", "20"),
    "l2": ("0", "0.5", "2", "8"),
    "columns": ("0.4", "0.7", "1"),
}
USUAL = ""


@dataclass(frozen=True)
class Trial:
    """A setting that was tried.

    Attributes:
        boosting: Its hyper-parameters, as `vitempo train --boosting` takes them; empty: the usual
            ones.
        mape: Mean error of held-out models end to end, per cent.
    """

    boosting: str
    mape: float


@dataclass(frozen=True)
class TuneResult:
    """What was found.

    Attributes:
        bundles: By environment, trained with the best setting.
        trials: By environment, the best first. The error of the best of many is a little too good.
        failed: Parts without a result.
    """

    bundles: dict[str, Bundle]
    trials: dict[str, list[Trial]]
    failed: list[Failure]


def tune(
    dataset: Union[Dataset, str, os.PathLike[str]],
    out: Union[str, os.PathLike[str]],
    *,
    environments: Optional[Sequence[str]] = None,
    trials: int = 20,
    seed: int = 1,
    level: float = 0.9,
    address: Optional[str] = None,
    on_error: str = STOP,
    progress: Progress = False,
) -> TuneResult:
    """Searches hyper-parameters of GBDT at random, and trains a bundle with the best ones.

    Settings are judged by the models that cross-validation held out, never by real models. The
    usual setting is always one of them. The same call goes on where an interrupted one stopped.
    Nodes need the program `vitempo`.

    Args:
        dataset: A dataset, or its folder, which goes to each node once; or a lake at
            `s3://BUCKET/PREFIX`, which nodes read where it is.
        out: The folder of the job: `ENVIRONMENT.vtb` and `trials.csv`.
        environments: Some of `Dataset.environments`; all of them if left out.
        trials: Settings for each environment, the same ones for all.
        seed: Of the draws, and of training.
        level: Level of the intervals, between 0 and 1.
        address: Of the cluster: `HOST:PORT`, `auto`, `local`, or `here` for this process alone.
        on_error: `stop`, or `go-on`, which lists settings that failed.
        progress: True prints how many are done; a function is called with those done and all.

    Raises:
        ClusterError: A part failed and `on_error` is `stop`; or the folder is of another job.
    """
    how = Settings(address, on_error, progress)
    settings = drawn(trials, seed)
    data, names = chosen(dataset, environments)
    options = ("--method", "gbdt", "--seed", str(seed), "--level", repr(level))
    job = {
        "job": "tune",
        "vitempo": vitempo.__version__,
        "data": data.digest,
        "environments": names,
        "settings": settings,
        "options": list(options),
    }
    shared = Training(data, options)
    parts = {
        name: [
            Part(f"{file_name(name)}-trial-{number}", (name, setting))
            for number, setting in enumerate(settings)
        ]
        for name in names
    }
    with Store(out, job) as store:
        failed = run(_judge, shared, [part for of in parts.values() for part in of], store, how)
        ranked = {name: _ranked(store, of) for name, of in parts.items()}
        last = [
            Part(f"{file_name(name)}.vtb", (name, tried[0].boosting))
            for name, tried in ranked.items()
            if tried
        ]
        failed += run(_bundle, shared, last, store, how)
        unchanged(data)
        store.finish("trials.csv", _table(ranked))
        return TuneResult(finished(store, last), ranked, failed)


def drawn(trials: int, seed: int) -> list[str]:
    """Different settings, the usual one first; the same ones with any version of Python.

    Raises:
        ValueError: There are not as many.
    """
    if not 1 <= trials <= 1000:
        raise ValueError(f"trials {trials}: expected 1 to 1000")
    found = {USUAL: None}
    draw = 0
    while len(found) < trials:
        values = {name: _drawn(of, draw, name, seed) for name, of in GRID.items()}
        found[",".join(f"{name}={value}" for name, value in values.items())] = None
        draw += 1
    return list(found)


def _drawn(values: Sequence[str], draw: int, name: str, seed: int) -> str:
    digest = hashlib.sha256(f"{seed}|{draw}|{name}".encode()).digest()
    return values[int.from_bytes(digest[:8], "big") % len(values)]


def _ranked(store: Store, parts: Sequence[Part]) -> list[Trial]:
    tried = [Trial(**json.loads(store.get(part.key))) for part in parts if store.has(part.key)]
    # Of equal ones the first, so that the usual setting is kept where no other is better.
    return sorted(tried, key=lambda trial: trial.mape)


def _table(ranked: dict[str, list[Trial]]) -> bytes:
    of = [(name, trial) for name, tried in ranked.items() for trial in tried]
    rows = [(name, trial.boosting, repr(trial.mape)) for name, trial in of]
    return to_csv([("environment", "boosting", "held_out_mape"), *rows])


def _options(boosting: str) -> tuple[str, ...]:
    return ("--boosting", boosting) if boosting else ()


def _judge(shared: Training, environment: str, boosting: str) -> bytes:
    """What a node does for a setting: its held-out error."""
    trained, _ = shared.bundle(environment, *_options(boosting))
    e2e = trained["held_out"]["e2e"]
    if e2e is None:
        raise ClusterError(
            f"{environment}: no whole model was held out",
            hint="hyper-parameters are judged by models that were measured end to end",
        )
    return to_json({"boosting": boosting, "mape": e2e["mape"]})


def _bundle(shared: Training, environment: str, boosting: str) -> bytes:
    """What a node does for the bundle of an environment."""
    return shared.bundle(environment, *_options(boosting))[1]
