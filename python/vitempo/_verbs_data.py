"""Verbs of the command `vitempo` on measurements: adaptation, evaluation, datasets."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ._printing import finish, show, table, whole
from .errors import VitempoError


def add_adapt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--measured", metavar="FILE", help="CSV: model, latency_ms")
    parser.add_argument("--models", nargs="+", required=True, help="ONNX files, or folders")
    parser.add_argument("--from", nargs="+", default=[], dest="sources", metavar="BUNDLE")
    parser.add_argument("--out", metavar="NAME.vtb")
    parser.add_argument("--suggest", type=whole(0), default=0, metavar="N")
    parser.add_argument("--name", help="of the device")
    parser.add_argument("--device", default="cpu", choices=("cpu", "gpu", "npu"))
    parser.add_argument("--framework", default="unknown")
    parser.add_argument("--threads", type=whole(1), default=1)
    parser.add_argument("--precision", default="f32", choices=("f32", "bf16", "f16", "int8"))
    parser.add_argument("--source", metavar="TEXT", help="publisher and licence")
    finish(parser, _run_adapt)


def _run_adapt(given: argparse.Namespace) -> None:
    from ._adapt import adapted

    if given.measured is None or given.out is None:
        return _run_first(given)
    of, found = adapted(
        given.measured,
        _files(given.models),
        out=given.out,
        sources=given.sources,
        name=given.name,
        processor=given.device,
        framework=given.framework,
        threads=given.threads,
        precision=given.precision,
        source=given.source,
        suggest=given.suggest,
    )
    for warning in of.warnings:
        print(f"warning: {given.measured}: {warning}", file=sys.stderr)
    measured = ("model", "latency_ns", "from_others_ns")
    value = {
        "bundle": given.out,
        "environment": found["environment"],
        "sources": of.sources,
        "left_out": found["left_out"],
        "warnings": of.warnings,
        "measured": [{name: row[name] for name in measured} for row in found["measured"]],
        "left_out_mape": of.mape,
        "left_out_inside": of.inside,
        "unconstrained": of.unconstrained,
        "suggested": of.suggested,
    }
    text = str(of)
    if of.suggested:
        text += f"\nhint: measure next: {', '.join(of.suggested)}"
    show(given, value, text)


def _run_first(given: argparse.Namespace) -> None:
    from ._adapt import firsts

    if given.measured is not None or given.out is not None or given.suggest < 1:
        raise VitempoError(
            "adapt needs --measured and --out, or --suggest alone",
            hint="--suggest 10 names ten models to measure first",
        )
    found = firsts(
        _files(given.models),
        given.suggest,
        sources=given.sources,
        name=given.name,
        processor=given.device,
        framework=given.framework,
        threads=given.threads,
        precision=given.precision,
    )
    show(given, found, "\n".join(found["suggested"]))


def _files(given: Sequence[str]) -> list[str]:
    from ._adapt import files_in

    files: list[str] = []
    for path in given:
        if os.path.isdir(path):
            files += [os.fspath(file) for file in files_in(Path(path))]
        else:
            files.append(path)
    return files


def add_evaluate(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundles", nargs="+", metavar="NAME")
    parser.add_argument("--on", required=True, metavar="FOLDER", help="a dataset")
    parser.add_argument("--max-mape", type=float, metavar="PERCENT", help="gate: exit code 1")
    finish(parser, _run_evaluate)


def _run_evaluate(given: argparse.Namespace) -> None:
    from ._evaluate import evaluate

    found = [evaluate(name, given.on) for name in given.bundles]
    sets = [
        (of.bundle, name, errors)
        for of in found
        for name, errors in (("synthetic", of.synthetic), ("real", of.real))
        if errors is not None
    ]
    rows = [
        (bundle, name, str(len(e.models)), f"{e.mape:.1f} %", f"{e.p90:.1f} %", f"{e.covered:.0%}")
        for bundle, name, e in sets
    ]
    evaluated = [of.to_dict() for of in found]
    value = evaluated[0] if len(evaluated) == 1 else evaluated
    headings = ("Bundle", "Models", "Count", "MAPE", "p90", "Covered")
    show(given, value, table(headings, rows))
    limit = given.max_mape
    for bundle, name, errors in sets:
        if limit is not None and not errors.mape <= limit:
            raise VitempoError(
                f"{bundle}: end-to-end MAPE {errors.mape:.2f} % on {name} models is above {limit} %"
            )


def add_dataset(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    for name, about, run in (
        ("inspect", "counts the contents", _inspect_dataset),
        ("validate", "checks that it is complete and plausible", _validate_dataset),
    ):
        verb = verbs.add_parser(name, help=about)
        verb.add_argument("folder", metavar="FOLDER")
        finish(verb, run)


def _inspect_dataset(given: argparse.Namespace) -> None:
    from ._dataset import Dataset

    counts = Dataset(given.folder).inspect()
    plain = [(name, str(value)) for name, value in counts.items() if isinstance(value, int)]
    text = table(("What", "Count"), plain)
    described = [of["description"] for of in counts["environments"].values()]
    show(given, counts, "\n".join([text, *described]))


def _validate_dataset(given: argparse.Namespace) -> None:
    from ._dataset import Dataset

    found = Dataset(given.folder).validate()
    show(given, found.to_dict(), str(found))
    if not found:
        raise VitempoError(f"{given.folder} is not valid")
