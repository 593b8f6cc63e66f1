"""Verbs of the command `vitempo`: bundles, forecasts, searches and plans."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Union

from ._export import export
from ._printing import duration, finish, mbit_per_s, show, size_bytes, table, time_ms, whole
from ._vitempo import Bundle, Forecast, Model, Space, bundles, models, read
from .errors import InvalidBundle, VitempoError

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


@dataclass
class _OfModel:
    """Forecasts of a model, and the bundles that have none, with the reason."""

    model: Model
    forecasts: list[tuple[Bundle, Forecast]] = field(default_factory=list)
    left_out: list[tuple[Bundle, VitempoError]] = field(default_factory=list)


def _run_predict(given: argparse.Namespace) -> None:
    names: list[str] = list(dict.fromkeys(given.bundle))
    if given.breakdown and len(names) > 1:
        raise VitempoError(
            f"--breakdown is about one bundle; --bundle selects {len(names)}",
            hint="give one file or name that `vitempo bundle list` shows",
        )
    devices = _devices(names)
    found, unread = _read_each(given.models)
    if not found:
        raise unread[-1][1]
    for model, of_model in found:
        for bundle in devices:
            try:
                of_model.forecasts.append((bundle, bundle.predict(model)))
            except VitempoError as error:
                of_model.left_out.append((bundle, error))
    asked = len(given.models) * len(names)
    rows = [of_model for _, of_model in found]
    if asked == 1 and rows[0].left_out:
        raise rows[0].left_out[0][1]
    missing = [f"{path} left out: {error.message}" for path, error in unread]
    missing += [
        f"{of.model.name} on {bundle.name} left out: {error.message}"
        for of in rows
        for bundle, error in of.left_out
    ]
    for line in missing:
        _warn(line)
    for of in rows:
        _warn_of_missing(of.model)
    if any(of.forecasts for of in rows):
        show(given, _forecasts(given, len(names), rows), _predicted(given, rows))
    left_out = asked - sum(len(of.forecasts) for of in rows)
    if left_out:
        what = "models" if len(names) == 1 else "forecasts"
        raise VitempoError(f"{left_out} of {asked} {what} left out")


def _devices(names: list[str]) -> list[Bundle]:
    """Bundles; a file of several that is none is left out, with a warning."""
    found: list[Bundle] = []
    for name in names:
        try:
            found.append(Bundle.load(name))
        except InvalidBundle as error:
            if len(names) == 1:
                raise
            _warn(f"a bundle left out: {error.message}")
    return found


def _read_each(
    paths: list[str],
) -> tuple[list[tuple[Union[str, Model], _OfModel]], list[tuple[str, VitempoError]]]:
    """What to forecast, of each model, and models that cannot be read, each with its error."""
    found: list[tuple[Union[str, Model], _OfModel]] = []
    unread: list[tuple[str, VitempoError]] = []
    for path in paths:
        try:
            model = read(path)
        except VitempoError as error:
            unread.append((path, error))
        else:
            found.append((model if os.path.exists(path) else path, _OfModel(model)))
    return found, unread


def _warn(line: str) -> None:
    print(f"warning: {line}", file=sys.stderr)


def _missing(model: Model) -> str:
    """Operators that vitempo does not know in a model: `LSTM (1), GRU (2)`."""
    counts = Counter(operator for _, operator in model.unsupported)
    return ", ".join(f"{name} ({count})" for name, count in sorted(counts.items()))


def _warn_of_missing(model: Model) -> None:
    missing = _missing(model)
    if missing:
        _warn(
            f"{model.name}: vitempo does not know {missing}: what they compute is not in the "
            "latency, so it is too low and has no upper end"
        )


def _predicted(given: argparse.Namespace, of_models: list[_OfModel]) -> str:
    headings = ("Model", "Bundle", "Latency", "Interval", "Operators", "Fallback", "Outside")
    found = [forecast for of in of_models for _, forecast in of.forecasts]
    text = table(headings, [_row(forecast) for forecast in found])
    for of in of_models:
        missing = _missing(of.model)
        if missing:
            text += f"\nMissing: what these compute is not in the latency of {of.model.name}, "
            text += f"only their bytes: {missing}; vitempo does not know them"
    if given.breakdown:
        text += "".join(f"\n\n{f.model} on {f.bundle}\n{_operators(f)}" for f in found)
    return text


def _row(of: Forecast) -> tuple[str, ...]:
    counts = (of.coverage.operators, of.coverage.fallback, of.coverage.extrapolating)
    interval = f"{duration(of.lower)} .. {duration(of.upper)}"
    return (of.model, of.bundle, duration(of.ms), interval, *map(str, counts))


def _operators(forecast: Forecast) -> str:
    columns = forecast.operators
    rows = zip(columns["name"], columns["kind"], columns["ms"], columns["source"])
    text = [(name, kind, duration(ms), source) for name, kind, ms, source in rows]
    return table(("Node", "Kind", "Latency", "Source"), text)


def _forecasts(given: argparse.Namespace, bundles: int, of_models: list[_OfModel]) -> list[Row]:
    """As the program prints them: with one bundle a row per model, with several those of a model
    together, the lowest latency first."""
    if bundles == 1:
        return [_forecast(*pair, given.breakdown) for of in of_models for pair in of.forecasts]
    rows: list[Row] = []
    for of in of_models:
        of.forecasts.sort(key=lambda pair: pair[1].ms)
        reasons = [{"bundle": b.name, "reason": error.message} for b, error in of.left_out]
        devices = [_on_device(*pair) for pair in of.forecasts]
        rows.append({"model": of.model.name, "forecasts": devices, "left_out": reasons})
    return rows


def _on_device(bundle: Bundle, of: Forecast) -> Row:
    forecast = _forecast(bundle, of, breakdown=False)
    row = {"bundle": bundle.name, "kind": bundle.kind, "environment": bundle.environment_id}
    return {**row, **{key: forecast[key] for key in ("latency_ns", "coverage")}}


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
    shipped = models()
    found = [Model.load(n, space=None if n in shipped else given.space) for n in names]
    if len(names) < len(given.models):
        found += [Model.load(name) for name in shipped if name not in names]
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
    show(given, [{**found.to_dict(), "chosen": True}], str(found))


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
    show(given, [{**found.to_dict(), "chosen": True}], str(found))
