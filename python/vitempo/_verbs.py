"""Verbs of the command `vitempo`: bundles, forecasts, searches and plans."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

from ._export import export
from ._printing import duration, finish, mbit_per_s, show, size_bytes, table, time_ms, whole
from ._vitempo import Bundle, Forecast, Model, Space, bundles, models
from .errors import VitempoError

Row = dict[str, Any]


def add_bundle(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    finish(verbs.add_parser("list", help="bundles that a name finds"), _list_bundles)


def _list_bundles(given: argparse.Namespace) -> None:
    found = [Bundle.load(name) for name in bundles()]
    rows = [json.loads(bundle._summary()) for bundle in found]  # pyright: ignore[reportPrivateUsage]
    text = [(bundle.name, bundle.environment, bundle.method, bundle.location) for bundle in found]
    show(given, rows, table(("Bundle", "Environment", "Method", "Where"), text))


def add_predict(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODEL", help="ONNX files, or encodings")
    parser.add_argument("--bundle", action="append", required=True, metavar="NAME")
    parser.add_argument("--breakdown", action="store_true", help="show every operator")
    finish(parser, _run_predict)


def _run_predict(given: argparse.Namespace) -> None:
    found: list[tuple[Bundle, Forecast]] = []
    for name in given.bundle:
        bundle = Bundle.load(name)
        found += [(bundle, bundle.predict(model)) for model in given.models]
    rows = [
        (f.model, f.bundle, duration(f.ms), f"{duration(f.lower)} .. {duration(f.upper)}")
        for _, f in found
    ]
    text = table(("Model", "Bundle", "Latency", "Interval"), rows)
    if given.breakdown:
        text += "".join(f"\n\n{f.model} on {f.bundle}\n{_operators(f)}" for _, f in found)
    show(given, _forecasts(given, found), text)


def _operators(forecast: Forecast) -> str:
    columns = forecast.operators
    rows = zip(columns["name"], columns["kind"], columns["ms"], columns["source"])
    text = [(name, kind, duration(ms), source) for name, kind, ms, source in rows]
    return table(("Node", "Kind", "Latency", "Source"), text)


def _forecasts(given: argparse.Namespace, found: list[tuple[Bundle, Forecast]]) -> list[Row]:
    """As the program prints them: with one bundle a row per model, with several those of a model
    together, the lowest latency first."""
    if len(given.bundle) == 1:
        return [_forecast(*pair, given.breakdown) for pair in found]
    rows: list[Row] = []
    for place in range(len(given.models)):
        of_model = found[place :: len(given.models)]
        of_model.sort(key=lambda pair: pair[1].ms)
        devices = [_on_device(*pair, given.breakdown) for pair in of_model]
        rows.append({"model": of_model[0][1].model, "forecasts": devices, "left_out": []})
    return rows


def _on_device(bundle: Bundle, of: Forecast, breakdown: bool) -> Row:
    forecast = _forecast(bundle, of, breakdown)
    row = {"bundle": bundle.name, "kind": bundle.kind, "environment": bundle.environment_id}
    shown = ("latency_ns", "coverage", *(("operators",) if breakdown else ()))
    return {**row, **{key: forecast[key] for key in shown}}


def _forecast(bundle: Bundle, of: Forecast, breakdown: bool) -> Row:
    row: Row = {"model": of.model, "bundle": of.bundle, "environment": bundle.environment_id}
    return {**row, **json.loads(of._json(breakdown))}  # pyright: ignore[reportPrivateUsage]


def add_export(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="+", metavar="MODELS", help="names, encodings, or all")
    parser.add_argument("--space", metavar="FILE.toml", help="of the encodings")
    parser.add_argument("--out", required=True, metavar="FOLDER")
    parser.add_argument("--seed", type=whole(0), default=0, help="decides the weights")
    parser.add_argument("--no-weights", action="store_true", help="leave the weights out")
    finish(parser, _run_export)


def _run_export(given: argparse.Namespace) -> None:
    names = [name for name in given.models if name != "all"]
    found = [Model.load(name, space=given.space) for name in names]
    if len(names) < len(given.models):
        found += [Model.load(name) for name in models() if name not in names]
    os.makedirs(given.out, exist_ok=True)
    rows: list[Row] = []
    for model in found:
        file = export(model, given.out, weights=not given.no_weights, seed=given.seed)
        row = {"model": model.name, "file": file, "macs": model.macs, "params": model.parameters}
        rows.append({**row, "operators": len(model)})
    text = [(row["file"], *(str(row[n]) for n in ("macs", "params", "operators"))) for row in rows]
    show(given, rows, table(("File", "MACs", "Parameters", "Operators"), text))


def add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--space", default="hybrid-vit", help="name, or TOML file")
    parser.add_argument("--bundle", action="append", required=True, metavar="NAME")
    parser.add_argument("--max-latency", action="append", metavar="TIME", help="e.g. 20ms")
    parser.add_argument("--max-memory", action="append", metavar="SIZE", help="e.g. 40MB")
    parser.add_argument("--objective", choices=("flops", "parameters"), default="flops")
    parser.add_argument("--candidates", type=whole(1), default=100_000)
    parser.add_argument("--population", type=whole(2), default=200)
    parser.add_argument("--seed", type=whole(0), default=0)
    parser.add_argument("--upper", action="store_true", help="the interval's upper end counts")
    finish(parser, _run_search)


def _run_search(given: argparse.Namespace) -> None:
    from ._search import search

    found = search(
        Space(given.space),
        given.bundle,
        given.objective,
        ceilings=[time_ms(text) for text in given.max_latency or ()],
        memory_ceilings=[size_bytes(text) for text in given.max_memory or ()],
        candidates=given.candidates,
        population=given.population,
        seed=given.seed,
        upper=given.upper,
        progress=sys.stderr.isatty(),
    )
    rows = [
        (c.encoding, f"{c.score:.6g}", ", ".join(duration(at.ms) for at in c.latencies))
        for c in found.front
    ]
    value = {**found.to_dict(), "verified": []}
    show(given, value, table(("Encoding", "Score", "Latency"), rows))


def add_plan(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", required=True)
    split = verbs.add_parser("split", help="divides a model between a device and a server")
    split.add_argument("model", metavar="MODEL")
    split.add_argument("--device-bundle", required=True, metavar="NAME")
    split.add_argument("--server-bundle", required=True, metavar="NAME")
    split.add_argument("--bandwidth", required=True, metavar="RATE", help="e.g. 20Mbit/s")
    split.add_argument("--round-trip", default="0ms", metavar="TIME", help="e.g. 10ms")
    finish(split, _run_split)
    pipeline = verbs.add_parser("pipeline", help="stages on processors, frames overlapped")
    pipeline.add_argument("model", metavar="MODEL")
    pipeline.add_argument(
        "--processor", action="append", required=True, metavar="NAME=BUNDLE", dest="processors"
    )
    pipeline.add_argument("--bandwidth", required=True, metavar="RATE", help="e.g. 8GB/s")
    pipeline.add_argument("--hand-over", default="0ms", metavar="TIME")
    finish(pipeline, _run_pipeline)


def _run_split(given: argparse.Namespace) -> None:
    from .plan import split

    found = split(
        given.model,
        given.device_bundle,
        given.server_bundle,
        bandwidth=mbit_per_s(given.bandwidth),
        round_trip=time_ms(given.round_trip),
    )
    show(given, found.to_dict(), str(found))


def _run_pipeline(given: argparse.Namespace) -> None:
    from .plan import pipeline

    named: dict[str, str] = {}
    for text in given.processors:
        name, equals, bundle = text.partition("=")
        if not (name and equals and bundle):
            raise VitempoError(f"--processor {text}: expected NAME=BUNDLE")
        if name in named:
            raise VitempoError(
                f"--processor {text}: `{name}` is given twice, {named[name]} before",
                hint="give each processor a name of its own",
            )
        named[name] = bundle
    found = pipeline(
        given.model,
        named,
        bandwidth=mbit_per_s(given.bandwidth),
        hand_over=time_ms(given.hand_over),
    )
    show(given, found.to_dict(), str(found))
