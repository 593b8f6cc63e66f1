"""Tables by Arrow's PyCapsule interface: read here by ctypes, and by libraries that are there."""

from __future__ import annotations

import ctypes
import gc

import numpy as np
import pytest


class Schema(ctypes.Structure):
    pass


Schema._fields_ = [
    ("format", ctypes.c_char_p),
    ("name", ctypes.c_char_p),
    ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


class Array(ctypes.Structure):
    pass


Array._fields_ = [
    ("length", ctypes.c_int64),
    ("null_count", ctypes.c_int64),
    ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64),
    ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))),
    ("dictionary", ctypes.c_void_p),
    ("release", ctypes.c_void_p),
    ("private_data", ctypes.c_void_p),
]


def pointer(capsule: object, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(capsule, name)


def test_the_structures_of_a_table_are_those_of_arrow(bundle, model):
    operators = bundle.predict(model).operators
    schema_capsule, array_capsule = operators.__arrow_c_array__()
    schema = Schema.from_address(pointer(schema_capsule, b"arrow_schema"))
    array = Array.from_address(pointer(array_capsule, b"arrow_array"))
    assert schema.format == b"+s" and schema.n_children == 5 and schema.release
    fields = [schema.children[i].contents for i in range(5)]
    assert [f.name.decode() for f in fields] == operators.keys()
    assert [f.format for f in fields] == [b"U", b"U", b"g", b"U", b"b"]
    assert array.length == len(operators) and array.n_children == 5 and array.null_count == 0
    ms = array.children[2].contents
    values = (ctypes.c_double * array.length).from_address(ms.buffers[1])
    assert list(values) == operators["ms"].tolist()
    assert ms.buffers[1] == operators["ms"].ctypes.data, "no copy"
    names = array.children[0].contents
    offsets = (ctypes.c_int64 * (array.length + 1)).from_address(names.buffers[1])
    text = ctypes.string_at(names.buffers[2], offsets[array.length]).decode()
    cut = [text[offsets[i] : offsets[i + 1]] for i in range(array.length)]
    assert cut == operators["name"].tolist()
    flags = array.children[4].contents
    bits = ctypes.string_at(flags.buffers[1], (array.length + 7) // 8)
    read = [bool(bits[i // 8] >> (i % 8) & 1) for i in range(array.length)]
    assert read == operators["extrapolating"].tolist()


def test_structures_are_released_once_and_keep_their_columns(bundle, model):
    for _ in range(30):
        operators = bundle.predict(model).operators
        stream = operators.__arrow_c_stream__()
        both = operators.__arrow_c_array__()
        del operators
        gc.collect()
        assert stream is not None and len(both) == 2
    assert bundle.predict(model).operators.__arrow_c_schema__() is not None


def test_columns_as_numpy_arrays(bundle, model):
    operators = bundle.predict(model).operators
    columns = {name: operators[name] for name in operators.keys()}
    assert columns["name"].dtype == object and columns["extrapolating"].dtype == np.bool_
    assert "ms" in operators and "seconds" not in operators
    assert repr(operators) == f"Table({len(operators)} rows: {', '.join(operators.keys())})"
    assert dict(operators).keys() == columns.keys()


def test_pyarrow_takes_tables_without_a_copy(bundle, model, encodings):
    pyarrow = pytest.importorskip("pyarrow")
    operators = bundle.predict(model).operators
    table = pyarrow.table(operators)
    assert table.column_names == operators.keys() and table.num_rows == len(operators)
    address = table["ms"].chunk(0).buffers()[1].address
    assert address == operators["ms"].ctypes.data
    batch = bundle.predict(encodings)
    taken = pyarrow.table(batch)
    del batch
    gc.collect()
    assert taken["encoding"].to_pylist() == encodings
    assert pyarrow.record_batch(operators).num_rows == len(operators)
    taken.validate(full=True)
    table.validate(full=True)


def test_polars_takes_tables(bundle, model, encodings):
    polars = pytest.importorskip("polars")
    operators = bundle.predict(model).operators
    frame = polars.DataFrame(operators)
    assert frame.columns == operators.keys()
    assert frame["ms"].sum() == pytest.approx(operators["ms"].sum())
    assert polars.DataFrame(bundle.predict(encodings))["encoding"].to_list() == encodings


def test_pandas_takes_tables(bundle, model, encodings):
    pandas = pytest.importorskip("pandas")
    operators = bundle.predict(model).operators
    frame = pandas.DataFrame(dict(operators))
    assert list(frame.columns) == operators.keys() and len(frame) == len(operators)
    if hasattr(pandas.DataFrame, "from_arrow"):
        pytest.importorskip("pyarrow")
        frame = pandas.DataFrame.from_arrow(bundle.predict(encodings))
        assert frame["encoding"].tolist() == encodings
