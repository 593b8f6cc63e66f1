"""Datasets: tables as Arrow and NumPy, counts, and checks."""

from __future__ import annotations

import ctypes
import shutil

import numpy as np
import pytest
from conftest import ROOT
from test_tables import Array, Schema, pointer

import vitempo

FOLDER = ROOT / "datasets/measured/epyc-onnxruntime-f32-1t"


@pytest.fixture(scope="module")
def dataset() -> vitempo.Dataset:
    return vitempo.Dataset(FOLDER)


def test_a_dataset_is_a_mapping_of_tables(dataset, bundle):
    assert list(dataset) == [
        "environments",
        "operators",
        "models",
        "operator_measurements",
        "model_measurements",
    ]
    assert "models" in dataset and "nodes" not in dataset and len(dataset) == 5
    assert set(dataset.environments) == set(dataset["environments"]["environment_id"])
    assert all("onnxruntime" in line for line in dataset.environments.values())
    assert repr(dataset).endswith(": 1 environments)")


def test_columns_are_arrays(dataset):
    runs = dataset["model_measurements"]
    samples = runs["e2e_wall_ns"]
    assert samples.dtype == object and len(samples) == len(runs)
    assert all(values.dtype == np.uint64 for values in samples)
    # Networks around single operators have no end-to-end samples.
    measured = [values for values in samples if len(values)]
    ms = np.array([np.median(values) for values in measured]) / 1e6
    assert len(measured) > 500
    assert 0.1 < ms.min() < ms.max() < 10_000
    assert runs["round"].dtype == np.uint64 and not runs["round"].flags.writeable
    assert set(runs["status"]) == {"ok"} and set(runs["reason"]) == {None}
    missing = runs["peak_memory_bytes"]
    assert isinstance(missing, np.ma.MaskedArray) and missing.mask.all(), "of version 1"


def test_columns_are_chosen(dataset):
    some = dataset.table("models", ["architecture", "model"])
    assert set(some.keys()) == {"architecture", "model"}
    assert len(some) == len(dataset["models"])
    with pytest.raises(vitempo.InvalidDataset, match="`models` has no column `weight`"):
        dataset.table("models", ["weight"])
    with pytest.raises(vitempo.InvalidDataset, match="there is no table `nodes`"):
        dataset["nodes"]


def test_one_column_and_none(dataset):
    assert dataset.table("models", "model").keys() == ["model"]
    with pytest.raises(vitempo.InvalidArgument, match="`columns` has no name"):
        dataset.table("models", [])


def test_lists_and_missing_values_as_arrow_has_them(dataset):
    table = dataset.table("model_measurements", ["e2e_wall_ns", "peak_memory_bytes"])
    schema_capsule, array_capsule = table.__arrow_c_array__()
    schema = Schema.from_address(pointer(schema_capsule, b"arrow_schema"))
    array = Array.from_address(pointer(array_capsule, b"arrow_array"))
    fields = {schema.children[i].contents.name: i for i in range(2)}
    lists = fields[b"e2e_wall_ns"]
    assert schema.children[lists].contents.format == b"+L"
    assert schema.children[lists].contents.children[0].contents.format == b"L"
    column = array.children[lists].contents
    offsets = (ctypes.c_int64 * (array.length + 1)).from_address(column.buffers[1])
    elements = column.children[0].contents
    assert elements.length == offsets[array.length] and elements.null_count == 0
    values = (ctypes.c_uint64 * elements.length).from_address(elements.buffers[1])
    cut = [list(values[offsets[i] : offsets[i + 1]]) for i in range(array.length)]
    assert cut == [each.tolist() for each in table["e2e_wall_ns"]]
    missing = fields[b"peak_memory_bytes"]
    assert schema.children[missing].contents.flags == 2, "nullable"
    column = array.children[missing].contents
    assert column.null_count == array.length
    bits = ctypes.string_at(column.buffers[0], (array.length + 7) // 8)
    assert not any(bits)


def test_pyarrow_and_polars_take_every_table(dataset):
    pyarrow, polars = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    for name in dataset:
        table = dataset[name]
        taken = pyarrow.table(table)
        taken.validate(full=True)
        assert taken.num_rows == len(table) and taken.column_names == table.keys()
        frame = polars.DataFrame(table)
        assert frame.shape == taken.shape
    runs = dataset["model_measurements"]
    lists = polars.DataFrame(runs)["e2e_wall_ns"]
    assert lists.to_list() == [values.tolist() for values in runs["e2e_wall_ns"]]


def test_counts(dataset):
    counts = dataset.inspect()
    assert counts["runs"] == len(dataset["model_measurements"]) and counts["runs_in_journal"] == 0
    (environment,) = counts["environments"].values()
    assert environment["runs"] == counts["runs"] and environment["sessions"]
    assert counts["distinct_operators"] == len(dataset["operators"])


def test_validation(dataset, tmp_path):
    found = dataset.validate()
    assert found and found.is_valid and found.rows["models"] == len(dataset["models"])
    copied = shutil.copytree(FOLDER, tmp_path / "copy")
    path = copied / "models.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    path.write_bytes(damaged)
    found = vitempo.Dataset(copied).validate()
    assert not found
    errors = [finding for finding in found.findings if finding.severity == "error"]
    assert errors[0].file == "models.parquet" and "do not match its digest" in str(errors[0])
    with pytest.raises(vitempo.InvalidDataset, match="is damaged"):
        vitempo.Dataset(copied)["models"]


def test_what_is_no_dataset(tmp_path):
    with pytest.raises(vitempo.InvalidDataset, match="is not a dataset: it has no schema.json"):
        vitempo.Dataset(tmp_path)
    with pytest.raises(vitempo.InvalidDataset, match="there is no such folder"):
        vitempo.Dataset(tmp_path / "nowhere")
