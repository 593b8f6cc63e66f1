"""Lakes: tables, parts and scans; cards that Croissant's checker accepts; the programs of the
guide; campaigns that append to one. The program makes them."""

from __future__ import annotations

import json
import os

import pytest
from conftest import MODELS, ROOT
from test_docs import blocks
from test_jobs import FEWEST

import vitempo
from vitempo import _program, cluster
from vitempo._columns import COLUMNS

PROGRAM = os.environ.get("VITEMPO_PROGRAM")
DATA = ROOT / "datasets/measured/epyc-engines-20-models"
OF = {
    "name": "latencies",
    "description": "Latencies.",
    "license": "MIT",
    "creator": "vitempo",
    "url": "https://example.org/latencies",
    "published": "2026-11-27",
}

pytestmark = pytest.mark.skipif(not PROGRAM, reason="VITEMPO_PROGRAM names no program")


@pytest.fixture(scope="module")
def lake(tmp_path_factory) -> vitempo.Dataset:
    path = tmp_path_factory.mktemp("lakes") / "lake"
    _program.printed(["dataset", "append", str(DATA), "--to", str(path)])
    return vitempo.Dataset(path)


def test_a_lake_is_a_dataset_with_files(lake):
    folder = vitempo.Dataset(DATA)
    assert lake.is_lake and not folder.is_lake
    assert lake.environments == folder.environments and lake.validate()
    assert lake.inspect()["runs"] == folder.inspect()["runs"]
    for table in lake:
        of = [part for part in lake.parts() if part.table == table]
        assert sum(part.rows for part in of) == len(lake.table(table)) == len(folder.table(table))
    with pytest.raises(vitempo.InvalidDataset, match="whole tables"):
        folder.parts()
    with pytest.raises(vitempo.InvalidDataset, match="no column"):
        lake.scan("models", columns=["weight"])


def test_a_scan_reads_the_files_that_it_needs(lake):
    environment = sorted(lake.environments)[0]
    scan = lake.scan(
        "operator_measurements",
        environments=[environment],
        kinds=["conv"],
        columns=["op_id", "environment_id"],
    )
    (table,) = list(scan)
    assert set(table["environment_id"]) == {environment}
    operators = lake.table("operators", ["op_id", "kind"])
    kinds = dict(zip(operators["op_id"], operators["kind"]))
    assert {kinds[op] for op in table["op_id"]} == {"conv"}


@pytest.mark.filterwarnings("ignore")
def test_the_checker_of_croissant_accepts_a_lake_and_reads_its_rows(lake):
    vitempo.data_card(lake, **OF).write(lake.path)
    assert lake.validate() and not [f for f in lake.validate().findings if "json" in f.file]
    with open(os.path.join(lake.path, "README.md")) as file:
        front = file.read().split("---\n")[1]
    for table in COLUMNS:
        assert f'- config_name: {table}\n  data_files: "{table}/' in front
    croissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    checked = croissant.Dataset(jsonld=os.path.join(lake.path, "croissant.json"))
    assert not checked.metadata.ctx.issues.errors and not checked.metadata.ctx.issues.warnings
    for table in ("environments", "models", "model_measurements"):
        rows = list(checked.records(table))
        assert len(rows) == len(lake.table(table))


@pytest.mark.filterwarnings("ignore")
def test_the_programs_of_the_guide_run(lake, tmp_path, monkeypatch):
    for module in ("pandas", "polars", "duckdb"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    (tmp_path / "lake").symlink_to(lake.path)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    programs = blocks((ROOT / "docs/lake.md").read_text())
    assert len(programs) == 2
    for program in programs:
        exec(compile(program, "docs/lake.md", "exec"), names)


def test_a_campaign_appends_each_batch_once(tmp_path):
    models = [MODELS / f"{name}.onnx" for name in ("mobilevit_xxs", "edgenext_xx_small")]
    options = {"batch": 1, "options": FEWEST, "address": "here", "lake": tmp_path / "lake"}
    devices = [cluster.Device("near", backend="null"), cluster.Device("no", backend="no-engine")]
    with pytest.raises(vitempo.ClusterError, match="no-engine"):
        cluster.campaign(models, devices, tmp_path / "job", **options)
    # What was measured before the error is there.
    assert vitempo.Dataset(tmp_path / "lake").inspect()["runs"] == 2
    found = cluster.campaign(models, devices, tmp_path / "job", on_error="go-on", **options)
    assert len(found.failed) == 2 and found.dataset.path == str(tmp_path / "lake")
    assert found.dataset.inspect()["runs"] == 2, "each batch counts once"
    # A driver that was killed before it appended its batches does so when it goes on.
    other = {**options, "lake": tmp_path / "other"}
    found = cluster.campaign(models, devices, tmp_path / "job", on_error="go-on", **other)
    assert found.dataset.inspect()["runs"] == 2 and found.dataset.validate()
    commits = sorted(os.listdir(tmp_path / "other/_commits"))
    assert len(commits) == 2 and json.loads((tmp_path / "other/_commits" / commits[0]).read_text())
