"""What nodes need and where they have it: folders as bytes, lakes at their address."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Optional, Union
from urllib.parse import unquote

from .. import _program
from .._dataset import Dataset
from ..errors import ClusterError
from ._shared import scratch

BUCKETS = "s3://"
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


@dataclass(frozen=True)
class LakeAtAddress:
    """A lake in a bucket, as of its files now: nodes read it where it is, and nothing is sent."""

    address: str
    digest: str
    environments: tuple[str, ...]

    @classmethod
    def of(cls, address: str) -> LakeAtAddress:
        """Needs the program, which has the protocol of buckets.

        Raises:
            ProgramError: There is no lake, or it cannot be read.
        """
        files = [part["path"] for part in _program.run(["dataset", "files", address])]
        digest = hashlib.sha256("\n".join(sorted(files)).encode()).hexdigest()
        folders = (file.split("/")[1] for file in files if file.startswith("model_measurements/"))
        names = {unquote(folder.removeprefix("environment=")) for folder in folders}
        return cls(address, digest, tuple(sorted(names)))

    def path(self) -> str:
        """On the node: the address."""
        return self.address

    def check(self) -> None:
        """Nobody appended to it.

        Raises:
            ClusterError: Its files are not those of before.
        """
        if LakeAtAddress.of(self.address).digest != self.digest:
            raise ClusterError(
                f"{self.address} grew while bundles were trained on it",
                hint="train again, in another folder, while nobody appends",
            )


Data = Union[SentFolder, LakeAtAddress]


def chosen(
    dataset: Union[Dataset, str, os.PathLike[str]], environments: Optional[Sequence[str]]
) -> tuple[Data, list[str]]:
    """A dataset for nodes, and those of its environments that are asked for, or all.

    Raises:
        ClusterError: The dataset lacks one, or has none.
    """
    path = os.fspath(dataset.path if isinstance(dataset, Dataset) else dataset)
    if path.startswith(BUCKETS):
        lake = LakeAtAddress.of(path)
        return lake, _among(lake.environments, environments, path)
    data = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    names = _among(sorted(data.environments), environments, path)
    return SentFolder.of(data.path), names


def _among(known: Sequence[str], wanted: Optional[Sequence[str]], path: str) -> list[str]:
    names = list(known if wanted is None else wanted)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise ClusterError(
            f"{path} has no environment {', '.join(unknown)}",
            hint=f"it has {', '.join(known)}",
        )
    return names
