"""Runs the parts of a job: as tasks of Ray, or one after the other in this process.

Ray schedules the tasks, runs those again whose worker or node died, and moves the results. This
module keeps a few more tasks submitted than there are cores, and stores each result as it comes.
"""

from __future__ import annotations

import importlib
import logging
import os
import socket
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Callable, Optional, Union

import vitempo

from ..errors import ClusterError, VitempoError
from ._store import Store

_log = logging.getLogger("vitempo")

HERE = "here"
STOP, GO_ON = "stop", "go-on"
# How often Ray runs a task again whose worker or node died.
TRIES = 5
WAIT_S = 1.0
CONNECT_WITHIN_S = 10.0
# Resources that a node may lack without the job being wrong: their tasks wait.
DEVICE = "device:"

Progress = Union[bool, Callable[[int, int], object]]
Work = Callable[..., bytes]
Answers = Generator[tuple["Part", Union[bytes, "Failure"]], None, None]


@dataclass(frozen=True)
class Part:
    """One task: its name, the arguments of its work, and what it needs of a node."""

    key: str
    arguments: tuple[Any, ...]
    cpus: float = 1.0
    resources: Mapping[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True)
class Failure:
    """A part without a result.

    Attributes:
        part: Its name.
        node: Where it failed.
        message: What was wrong.
        hint: What to do about it; None where that is open.
    """

    part: str
    node: str
    message: str
    hint: Optional[str] = None

    def __str__(self) -> str:
        return f"part {self.part}, on node {self.node}: {self.message}"


@dataclass(frozen=True)
class Settings:
    """Where and how a job runs.

    Attributes:
        address: Of a Ray cluster, `HOST:PORT`; `auto` for the one of this machine; `local` for one
            that is started for the job; `here` for this process, without Ray. None is the cluster
            that this process is connected to, or else that of the variable `RAY_ADDRESS`, or else
            `local`.
        on_error: `stop` ends the job where a part fails, `go-on` lists it. What was done is kept,
            and the same job goes on from there.
        progress: True prints how much is done; a function is called with the parts done and all.
        wait_s: How long parts wait for a device that no node has, seconds.
    """

    address: Optional[str] = None
    on_error: str = STOP
    progress: Progress = False
    wait_s: float = 600.0

    def __post_init__(self) -> None:
        if self.on_error not in (STOP, GO_ON):
            raise ValueError(f"on_error {self.on_error!r}: expected {STOP!r} or {GO_ON!r}")


def run(
    work: Work,
    shared: Any,
    parts: Sequence[Part],
    store: Store,
    how: Settings,
    kept: Callable[[Part], None] = lambda part: None,
) -> list[Failure]:
    """Runs the parts that the store has no result of, and stores theirs.

    Args:
        work: A function of a module, called with `shared` and the arguments of a part. It gives the
            result.
        shared: What all parts need; it goes to each node once.
        parts: The whole job.
        store: Of the job.
        how: Where and how.
        kept: Called on the driver when the result of a part is in the store.

    Returns:
        Parts that failed; with `stop` there is none.

    Raises:
        ClusterError: A part failed, and the job stops there.
    """
    left = [part for part in parts if not store.has(part.key)]
    shown = _Shown(how.progress, len(parts), len(parts) - len(left))
    if not left:
        return []
    if how.address == HERE:
        answers = _here(work, shared, left)
    else:
        answers = _Cluster(how).answers(work, shared, left)
    failed: list[Failure] = []
    # Closed here: tasks that are left are cancelled, whatever ends the job.
    with closing(answers):
        for part, answer in answers:
            if isinstance(answer, Failure):
                if how.on_error == STOP:
                    raise ClusterError(str(answer), hint=answer.hint)
                _log.warning("%s", answer)
                failed.append(answer)
            else:
                _keep(store, part, answer)
                kept(part)
            shown.step()
    return failed


def _keep(store: Store, part: Part, result: bytes) -> None:
    try:
        store.put(part.key, result)
    except OSError as error:
        raise ClusterError(
            f"part {part.key}, on node {node_name()}: its result cannot be kept in "
            f"{store.folder}: {error}",
            hint="make room there; the same job goes on from what is kept",
        ) from error


def _here(work: Work, shared: Any, parts: Sequence[Part]) -> Answers:
    for part in parts:
        yield part, _answer(work, shared, part.key, part.arguments)


def _answer(work: Work, shared: Any, key: str, arguments: tuple[Any, ...]) -> Union[bytes, Failure]:
    """The result, or why there is none."""
    try:
        return work(shared, *arguments)
    except VitempoError as error:
        return Failure(key, node_name(), error.message, error.hint)
    except Exception as error:
        return Failure(key, node_name(), f"{type(error).__name__}: {error}")


def _task(
    work: Work, shared: Any, key: str, arguments: tuple[Any, ...], version: str
) -> Union[bytes, Failure]:
    """What runs on a node."""
    if vitempo.__version__ != version:
        return OtherVersion(
            key,
            node_name(),
            f"it has vitempo {vitempo.__version__}, and the driver {version}",
            "install the same version on every node",
        )
    return _answer(work, shared, key, arguments)


@dataclass(frozen=True)
class OtherVersion(Failure):
    """A node with another version of vitempo."""


def node_name() -> str:
    """Of the node that runs this: its Ray identity, where it has one, and its host."""
    host = socket.gethostname()
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return host
    return f"{ray.get_runtime_context().get_node_id()} ({host})"


def ray_module() -> Any:
    """Ray.

    Raises:
        ClusterError: It is not installed.
    """
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise ClusterError(
            "jobs on a cluster need Ray, which is not installed",
            hint="pip install 'vitempo[ray]'; the address `here` runs a job without it",
        ) from error


class _Cluster:
    """A connected cluster."""

    def __init__(self, how: Settings) -> None:
        self.how = how
        self.ray = ray_module()
        connect(how.address)
        # Nodes with another version, which get no more tasks.
        self.avoided: set[str] = set()

    def answers(self, work: Work, shared: Any, parts: Sequence[Part]) -> Answers:
        """The results as they come."""
        task = self.ray.remote(_task)
        common = (self.ray.put(work), self.ray.put(shared))
        waiting = list(reversed(parts))
        running: dict[Any, Part] = {}
        absent: dict[str, float] = {}
        try:
            while waiting or running:
                while waiting and len(running) < self._most():
                    part = waiting.pop()
                    running[self._submit(task, common, part)] = part
                ready, _ = self.ray.wait(list(running), num_returns=1, timeout=WAIT_S)
                for reference in ready:
                    part = running.pop(reference)
                    answer = self._get(reference, part)
                    if isinstance(answer, OtherVersion) and self._avoids(answer):
                        waiting.append(part)
                    else:
                        yield part, answer
                if not ready:
                    yield from self._give_up(running, absent)
        finally:
            for reference in running:
                self.ray.cancel(reference, force=True)

    def _most(self) -> int:
        """Tasks that are submitted at once: each core has the next one waiting."""
        return 2 * max(1, int(self.ray.cluster_resources().get("CPU", 1))) + 8

    def _submit(self, task: Any, common: tuple[Any, Any], part: Part) -> Any:
        options: dict[str, Any] = {
            "num_cpus": part.cpus,
            "resources": dict(part.resources),
            "max_retries": TRIES,
            "name": part.key,
        }
        if self.avoided:
            nodes = ",".join(sorted(self.avoided))
            options["label_selector"] = {"ray.io/node-id": f"!in({nodes})"}
        arguments = (part.key, part.arguments, vitempo.__version__)
        return task.options(**options).remote(*common, *arguments)

    def _get(self, reference: Any, part: Part) -> Union[bytes, Failure]:
        try:
            answer: Union[bytes, Failure] = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            return Failure(part.key, "unknown", f"{type(error).__name__}: {error}")
        return answer

    def _avoids(self, answer: OtherVersion) -> bool:
        """Whether the part can go to another node."""
        if self.how.on_error == STOP:
            return False
        self.avoided.add(answer.node.split()[0])
        alive = {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}
        _log.warning("%s; the node gets no more parts", answer)
        return bool(alive - self.avoided)

    def _give_up(
        self, running: dict[Any, Part], absent: dict[str, float]
    ) -> Generator[tuple[Part, Failure], None, None]:
        """Parts that wait for a device which no node has had for too long."""
        there, now = self.ray.cluster_resources(), time.monotonic()
        for reference, part in list(running.items()):
            missing = [name for name in part.resources if name not in there]
            for name in missing:
                if name not in absent:
                    _log.warning("no node has the resource %s: its parts wait", name)
            since = [absent.setdefault(name, now) for name in missing]
            if since and now - min(since) >= self.how.wait_s:
                del running[reference]
                self.ray.cancel(reference, force=True)
                name = missing[0]
                yield (
                    part,
                    Failure(
                        part.key,
                        "none",
                        f"no node has the resource {name}",
                        f"start a node with it: ray start --resources='{{\"{name}\": 1}}'",
                    ),
                )
        for name in [name for name in absent if name in there]:
            del absent[name]


def connect(address: Optional[str]) -> None:
    """Connects this process to a cluster, where it is not connected to one."""
    ray = ray_module()
    if ray.is_initialized():
        return
    where = address or os.environ.get("RAY_ADDRESS") or "local"
    try:
        _reach(where)
        ray.init(
            address=where,
            log_to_driver=False,
            configure_logging=False,
            **({"include_dashboard": False} if where == "local" else {}),
        )
    except ConnectionError as error:
        raise ClusterError(
            f"no Ray cluster at {where}: {error}",
            hint="`ray start --head` starts one; the address `local` starts one for the job",
        ) from error


def _reach(address: str) -> None:
    """Tries `HOST:PORT`, which Ray itself would try for a minute.

    Raises:
        ConnectionError: Nothing listens there.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        try:
            socket.create_connection((host, int(port)), timeout=CONNECT_WITHIN_S).close()
        except OSError as error:
            raise ConnectionError(str(error)) from error


class _Shown:
    """How much is done."""

    def __init__(self, progress: Progress, total: int, done: int) -> None:
        self.progress, self.total, self.done = progress, total, done
        self.show()

    def step(self) -> None:
        self.done += 1
        self.show()

    def show(self) -> None:
        if callable(self.progress):
            self.progress(self.done, self.total)
        elif self.progress:
            left = self.total - self.done
            print(f"{self.done} of {self.total} parts, {left} left", file=sys.stderr, flush=True)


def ranges(first: int, end: int, size: int) -> Iterable[tuple[int, int]]:
    """A range in pieces of a size."""
    return ((start, min(start + size, end)) for start in range(first, end, size))
