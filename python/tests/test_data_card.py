"""Descriptions of datasets: Croissant as its own checker reads it, and the columns of the guide."""

from __future__ import annotations

import hashlib
import json
import re
import shutil

import pytest
from conftest import ROOT
from test_docs import blocks

import vitempo
from vitempo._columns import COLUMNS

DATA = ROOT / "datasets/measured/epyc-engines-20-models"
OF = {
    "name": "latencies",
    "description": "Latencies.",
    "license": "MIT",
    "creator": "vitempo",
    "url": "https://example.org/latencies",
    "published": "2026-11-21",
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published") / "data"
    shutil.copytree(DATA, folder)
    vitempo.data_card(folder, **OF).write(folder)
    return folder


def test_types_and_meanings_are_those_of_the_schema():
    text = (ROOT / "docs/dataset-schema.md").read_text()
    for table, columns in COLUMNS.items():
        section = text.split(f"## {table}.parquet\n")[1].split("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|(.*)\|$", section, re.MULTILINE)
        assert [row[0] for row in rows] == list(columns)
        for column, kind, meaning in rows:
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", meaning.strip())
            assert columns[column][0] == kind and columns[column][1].endswith(plain), column
    assert list(COLUMNS) == vitempo.Dataset(DATA).keys()


def test_a_dataset_with_a_card_is_still_one(published):
    assert vitempo.Dataset(published).validate()
    croissant = json.loads((published / "croissant.json").read_text())
    for file in croissant["distribution"]:
        content = (published / file["contentUrl"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"]
    front = (published / "README.md").read_text().split("---\n")[1]
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    head = yaml.safe_load(front)
    assert head["license"] == "mit" and [c["default"] for c in head["configs"] if "default" in c]
    assert {c["data_files"] for c in head["configs"]} == {f"{t}.parquet" for t in COLUMNS}


@pytest.mark.filterwarnings("ignore")
def test_the_checker_of_croissant_accepts_it_and_reads_the_rows(published):
    croissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    checked = croissant.Dataset(jsonld=str(published / "croissant.json"))
    assert not checked.metadata.ctx.issues.errors and not checked.metadata.ctx.issues.warnings
    of = vitempo.Dataset(published)
    for table in ("environments", "models", "model_measurements"):
        rows = list(checked.records(table))
        columns = of.table(table)
        assert len(rows) == len(columns)
        assert {name.split("/")[1] for name in rows[0]} <= set(columns.keys())
    first = of.table("model_measurements", ["model", "e2e_wall_ns"])
    assert rows[0]["model_measurements/model"].decode() == first["model"][0]
    assert list(rows[0]["model_measurements/e2e_wall_ns"]) == list(first["e2e_wall_ns"][0])


def test_a_dataset_without_tables_has_no_card(published, tmp_path):
    with pytest.raises(vitempo.InvalidDataset):
        vitempo.data_card(tmp_path, **OF)


@pytest.mark.filterwarnings("ignore")
def test_the_programs_of_the_guide_run(tmp_path, monkeypatch):
    for module in ("pandas", "polars", "duckdb"):
        pytest.importorskip(module, reason=f"{module} is not installed")
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    programs = blocks((ROOT / "docs/datasets.md").read_text())
    assert len(programs) == 2
    for program in programs:
        exec(compile(program, "docs/datasets.md", "exec"), names)
