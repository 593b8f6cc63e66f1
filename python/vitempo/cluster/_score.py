"""Scores a space, or files of encodings, in parts: the best, and the Pareto front."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, TextIO, Union

import vitempo

from .. import _vitempo
from .._latency import Latency
from .._open import Named
from .._vitempo import Space
from ..errors import ClusterError, NothingFits
from ._run import GO_ON, STOP, Failure, Part, Progress, Settings, ranges, run
from ._shared import (
    Objective,
    SentBundle,
    describe,
    each,
    evaluators,
    made,
    sent_bundles,
    space_of,
)
from ._store import Store, to_csv, to_json

Path_ = Union[str, "os.PathLike[str]"]
Scores = tuple[int, int, list[Any], list[Any]]

NS_PER_MS = 1e6


@dataclass(frozen=True)
class Ranked:
    """An architecture among the best: its encoding, its score, and a latency for each bundle."""

    encoding: str
    score: float
    latencies: list[Latency]


@dataclass(frozen=True)
class Rejected:
    """A row of a file that is no architecture of the space, or whose score is no number."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


@dataclass(frozen=True)
class ScoreResult:
    """What was found.

    Attributes:
        candidates: How many architectures were evaluated.
        within: How many are within the ceilings.
        top: The highest scores within the ceilings, the highest first.
        front: The architectures within the ceilings that no other one dominates.
        rejected: Rows of files that were left out.
        failed: Parts without a result; the numbers above are without them.
    """

    candidates: int
    within: int
    top: list[Ranked]
    front: list[Ranked]
    rejected: list[Rejected]
    failed: list[Failure]


@dataclass(frozen=True)
class _Shared:
    space: Space
    bundles: list[SentBundle]
    objective: Optional[Objective]
    options: dict[str, Any]


def score(
    space: Union[Space, Path_],
    bundles: Union[Named, Sequence[Named]],
    out: Path_,
    *,
    objective: Objective = "flops",
    files: Sequence[Path_] = (),
    first: int = 0,
    count: Optional[int] = None,
    part: int = 100_000,
    top: int = 100,
    ceilings: Union[float, Sequence[float], None] = None,
    memory_ceilings: Union[int, Sequence[int], None] = None,
    upper: bool = False,
    actors: int = 0,
    resources: Optional[Mapping[str, Any]] = None,
    address: Optional[str] = None,
    on_error: str = STOP,
    progress: Progress = False,
) -> ScoreResult:
    """Scores a range of a space, or files of encodings, in parts of a job.

    The result is a function of space, bundles, objective and the sizes of parts: the same bytes in
    this process and on any cluster. The same call goes on where an interrupted one stopped.

    Args:
        space: A space, its name, or the path of its definition.
        bundles: One bundle or several, or names or paths.
        out: The folder of the job: `result.json`, `top.csv`, `front.csv`, and what is done so far.
        objective: `flops` or `parameters` as stand-ins for accuracy, or a function from encodings
            to scores of the same number, larger is better; a class is made once in each actor.
        files: CSV files with the column `encoding` instead of a range. Where they have a column
            `score`, that is the objective.
        first: The number of the first architecture (`Space.nth`).
        count: How many; up to the last one if left out.
        part: Architectures of a part.
        top: The most in the list of the best.
        ceilings: The most time a run may take on each bundle, ms.
        memory_ceilings: The most memory that the engine of each bundle may take to load and run a
            model, bytes. It takes a graph for each architecture within the other ceilings.
        upper: Ceilings hold for the upper ends of the intervals instead of the forecasts.
        actors: Actors of Ray that the objective lives in; 0 calls it where parts run.
        resources: What each actor needs, as options of Ray: `{"num_gpus": 1}`.
        address: Of the cluster: `HOST:PORT`, `auto`, `local`, or `here` for this process alone.
        on_error: `stop`, or `go-on`, which lists parts that failed and rows that cannot be read.
        progress: True prints how many parts are done; a function is called with parts done and all.

    Raises:
        ClusterError: A part failed and `on_error` is `stop`; or the folder is of another job.
        NothingFits: No architecture is within the ceilings.
    """
    how = Settings(address, on_error, progress)
    of, sent = space_of(space), sent_bundles(bundles)
    options = {
        "ceilings": [float(of) for of in each(ceilings)],
        "memory_ceilings": [int(of) for of in each(memory_ceilings)],
        "top": top,
        "upper": upper,
        "reject": on_error == GO_ON,
    }
    sources = [Path(file) for file in files]
    parts, has_scores = _parts(of, sources, first, count, part)
    job = {
        "job": "score",
        "vitempo": vitempo.__version__,
        "space": [of.name, str(of.size)],
        "bundles": [[bundle.name, bundle.digest] for bundle in sent],
        "objective": "column score" if has_scores else describe(objective),
        "parts": [str(first), str(count), part, [_digest(source) for source in sources]],
        "options": {name: of for name, of in options.items() if name != "reject"},
    }
    with Store(out, job) as store:
        chosen = None if has_scores else evaluators(objective, actors, resources, how)
        failed = run(_work, _Shared(of, sent, chosen, options), parts, store, how)
        return _result(store, parts, top, [bundle.name for bundle in sent], failed)


def _parts(
    space: Space, files: list[Path], first: int, count: Optional[int], size: int
) -> tuple[list[Part], bool]:
    if size < 1:
        raise ValueError(f"part {size}: expected at least 1")
    if files:
        rows = [(file, *_header(file)) for file in files]
        scored = {has_score for _, has_score, _ in rows}
        if len(scored) > 1:
            raise ClusterError(
                "some files have a column `score`, others have none", hint="score them apart"
            )
        numbered = enumerate(rows, 1)
        found = [
            part for n, (file, _, lines) in numbered for part in _of_file(n, file, lines, size)
        ]
        return found, scored == {True}
    end = space.size if count is None else first + count
    if not 0 <= first < end <= space.size:
        raise ValueError(f"{first} to {end}: {space.name} has {space.size} architectures, from 0")
    return [Part(f"{a}-{b}", ((a, b),)) for a, b in ranges(first, end, size)], False


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _header(file: Path) -> tuple[bool, int]:
    """Whether a file has scores, and its number of lines."""
    try:
        with open(file, newline="", encoding="utf-8") as text:
            names = _names(text)
            lines = 1 + sum(1 for _ in text)
    except (OSError, UnicodeDecodeError) as error:
        raise ClusterError(f"{file}: {error}", hint="give a CSV file in UTF-8") from error
    if "encoding" not in names:
        raise ClusterError(
            f"{file}: it has no column `encoding`", hint="its first line names its columns"
        )
    return "score" in names, lines


def _names(text: TextIO) -> list[str]:
    """The columns that the first line names."""
    for row in csv.reader(text):
        return [name.strip() for name in row]
    return []


def _of_file(number: int, file: Path, lines: int, size: int) -> Iterator[Part]:
    """Parts of a file, each with its lines, which nodes need not be able to read."""
    with open(file, newline="", encoding="utf-8") as text:
        names = _names(text)
        columns = (names.index("encoding"), names.index("score") if "score" in names else None)
        for start, end in ranges(2, lines + 1, size):
            some = "".join(text.readline() for _ in range(start, end))
            key = f"file-{number}-{file.stem}-lines-{start}-{end - 1}"
            yield Part(key, ((str(file), start, columns, some),))


def _work(shared: _Shared, part: Any) -> bytes:
    """What a node does for a part: a range, or some lines of a file."""
    bundles = [bundle.load() for bundle in shared.bundles]
    if len(part) == 2:
        objective = made(shared.objective or "flops")
        found, _ = _vitempo.score(shared.space, bundles, objective, part, shared.options)
        return to_json({"scores": found, "rejected": []})
    file, first, columns, text = part
    rows = _read(text, first, columns)
    rejected: list[tuple[int, str]] = []
    if columns[1] is None:
        objective = made(shared.objective or "flops")
    else:
        objective = _Listed({row.encoding: row.number for row in rows})
        rejected = [(row.line, f"`{row.score}` is not a score") for row in rows if row.is_wrong]
        rows = [row for row in rows if not row.is_wrong]
    _refuse(shared, file, rejected)
    options = {**shared.options, "reject": True}
    encodings = [row.encoding for row in rows]
    found, wrong = _vitempo.score(shared.space, bundles, objective, encodings, options)
    rejected += [(rows[place].line, reason) for place, reason in wrong]
    _refuse(shared, file, rejected)
    return to_json({"scores": found, "rejected": [[file, *row] for row in sorted(rejected)]})


@dataclass(frozen=True)
class _Row:
    line: int
    encoding: str
    score: str
    number: float

    @property
    def is_wrong(self) -> bool:
        return not math.isfinite(self.number)


@dataclass(frozen=True)
class _Listed:
    """The scores of a file."""

    scores: dict[str, float]

    def __call__(self, encodings: list[str]) -> list[float]:
        return [self.scores[encoding] for encoding in encodings]


def _read(text: str, first: int, columns: tuple[int, Optional[int]]) -> list[_Row]:
    """The rows of a text whose first line has this number; empty lines are no rows."""
    rows: list[_Row] = []
    for line, row in enumerate(csv.reader(text.split("\n")), first):
        if row:
            cell = dict(enumerate(row))
            score = "" if columns[1] is None else cell.get(columns[1], "").strip()
            rows.append(_Row(line, cell.get(columns[0], "").strip(), score, _number(score)))
    return rows


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _refuse(shared: _Shared, file: str, wrong: Sequence[tuple[int, str]]) -> None:
    """Ends the part by its first wrong row, where such rows are not left out."""
    if wrong and not shared.options["reject"]:
        line, reason = min(wrong)
        raise ClusterError(
            f"{file}, line {line}: {reason}",
            hint="correct the row; `--on-error go-on` leaves such rows out and lists them",
        )


def _result(
    store: Store, parts: list[Part], top: int, names: list[str], failed: list[Failure]
) -> ScoreResult:
    found = [json.loads(store.get(part.key)) for part in parts if store.has(part.key)]
    scores = [_tuples(of["scores"]) for of in found]
    merged = _vitempo.merge_scores(scores, top)
    rejected = [Rejected(*row) for of in found for row in of["rejected"]]
    result = ScoreResult(
        merged[0],
        merged[1],
        [_candidate(member) for member in merged[2]],
        [_candidate(member) for member in merged[3]],
        rejected,
        failed,
    )
    if not result.front and not failed:
        raise NothingFits(
            f"none of {result.candidates} architectures is within the ceilings",
            hint="raise the ceiling, or score another part of the space",
        )
    for name, members in (("top", result.top), ("front", result.front)):
        store.finish(f"{name}.csv", rows(members, names))
    store.finish("result.json", to_json(_plain(result)))
    return result


def _tuples(of: Any) -> Any:
    """From JSON, whose lists are tuples for the library."""

    def member(m: Any) -> Any:
        return (m[0], m[1], [tuple(ends) for ends in m[2]])

    return (of[0], of[1], [member(m) for m in of[2]], [member(m) for m in of[3]])


def _candidate(member: Any) -> Ranked:
    encoding, value, latencies = member
    return Ranked(
        encoding, value, [Latency(*(end / NS_PER_MS for end in ends)) for ends in latencies]
    )


def rows(members: Sequence[Ranked], names: Sequence[str]) -> bytes:
    """A CSV of architectures: encoding, score, and for each bundle the latency and the ends of its
    interval, ms."""
    ends = [f"{name}_{end}" for name in names for end in ("ms", "lower_ms", "upper_ms")]
    lines = [["encoding", "score", *ends]]
    for of in members:
        numbers = [end for latency in of.latencies for end in plain(latency)]
        lines.append([of.encoding, repr(of.score), *map(repr, numbers)])
    return to_csv(lines)


def plain(latency: Latency) -> tuple[float, float, float]:
    """Latency and interval, ms."""
    return latency.ms, latency.lower, latency.upper


def _plain(result: ScoreResult) -> dict[str, Any]:
    def members(of: list[Ranked]) -> list[Any]:
        return [[m.encoding, m.score, [plain(latency) for latency in m.latencies]] for m in of]

    return {
        "candidates": result.candidates,
        "within": result.within,
        "top": members(result.top),
        "front": members(result.front),
        "rejected": [[r.file, r.line, r.reason] for r in result.rejected],
        "failed": [[f.part, f.message] for f in result.failed],
    }
