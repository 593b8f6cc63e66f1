"""What goes to nodes: bundles with their contents, and objectives, which may be functions of a
module or live in actors of Ray."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional, Union

from .._files import write_whole
from .._open import Named, opened
from .._vitempo import Bundle, Space
from ..errors import ClusterError
from ._run import HERE, Settings, connect, ray_module

EMBEDDED = "embedded:"

Scores = Callable[[list[str]], Sequence[float]]
Objective = Union[str, Scores]


@dataclass(frozen=True)
class SentBundle:
    """A bundle as it goes to a node: by name where it comes with vitempo, else with its file."""

    name: str
    digest: str
    content: Optional[bytes]

    @classmethod
    def of(cls, bundle: Named) -> SentBundle:
        """Of the driver."""
        bundle = opened(bundle)
        if bundle.location.startswith(EMBEDDED):
            return cls(bundle.location[len(EMBEDDED) :], bundle.digest, None)
        path = Path(bundle.location)
        return cls(path.name, bundle.digest, path.read_bytes())

    def load(self) -> Bundle:
        """On the node.

        Raises:
            ClusterError: The node's own bundle of that name is another one.
        """
        bundle = Bundle.load(self.name if self.content is None else self._file(self.content))
        if bundle.digest != self.digest:
            raise ClusterError(
                f"bundle {self.name} has the digest {bundle.digest}, and that of the driver "
                f"{self.digest}",
                hint="install the same vitempo on every node",
            )
        return bundle

    def _file(self, content: bytes) -> Path:
        folder = scratch() / "bundles" / self.digest.replace(":", "-")
        path = folder / self.name
        if not path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(path, content)
        return path


def scratch() -> Path:
    """The folder of a node for what it was sent: in TMPDIR, and the user's own."""
    user = os.getuid() if hasattr(os, "getuid") else 0
    folder = Path(tempfile.gettempdir()) / f"vitempo-cluster-{user}"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if hasattr(os, "getuid") and folder.stat().st_uid != user:
        raise ClusterError(f"{folder} belongs to another user", hint="set TMPDIR")
    return folder


def sent_bundles(bundles: Union[Named, Sequence[Named]]) -> list[SentBundle]:
    """One or several."""
    one = isinstance(bundles, (Bundle, str, os.PathLike))
    several: Iterable[Named] = [bundles] if one else bundles  # type: ignore[list-item,assignment]
    return [SentBundle.of(bundle) for bundle in several]


def space_of(space: Union[Space, str, os.PathLike[str]]) -> Space:
    """A space itself, or that of a name or path."""
    return space if isinstance(space, Space) else Space(space)


def each(ceilings: Union[float, Sequence[float], None]) -> Sequence[float]:
    """None, one for a single bundle, or one for each."""
    if ceilings is None:
        return []
    return [ceilings] if isinstance(ceilings, (int, float)) else ceilings


def objective_named(text: str) -> Objective:
    """`flops`, `parameters`, or `MODULE:NAME` of a function or of a class whose objects are called.

    Raises:
        ClusterError: There is no such function.
    """
    if ":" not in text:
        return text
    module, _, name = text.partition(":")
    try:
        found: Scores = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ClusterError(
            f"objective {text}: {error}", hint="MODULE:NAME, of a module that every node has"
        ) from error
    return found


def describe(objective: Objective) -> str:
    """For the folder of a job, so that another objective is another job."""
    if isinstance(objective, str):
        return objective
    name = getattr(objective, "__qualname__", type(objective).__qualname__)
    return f"{getattr(objective, '__module__', '')}:{name}"


class Evaluators:
    """An objective that lives in actors of Ray, e.g. a supernet on nodes with GPUs; called as a
    function, from any node.

    Args:
        objective: A function from encodings to scores, or a class whose objects are such functions
            and which is made once in each actor.
        actors: How many.
        resources: What each of them needs, as options of Ray: `{"num_gpus": 1}`.
    """

    def __init__(
        self, objective: Scores, actors: int, resources: Optional[Mapping[str, Any]] = None
    ) -> None:
        ray = ray_module()
        options: dict[str, Any] = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1}
        kind = ray.remote(_Evaluator).options(**{**options, **(resources or {})})
        self.actors = [kind.remote(objective) for _ in range(actors)]

    def __call__(self, encodings: list[str]) -> list[float]:
        """Scores, in the order of the encodings; each actor has a share of them."""
        ray = ray_module()
        size = max(1, -(-len(encodings) // len(self.actors)))
        shares = [encodings[at : at + size] for at in range(0, len(encodings), size)]
        asked = [actor.scores.remote(share) for actor, share in zip(self.actors, shares)]
        try:
            return [score for scores in ray.get(asked) for score in scores]
        except ray.exceptions.RayTaskError as error:
            raise error.as_instanceof_cause() from None


class _Evaluator:
    def __init__(self, objective: Any) -> None:
        self.objective: Scores = objective() if isinstance(objective, type) else objective

    def scores(self, encodings: list[str]) -> list[float]:
        return [float(score) for score in self.objective(encodings)]


def evaluators(
    objective: Objective, actors: int, resources: Optional[Mapping[str, Any]], how: Settings
) -> Objective:
    """The objective, in actors where there shall be some."""
    if isinstance(objective, str):
        return objective
    if actors > 0 and how.address != HERE:
        connect(how.address)
        return Evaluators(objective, actors, resources)
    return objective


def made(objective: Objective) -> Objective:
    """On a node: an object of a class, or the objective itself."""
    return objective() if isinstance(objective, type) else objective
