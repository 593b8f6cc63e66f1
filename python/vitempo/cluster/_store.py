"""What a job has done so far: a folder with the result of each part, and the job that they are of.

A result is written whole or not at all, and only by the driver, which holds the folder's lock: a
part counts once, whatever is killed.
"""

from __future__ import annotations

import csv
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Optional, Union

from .._files import write_whole
from ..errors import ClusterError

try:
    import fcntl
except ImportError:  # Windows: a second driver on one folder is not noticed
    fcntl = None  # type: ignore[assignment]

JOB = "job.json"
PARTS = "parts"


class Store:
    """The folder of a job; a context in which it is locked.

    Args:
        folder: Made if it is not there.
        job: What the results are a function of. The folder of another job is refused.

    Raises:
        ClusterError: It is the folder of another job, or another driver works on it.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]], job: Mapping[str, Any]) -> None:
        self.folder = Path(folder)
        self.job = json.loads(json.dumps(job))
        self._lock: Optional[IO[str]] = None

    def __enter__(self) -> Store:
        (self.folder / PARTS).mkdir(parents=True, exist_ok=True)
        self._lock = open(self.folder / "lock", "w")
        try:
            self._own(self._lock)
            self._check()
        except BaseException:
            self._lock.close()
            raise
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._lock is not None:
            self._lock.close()

    def _own(self, lock: IO[str]) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ClusterError(
                f"{self.folder}: another driver works on it", hint="wait for it, or end it"
            ) from error

    def _check(self) -> None:
        path = self.folder / JOB
        if not path.exists():
            write_whole(path, json.dumps(self.job, indent=1, sort_keys=True).encode())
            return
        try:
            before = json.loads(path.read_text())
        except ValueError as error:
            raise ClusterError(f"{path}: {error}", hint="give another folder") from error
        names = sorted(set(before) | set(self.job))
        other = [name for name in names if before.get(name) != self.job.get(name)]
        if other:
            raise ClusterError(
                f"{self.folder} has results of another job: {', '.join(other)} differ",
                hint="give the arguments that it was begun with, or another folder",
            )

    def path(self, key: str) -> Path:
        """The file of a part."""
        return self.folder / PARTS / re.sub(r"[^\w.+=-]", "_", key)

    def has(self, key: str) -> bool:
        """Whether the part is done."""
        return self.path(key).exists()

    def get(self, key: str) -> bytes:
        """The result of a part that is done."""
        return self.path(key).read_bytes()

    def put(self, key: str, result: bytes) -> None:
        """Keeps the result of a part; one that is done stays as it is."""
        if not self.has(key):
            write_whole(self.path(key), result)

    def finish(self, name: str, content: bytes) -> Path:
        """Writes a file of the whole job."""
        path = self.folder / name
        write_whole(path, content)
        return path


def to_json(value: Any) -> bytes:
    """One text for one value: keys sorted, floats as they are read again."""
    return (json.dumps(value, sort_keys=True, separators=(",", ":")) + "\n").encode()


def to_csv(rows: Iterable[Iterable[str]]) -> bytes:
    """Lines end as on every system that is not Windows."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()
