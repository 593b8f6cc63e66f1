"""The jobs as commands: `python -m vitempo.cluster JOB`. Exit code 1 where a part failed."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Optional

from .. import _command, _program
from .._printing import duration, finish, show, size_bytes, table, time_ms
from ..errors import ClusterError, VitempoError
from . import _adapt, _campaign, _score, _search, _train, _tune
from ._run import GO_ON, STOP, Failure
from ._shared import objective_named

# Rows of a front that are printed; the files have all.
SHOWN = 10


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs a job; its exit code: 0, or 1 where the input is wrong or a part failed."""
    given = _parser().parse_args(arguments)
    try:
        failed: list[Failure] = given.run(given)
    except VitempoError as error:
        return _command.refuse(error)
    except ValueError as error:
        return _command.refuse(VitempoError(str(error)))
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 1
    for failure in failed:
        print(f"failed: {failure}", file=sys.stderr)
    if failed:
        print("hint: the same command does these parts again", file=sys.stderr)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = _command.Parser(
        prog="python -m vitempo.cluster",
        description="Jobs on a Ray cluster. The same command goes on where one was interrupted.",
    )
    jobs = parser.add_subparsers(
        title="jobs", metavar="JOB", required=True, parser_class=_command.Parser
    )
    for name, add, about in (
        ("score", _add_score, "the best of a space, or of files of encodings"),
        ("search", _add_search, "evolution in several populations"),
        ("campaign", _add_campaign, "measures models on devices"),
        ("train", _add_train, "a bundle for each environment of a dataset"),
        ("tune", _add_tune, "hyper-parameters by held-out error, and bundles with the best"),
        ("adapt", _add_adapt, "a bundle for each of many devices, from a few latencies"),
    ):
        job = jobs.add_parser(name, help=about)
        add(job)
        job.add_argument("--out", required=True, metavar="FOLDER", help="of the job")
        job.add_argument(
            "--address",
            metavar="ADDRESS",
            help="of the cluster: HOST:PORT, auto, local (started for the job), or here (no Ray)",
        )
        job.add_argument("--on-error", choices=(STOP, GO_ON), default=STOP)
        job.add_argument("--quiet", action="store_true", help="print no progress")
    return parser


def _how(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "address": given.address,
        "on_error": given.on_error,
        "progress": not given.quiet,
    }


def _add_space(job: argparse.ArgumentParser) -> None:
    job.add_argument("--space", default="hybrid-vit", help="name, or TOML file")
    job.add_argument("--bundle", action="append", required=True, metavar="NAME")
    job.add_argument("--max-latency", action="append", metavar="TIME", help="e.g. 20ms")
    job.add_argument("--max-memory", action="append", metavar="SIZE", help="e.g. 40MB")
    job.add_argument("--upper", action="store_true", help="the interval's upper end counts")
    job.add_argument("--objective", default="flops", help="flops, parameters, or MODULE:NAME")
    job.add_argument("--actors", type=int, default=0, help="that the objective lives in")
    job.add_argument("--actor-options", default="{}", metavar="JSON", help='e.g. {"num_gpus": 1}')


def _of_space(given: argparse.Namespace) -> dict[str, Any]:
    ceilings = [time_ms(text) for text in given.max_latency or ()]
    return {
        "objective": objective_named(given.objective),
        "ceilings": ceilings or None,
        "memory_ceilings": [size_bytes(text) for text in given.max_memory or ()],
        "upper": given.upper,
        "actors": given.actors,
        "resources": _json(given.actor_options, "--actor-options"),
        **_how(given),
    }


def _json(text: str, of: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ClusterError(f"{of}: {error}", hint='expected JSON, e.g. {"num_gpus": 1}') from error
    if not isinstance(found, dict):
        raise ClusterError(f"{of}: expected a JSON object")
    return found  # pyright: ignore[reportUnknownVariableType]


def _add_score(job: argparse.ArgumentParser) -> None:
    _add_space(job)
    job.add_argument("--file", action="append", default=[], help="CSV of encodings, for a range")
    job.add_argument("--first", type=int, default=0, help="number of the first architecture")
    job.add_argument("--count", type=int, help="how many")
    job.add_argument("--part", type=int, default=100_000, help="architectures of a part")
    job.add_argument("--top", type=int, default=100, help="most in the list of the best")
    finish(job, _run_score)


def _run_score(given: argparse.Namespace) -> list[Failure]:
    found = _score.score(
        given.space,
        given.bundle,
        given.out,
        files=given.file,
        first=given.first,
        count=given.count,
        part=given.part,
        top=given.top,
        **_of_space(given),
    )
    for row in found.rejected:
        print(f"warning: left out: {row}", file=sys.stderr)
    value = {
        "candidates": found.candidates,
        "within": found.within,
        "rejected": len(found.rejected),
        "front": len(found.front),
    }
    text = f"{found.candidates} architectures, {found.within} within the ceilings\n"
    show(given, value, text + _members(found.front))
    return found.failed


def _members(members: Sequence[_score.Ranked]) -> str:
    rows = [
        (of.encoding, f"{of.score:.6g}", *(duration(latency.ms) for latency in of.latencies))
        for of in members[:SHOWN]
    ]
    latencies = ["Latency"] * (len(rows[0]) - 2 if rows else 0)
    more = f"\nand {len(members) - SHOWN} more in front.csv" if len(members) > SHOWN else ""
    return table(("Encoding", "Score", *latencies), rows) + more


def _add_search(job: argparse.ArgumentParser) -> None:
    _add_space(job)
    job.add_argument("--populations", type=int, default=4)
    job.add_argument("--candidates", type=int, default=100_000)
    job.add_argument("--population", type=int, default=100, help="architectures in a generation")
    job.add_argument("--seed", type=int, default=0)
    finish(job, _run_search)


def _run_search(given: argparse.Namespace) -> list[Failure]:
    found = _search.search(
        given.space,
        given.bundle,
        given.out,
        populations=given.populations,
        candidates=given.candidates,
        population=given.population,
        seed=given.seed,
        **_of_space(given),
    )
    value = {"candidates": found.candidates, "front": len(found.front)}
    show(given, value, f"{found.candidates} architectures\n" + _members(found.front))
    return found.failed


def _add_campaign(job: argparse.ArgumentParser) -> None:
    job.add_argument("models", nargs="+", metavar="MODELS", help="ONNX files, folders, globs")
    job.add_argument("--devices", required=True, metavar="FILE.json", help="by name")
    job.add_argument("--batch", type=int, default=20, help="models of a batch")
    job.add_argument("--rounds", type=int, default=1)
    job.add_argument("--seed", type=int, default=0)
    job.add_argument("--wait", type=float, default=600.0, help="for devices that vanished, s")
    job.add_argument("--option", action="append", default=[], help="of `vitempo profile`")
    job.add_argument("--lake", metavar="LAKE", help="gets each batch: a folder, or s3://BUCKET/...")
    finish(job, _run_campaign)


def _run_campaign(given: argparse.Namespace) -> list[Failure]:
    try:
        text = Path(given.devices).read_text()
    except OSError as error:
        raise ClusterError(f"{given.devices}: {error.strerror}") from error
    named = _json(text, given.devices)
    devices = [_campaign.Device.of(name, of) for name, of in named.items()]
    found = _campaign.campaign(
        given.models,
        devices,
        given.out,
        batch=given.batch,
        rounds=given.rounds,
        seed=given.seed,
        wait=given.wait,
        options=given.option,
        lake=given.lake,
        **_how(given),
    )
    if given.lake:
        runs = _program.run(["dataset", "inspect", given.lake])["runs"]
    else:
        runs = 0 if found.dataset is None else found.dataset.inspect()["runs"]
    show(given, {"runs": runs}, f"{runs} runs of models in {given.lake or f'{given.out}/data'}")
    return found.failed


def _add_dataset(job: argparse.ArgumentParser) -> None:
    job.add_argument("data", metavar="FOLDER", help="dataset, or a lake in a bucket")
    job.add_argument("--environment", action="append", metavar="ID", help="all by default")
    job.add_argument("--seed", type=int, default=1)
    job.add_argument("--level", type=float, default=0.9, help="of the intervals")


def _of_dataset(given: argparse.Namespace) -> dict[str, Any]:
    return {
        "environments": given.environment,
        "seed": given.seed,
        "level": given.level,
        **_how(given),
    }


def _add_train(job: argparse.ArgumentParser) -> None:
    _add_dataset(job)
    job.add_argument("--shares", type=int, default=1, help="tasks that fit an environment")
    job.add_argument("--method", default="gbdt")
    job.add_argument(
        "--max-rows", type=int, metavar="N", help="a sample of the architectures where there are more"
    )
    finish(job, _run_train)


def _run_train(given: argparse.Namespace) -> list[Failure]:
    found = _train.train(
        given.data,
        given.out,
        shares=given.shares,
        method=given.method,
        max_rows=given.max_rows,
        **_of_dataset(given),
    )
    rows = [(name, bundle.digest, bundle.location) for name, bundle in found.bundles.items()]
    value = [dict(zip(("environment", "digest", "file"), row)) for row in rows]
    show(given, value, table(("Environment", "Digest", "File"), rows))
    return found.failed


def _add_tune(job: argparse.ArgumentParser) -> None:
    _add_dataset(job)
    job.add_argument("--trials", type=int, default=20, help="settings for each environment")
    finish(job, _run_tune)


def _run_tune(given: argparse.Namespace) -> list[Failure]:
    found = _tune.tune(given.data, given.out, trials=given.trials, **_of_dataset(given))
    rows: list[tuple[str, ...]] = []
    value: list[dict[str, Any]] = []
    for name, tried in found.trials.items():
        if not tried:
            continue
        best, usual = tried[0], next((of.mape for of in tried if not of.boosting), None)
        found_of = (name, best.boosting, best.mape, usual)
        keys = ("environment", "boosting", "held_out_mape", "usual_held_out_mape")
        value.append(dict(zip(keys, found_of)))
        before = "" if usual is None else f"{usual:.2f} %"
        rows.append((name, best.boosting or "usual", f"{best.mape:.2f} %", before))
    headings = ("Environment", "Best of the settings", "Held out", "Usual setting")
    show(given, value, table(headings, rows))
    return found.failed


def _add_adapt(job: argparse.ArgumentParser) -> None:
    job.add_argument("--measured", required=True, metavar="FOLDER", help="CSV files of devices")
    job.add_argument("--models", required=True, metavar="FOLDER", help="ONNX files")
    job.add_argument("--from", action="append", default=[], metavar="BUNDLE", dest="sources")
    job.add_argument("--options", default="{}", metavar="JSON", help='e.g. {"framework": "tflite"}')
    finish(job, _run_adapt)


def _run_adapt(given: argparse.Namespace) -> list[Failure]:
    found = _adapt.adapt(
        given.measured,
        given.models,
        given.out,
        sources=given.sources,
        options=_json(given.options, "--options"),
        **_how(given),
    )
    rows = [
        (name, str(of.measured), "" if of.mape is None else f"{of.mape:.1f} %", str(of.inside))
        for name, of in found.devices.items()
    ]
    value = [dict(zip(("device", "measured", "mape", "inside"), row)) for row in rows]
    show(given, value, table(("Device", "Models", "From the others", "Inside"), rows))
    return found.failed
