"""Jobs on a Ray cluster of two nodes with one core each, on this machine: the bytes of one process,
also where a worker, a node or the driver is killed."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import MODELS
from test_jobs import measured

import vitempo
from vitempo import cluster

ray = pytest.importorskip("ray", reason="Ray is not installed")
cluster_utils = pytest.importorskip("ray.cluster_utils", reason="Ray has no test cluster")

# Ray's own warnings are not ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(os.name != "posix", reason="signals of POSIX"),
]

PROGRAM = os.environ.get("VITEMPO_PROGRAM")
SPACE = "isotropic-vit"
BUNDLE = "epyc-onnxruntime-f32-1t"
NODE = {"num_cpus": 1, "object_store_memory": 80 << 20}
# The machine may be full of other work.
NO_LIMIT = {"RAY_memory_monitor_refresh_ms": "0"}


class Nodes:
    """A head node, and others that come and go."""

    def __init__(self) -> None:
        self.cluster = cluster_utils.Cluster(
            initialize_head=True, head_node_args={**NODE, "env_vars": NO_LIMIT}
        )
        self.others: list[object] = []

    def add(self, env_vars=None, **options):
        env = {**NO_LIMIT, **(env_vars or {})}
        node = self.cluster.add_node(**{**NODE, **options, "env_vars": env})
        self.others.append(node)
        return node

    def kill(self, node) -> None:
        """kill -9 of the node's processes."""
        self.others.remove(node)
        self.cluster.remove_node(node, allow_graceful=False)

    def only_head(self) -> None:
        for node in list(self.others):
            self.kill(node)


@pytest.fixture(scope="module")
def nodes():
    before = {name: os.environ.get(name) for name in NO_LIMIT}
    os.environ.update(NO_LIMIT)
    made = Nodes()
    ray.init(address=made.cluster.address, log_to_driver=False, configure_logging=False)
    yield made
    ray.shutdown()
    made.cluster.shutdown()
    for name, value in before.items():
        os.environ.pop(name) if value is None else os.environ.update({name: value})


@pytest.fixture
def two(nodes):
    """Two nodes."""
    nodes.add()
    yield nodes
    nodes.only_head()


def score(out, **options):
    few = {"count": 1200, "part": 200, "top": 7, **options}
    return cluster.score(SPACE, BUNDLE, out, **few)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The bytes of one process."""
    out = tmp_path_factory.mktemp("alone")
    score(out, address="here")
    return (out / "result.json").read_bytes()


def test_two_nodes_give_the_bytes_of_one_process(two, tmp_path, alone):
    done: list[int] = []
    score(tmp_path, progress=lambda finished, total: done.append(finished))
    assert (tmp_path / "result.json").read_bytes() == alone
    assert done == list(range(7))


def test_a_worker_that_is_killed_loses_nothing(two, tmp_path, alone):
    mark = tmp_path / "killed"

    def objective(encodings, flops=None):
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return [float(len(encoding)) for encoding in encodings]

    score(tmp_path / "job", objective=objective)
    assert mark.exists()
    here = tmp_path / "here"
    score(here, objective=objective, address="here")
    same = [(folder / "result.json").read_bytes() for folder in (tmp_path / "job", here)]
    assert same[0] == same[1]


def test_a_node_that_is_killed_loses_nothing(nodes, tmp_path, alone):
    node = nodes.add()

    def kill(finished, total):
        if finished == 1:
            nodes.kill(node)

    score(tmp_path, progress=kill)
    assert not nodes.others
    assert (tmp_path / "result.json").read_bytes() == alone


def test_a_driver_that_is_killed_goes_on(two, tmp_path, alone):
    command = [sys.executable, "-m", "vitempo.cluster", "score", "--space", SPACE]
    command += ["--bundle", BUNDLE, "--count", "1200", "--part", "200", "--top", "7"]
    command += ["--address", two.cluster.address, "--out", str(tmp_path)]
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in driver.stderr:
        if line.startswith("2 of"):
            driver.kill()
            break
    driver.stderr.close()
    assert driver.wait() == -signal.SIGKILL
    kept = len(os.listdir(tmp_path / "parts"))
    assert kept >= 2 and not (tmp_path / "result.json").exists()
    begun: list[int] = []
    score(tmp_path, progress=lambda finished, total: begun.append(finished))
    assert begun[0] >= kept, "what was done is not done again"
    assert (tmp_path / "result.json").read_bytes() == alone


def test_an_objective_that_fails_is_named_with_node_and_part(two, tmp_path):
    poison = vitempo.Space(SPACE).nth(500)

    def objective(encodings):
        if poison in encodings:
            raise ArithmeticError("diverged")
        return [float(len(encoding)) for encoding in encodings]

    names = {node["NodeID"] for node in ray.nodes()}
    with pytest.raises(vitempo.ClusterError, match="part 400-600, on node .*diverged") as error:
        score(tmp_path / "stop", objective=objective)
    assert any(name in error.value.message for name in names)
    found = score(tmp_path / "on", objective=objective, on_error="go-on")
    assert [f.part for f in found.failed] == ["400-600"] and found.candidates == 1000
    assert found.failed[0].node.split()[0] in names


class Lengths:
    """Made once in each actor."""

    def __call__(self, encodings):
        return [float(len(encoding)) for encoding in encodings]


def test_an_objective_in_actors(two, tmp_path):
    lengths = Lengths.__call__

    def plain(encodings):
        return [float(len(encoding)) for encoding in encodings]

    assert lengths and Lengths()(["abc"]) == [3.0]
    options = {"candidates": 240, "population": 20, "populations": 2, "ceilings": 60.0}
    found = cluster.search(SPACE, BUNDLE, tmp_path / "a", objective=plain, actors=2, **options)
    cluster.search(SPACE, BUNDLE, tmp_path / "b", objective=plain, address="here", **options)
    same = [(tmp_path / of / "result.json").read_bytes() for of in "ab"]
    assert same[0] == same[1] and found.candidates == 240

    def nan(encodings):
        return [float("nan")] * len(encodings)

    with pytest.raises(vitempo.ClusterError, match="part population-[01], on node .* is NaN"):
        cluster.search(SPACE, BUNDLE, tmp_path / "c", objective=nan, actors=1, **options)


def other_version(folder: Path) -> str:
    """A copy of the package that says it is another version; PYTHONPATH for it."""
    package = Path(vitempo.__file__).parent
    folder.mkdir()
    shutil.copytree(package, folder / "vitempo", ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder / "vitempo/__init__.py", "a") as file:
        file.write('\n__version__ = "0.0.9"\n')
    return str(folder)


def test_a_node_with_another_version_is_named_and_left_out(nodes, tmp_path, alone):
    path = other_version(tmp_path / "other")
    node = nodes.add(env_vars={"PYTHONPATH": path})
    try:
        with pytest.raises(vitempo.ClusterError, match="on node .*vitempo 0.0.9, and the driver"):
            score(tmp_path / "stop")
        found = score(tmp_path / "on", on_error="go-on")
        assert not found.failed
        assert (tmp_path / "on/result.json").read_bytes() == alone
    finally:
        nodes.kill(node)


def test_a_full_disk_on_one_node_is_named(nodes, tmp_path, alone):
    """A bundle goes to the node as a file, for which there is no room."""
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(small)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("this user cannot mount a small file system")
    bundle = tmp_path / "mine.vtb"
    shutil.copy(Path(__file__).parents[2] / f"bundles/{BUNDLE}.vtb", bundle)
    node = nodes.add(env_vars={"TMPDIR": str(small)}, resources={"small": 1.0})
    try:
        with pytest.raises(vitempo.ClusterError, match="on node .*No space left") as error:
            cluster.score(SPACE, bundle, tmp_path / "stop", count=2400, part=200)
        full = [of["NodeID"] for of in ray.nodes() if "small" in of["Resources"]]
        assert full[0] in error.value.message
        found = cluster.score(SPACE, bundle, tmp_path / "on", count=600, part=100, on_error="go-on")
        assert {f.node.split()[0] for f in found.failed} == set(full)
    finally:
        nodes.kill(node)
        subprocess.run(["umount", "-l", str(small)], check=False)
    found = cluster.score(SPACE, bundle, tmp_path / "on", count=600, part=100, on_error="go-on")
    assert not found.failed and found.candidates == 600


needs_program = pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")


@needs_program
def test_shares_of_two_nodes_train_the_bundle_of_one_machine(two, tmp_path):
    data = measured(tmp_path / "data")
    found = cluster.train(data, tmp_path / "job", method="lasso", shares=3)
    assert len(found.bundles) == 2 and len(os.listdir(tmp_path / "job/parts")) == 8
    for name in found.bundles:
        alone = tmp_path / "alone.vtb"
        vitempo.train(data, alone, environment=name, method="lasso")
        assert alone.read_bytes() == (tmp_path / f"job/{name}.vtb").read_bytes()


@needs_program
def test_a_device_that_vanishes_puts_its_batch_back(nodes, tmp_path):
    models = [MODELS / f"{name}.onnx" for name in ("mobilevit_xxs", "edgenext_xx_small")]
    few = ["--min-repeats", "2", "--max-repeats", "2"]
    device = [cluster.Device("board", backend="null")]
    options = {"batch": 1, "options": few}
    node = nodes.add(resources={"device:board": 1.0})
    back = []

    def vanish(finished, total):
        if finished == 1 and not back:
            nodes.kill(node)

    class Return(logging.Handler):
        """The device is back once its batch waits."""

        def emit(self, record):
            if not back and "no node has the resource device:board" in record.getMessage():
                back.append(nodes.add(resources={"device:board": 1.0}))

    waits = Return()
    logging.getLogger("vitempo").addHandler(waits)
    try:
        found = cluster.campaign(models, device, tmp_path / "job", progress=vanish, **options)
    finally:
        logging.getLogger("vitempo").removeHandler(waits)
    runs = found.dataset.table("model_measurements", ["model", "sitting"])
    assert sorted(runs["model"]) == ["edgenext_xx_small", "mobilevit_xxs"]
    assert found.dataset.validate()
    nodes.kill(back[0])
    with pytest.raises(vitempo.ClusterError, match="no node has the resource device:board"):
        cluster.campaign(models, device, tmp_path / "none", wait=1.0, **options)


def test_commands_need_a_cluster_that_is_there(tmp_path):
    command = [sys.executable, "-m", "vitempo.cluster", "score", "--bundle", BUNDLE, "--count", "5"]
    command += ["--out", str(tmp_path), "--address", "127.0.0.1:1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1 and "no Ray cluster at 127.0.0.1:1" in ended.stderr
    assert "hint: " in ended.stderr
    assert json.loads((tmp_path / "job.json").read_text())["job"] == "score"


def test_no_process_of_a_job_is_left(nodes):
    end = time.monotonic() + 30
    while time.monotonic() < end and nodes.others:
        time.sleep(0.1)
    assert not nodes.others
