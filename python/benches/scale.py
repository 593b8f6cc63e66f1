"""One node of one core against two, on this machine, in turns: scoring and training, and what a
task costs. Each node is kept on a core of its own.

    VITEMPO_PROGRAM=target/release/vitempo python python/benches/scale.py [FOLDER OF A DATASET]

Nothing else should run meanwhile.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

from vitempo import cluster
from vitempo.cluster import _run

ROUNDS = 3
SPACE, BUNDLE = "mbconv", "epyc-onnxruntime-f32-1t"
NODE = {"num_cpus": 1, "object_store_memory": 200 << 20}


def started() -> tuple[Cluster, str]:
    """Two nodes on the first two cores, and the identity of the second."""
    cores = sorted(os.sched_getaffinity(0))[:2]
    os.sched_setaffinity(0, {cores[0]})
    nodes = Cluster(initialize_head=True, head_node_args=NODE)
    os.sched_setaffinity(0, {cores[1]})
    second = nodes.add_node(**NODE)
    os.sched_setaffinity(0, set(cores))
    ray.init(address=nodes.address, log_to_driver=False, configure_logging=False)
    return nodes, second.node_id


def nothing(shared: object, number: int) -> bytes:
    """The work of an empty part."""
    return b""


def empty(out: Path) -> None:
    """A job of empty parts."""
    parts = [_run.Part(f"{n}", (n,)) for n in range(300)]
    with cluster._score.Store(out, {}) as store:
        _run.run(nothing, None, parts, store, _run.Settings())


def score(out: Path) -> None:
    """A range in eight parts."""
    cluster.score(SPACE, BUNDLE, out, count=4_000_000, part=500_000)


def train(data: str, out: Path) -> None:
    """Environments, each by one task."""
    cluster.train(data, out, method="gbdt")


def seconds(job: object, *arguments: object) -> float:
    """The time of a job in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        job(*arguments, Path(folder))  # type: ignore[operator]
        return time.perf_counter() - start


def compared(name: str, second: str, job: object, *arguments: object) -> None:
    """One node and two nodes in turns."""
    original = _run._Cluster.__init__
    times: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for count in (1, 2):

            def chosen(self: object, how: object, count: int = count) -> None:
                original(self, how)  # type: ignore[arg-type]
                self.avoided = {second} if count == 1 else set()  # type: ignore[attr-defined]

            _run._Cluster.__init__ = chosen  # type: ignore[assignment, method-assign]
            times[count].append(seconds(job, *arguments))
    _run._Cluster.__init__ = original  # type: ignore[method-assign]
    ratios = [one / two for one, two in zip(times[1], times[2])]
    one, two = (", ".join(f"{t:.2f}" for t in times[count]) for count in (1, 2))
    print(f"{name}: one node {one} s; two nodes {two} s; ratio {statistics.median(ratios):.2f}")


def main() -> None:
    """Prints the figures."""
    nodes, second = started()
    print("load of the machine:", os.getloadavg())
    seconds(empty)  # workers are started
    print(f"a part of nothing: {seconds(empty) / 300 * 1e3:.2f} ms")
    compared("scoring 4 000 000 architectures", second, score)
    for data in sys.argv[1:]:
        compared(f"training {data}", second, train, data)
    print("load of the machine:", os.getloadavg())
    ray.shutdown()
    nodes.shutdown()


if __name__ == "__main__":
    main()
