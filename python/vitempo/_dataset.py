"""Datasets of measurements: their tables, what is in them, and whether they are valid."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

from . import _vitempo
from ._vitempo import Table
from .errors import InvalidArgument

Texts = Union[str, Sequence[str]]


@dataclass(frozen=True)
class Finding:
    """One thing that a check found.

    Attributes:
        severity: `note`, `warning` or `error`.
        check: Which check found it, e.g. `duplicate-key`.
        file: The file, relative to the dataset.
        row: The row of a table, from 0, or the line of a part of the journal, from 1.
        what: What is wrong.
    """

    severity: str
    check: str
    file: str
    row: Optional[int]
    what: str

    def __str__(self) -> str:
        place = self.file if self.row is None else f"{self.file}, row {self.row}"
        return f"{self.severity}: {place}: {self.what}"


@dataclass(frozen=True)
class Validation:
    """What the checks of a dataset found.

    Attributes:
        findings: Worst first; of each check the first 20.
        unlisted: How many more findings a check has.
        rows: Rows of each table.
        failed: Failed runs and operators, by reason.
        origins: Runs of models per origin: measured, imported or simulated.
    """

    findings: list[Finding]
    unlisted: dict[str, int]
    rows: dict[str, int]
    failed: dict[str, int]
    origins: dict[str, int]
    _of: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_valid(self) -> bool:
        """Whether there is no error."""
        return all(finding.severity != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """As the program writes it."""
        return {**self._of, "valid": self.is_valid}

    def __bool__(self) -> bool:
        return self.is_valid

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings) or "nothing was found"


@dataclass(frozen=True)
class Part:
    """A file of a lake.

    Attributes:
        table: The table that it has rows of.
        path: Its name, relative to the lake.
        rows: Number of rows.
        bytes: Its size.
    """

    table: str
    path: str
    rows: int
    bytes: int


class Dataset:
    """A folder of measurements, as `vitempo profile` writes it, or a lake: a folder or a bucket
    that `vitempo dataset append` fills.

    It is a mapping from names of tables to tables. A table is read when it is asked for, and speaks
    Arrow's PyCapsule interface: `polars.DataFrame(dataset["models"])`. Columns and units are those
    of `docs/dataset-schema.md`; samples are in nanoseconds.

    Args:
        folder: The folder. Lakes in buckets are for the program: `vitempo dataset merge` copies.

    Raises:
        InvalidDataset: It is not a dataset, or of another version, or cannot be read.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        self.path = os.fspath(folder)
        self.environments: dict[str, str] = _vitempo.dataset_environments(self.path)
        """Where it was measured: identifiers, and a line that describes each."""

    def table(self, name: str, columns: Optional[Texts] = None) -> Table:
        """A table: `environments`, `operators`, `models`, `operator_measurements` or
        `model_measurements`.

        Args:
            name: Its name.
            columns: The column to read, or several; all by default. Others are not decoded.

        Returns:
            Columns of text, unsigned integers and lists of them. As NumPy arrays: `object` for
            texts and lists, `uint64` for integers (masked where some are missing).

        Raises:
            InvalidDataset: There is no such table or column, or it is damaged.
        """
        return _vitempo.dataset_table(self.path, name, _columns(columns))

    @property
    def is_lake(self) -> bool:
        """Whether its tables are files by environment and kind of operator."""
        return _vitempo.dataset_is_lake(self.path)

    def parts(self) -> list[Part]:
        """The files of a lake, as of its last commit, for other programs.

        Raises:
            InvalidDataset: It is no lake.
        """
        return [Part(*of) for of in _vitempo.lake_parts(self.path)]

    def scan(
        self,
        name: str,
        *,
        environments: Texts = (),
        kinds: Texts = (),
        columns: Optional[Texts] = None,
    ) -> Iterator[Table]:
        """Rows of a table of a lake, one file after the other; other files are not read.

        Args:
            name: The table.
            environments: Identifiers; all by default.
            kinds: Kinds of operators, of `operator_measurements`; all by default.
            columns: Names of the columns to read; all by default.

        Raises:
            InvalidDataset: It is no lake, there is no such table or column, or a file is damaged.
        """
        where, of = _texts(environments), _texts(kinds)
        return _vitempo.lake_scan(self.path, name, where, of, _columns(columns))

    def inspect(self) -> dict[str, Any]:
        """Counts: runs of models, failures, models, operators, samples, environments, sizes."""
        counts: dict[str, Any] = json.loads(_vitempo.dataset_inspect(self.path))
        return counts

    def validate(self) -> Validation:
        """Checks that it is complete, consistent and plausible.

        Raises:
            InvalidDataset: It is no dataset. A damaged table is a finding.
        """
        of = json.loads(_vitempo.dataset_validate(self.path))
        findings = [
            Finding(f["severity"], f["check"], f["file"], f["row"], f["what"])
            for f in of["findings"]
        ]
        return Validation(findings, of["unlisted"], of["rows"], of["failed"], of["origins"], of)

    def keys(self) -> list[str]:
        """Names of the tables."""
        return _vitempo.dataset_tables()

    def __getitem__(self, name: str) -> Table:
        return self.table(name)

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def __repr__(self) -> str:
        return f"Dataset({self.path!r}: {len(self.environments)} environments)"


def _texts(given: Texts) -> list[str]:
    """One text or several."""
    return [given] if isinstance(given, str) else list(given)


def _columns(given: Optional[Texts]) -> Optional[list[str]]:
    names = None if given is None else _texts(given)
    if names == []:
        raise InvalidArgument("`columns` has no name", hint="leave it out for all columns")
    return names
