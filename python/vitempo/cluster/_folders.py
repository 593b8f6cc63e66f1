"""Folders as bytes: datasets that nodes need, and those that they measured."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Union

from ..errors import ClusterError
from ._shared import scratch

LEFT_OUT = ("lock",)


def packed(folder: Union[str, os.PathLike[str]]) -> bytes:
    """The files of a folder; the same files give the same bytes."""
    root, out = Path(folder), io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in sorted(root.rglob("*")):
            if path.is_file() and path.name not in LEFT_OUT:
                member = tarfile.TarInfo(path.relative_to(root).as_posix())
                member.size = path.stat().st_size
                with open(path, "rb") as file:
                    tar.addfile(member, file)
    return out.getvalue()


def unpack(content: bytes, folder: Path) -> None:
    """Writes the files of `packed`.

    Raises:
        ClusterError: A file would be outside of the folder.
    """
    with tarfile.open(fileobj=io.BytesIO(content), mode="r") as tar:
        for member in tar.getmembers():
            path = folder / member.name
            file = tar.extractfile(member) if member.isfile() else None
            if file is None or ".." in Path(member.name).parts or Path(member.name).is_absolute():
                raise ClusterError(f"`{member.name}` is not a file of a folder")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.read())


@dataclass(frozen=True)
class SentFolder:
    """A folder as it goes to nodes."""

    content: bytes
    digest: str

    @classmethod
    def of(cls, folder: Union[str, os.PathLike[str]]) -> SentFolder:
        """Of the driver."""
        content = packed(folder)
        return cls(content, hashlib.sha256(content).hexdigest())

    def path(self) -> Path:
        """On the node: unpacked once, however many tasks ask."""
        folders = scratch() / "folders"
        folders.mkdir(exist_ok=True)
        final = folders / self.digest
        if not final.exists():
            with tempfile.TemporaryDirectory(dir=folders) as unfinished:
                unpack(self.content, Path(unfinished) / "of")
                try:
                    os.rename(Path(unfinished) / "of", final)
                except OSError:
                    if not final.exists():  # else another task was first
                        raise
        return final
