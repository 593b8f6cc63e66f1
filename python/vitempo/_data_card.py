"""What describes a dataset to other programs: Croissant metadata and a Hugging Face card."""

from __future__ import annotations

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from ._columns import COLUMNS
from ._dataset import Dataset
from ._files import write_whole
from .errors import InvalidDataset

CROISSANT = "croissant.json"
CARD = "README.md"
CONFORMS_TO = "http://mlcommons.org/croissant/1.0"

TABLES = {
    "environments": "Where it was measured: device, engine and its version, threads, precision.",
    "operators": "Every distinct operator, once.",
    "models": "Every model, with its graph.",
    "operator_measurements": "One row for each operator and run of a model.",
    "model_measurements": "One row for each run of a model.",
}

# The vocabulary of Croissant 1.0, as its specification gives it.
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "samplingRate": "cr:samplingRate",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


@dataclass(frozen=True)
class DataCard:
    """The description of a dataset.

    Attributes:
        croissant: Croissant metadata (JSON-LD): files with their digests, tables, columns.
        readme: A dataset card of Hugging Face: YAML, then Markdown.
    """

    croissant: dict[str, Any]
    readme: str

    def write(self, folder: Union[str, os.PathLike[str]]) -> None:
        """Writes `croissant.json` and `README.md`, each whole or not at all."""
        text = json.dumps(self.croissant, indent=2, ensure_ascii=False) + "\n"
        for name, content in ((CROISSANT, text), (CARD, self.readme)):
            write_whole(Path(folder) / name, content.encode())


def data_card(
    dataset: Union[Dataset, str, os.PathLike[str]],
    *,
    name: str,
    description: str,
    license: str,
    creator: str,
    url: str,
    published: str,
    version: str = "1.0.0",
    citation: Optional[str] = None,
) -> DataCard:
    """Describes a dataset or a lake, so that it can be published as it is: its tables are Parquet
    files that pandas, polars, DuckDB and Spark read.

    Args:
        dataset: A dataset, or its folder, or a lake. A journal has to be in the tables: a sweep that ended.
        name: Its name.
        description: What was measured, where and how.
        license: An SPDX identifier, e.g. `MIT`.
        creator: Who measured it.
        url: Where it is published.
        published: The date, `2026-11-27`.
        version: Of the dataset.
        citation: How to cite it.

    Raises:
        InvalidDataset: It is not a dataset, is empty, or has runs that are not in its tables.
    """
    of = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
    counts = of.inspect()
    if counts["runs_in_journal"] or not counts["runs"]:
        raise InvalidDataset(
            f"{of.path}: {counts['runs_in_journal']} of {counts['runs']} runs of models are not in "
            "its tables",
            hint="end the sweep that writes it, or run it again",
        )
    croissant = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "conformsTo": CONFORMS_TO,
        "description": description,
        "license": license,
        "creator": {"@type": "sc:Organization", "name": creator},
        "url": url,
        "version": version,
        "datePublished": published,
        "citeAs": citation or f"{creator}: {name}, version {version}. {url}",
        "distribution": [_files(of, table) for table in of],
        "recordSet": [_records(of, table) for table in of],
    }
    return DataCard(croissant, _readme(of, counts, name, description, license))


def _files(dataset: Dataset, table: str) -> dict[str, Any]:
    return _file_set(table) if dataset.is_lake else _file(dataset, table)


def _file_set(table: str) -> dict[str, Any]:
    """Of a lake; the names of its files end with their digests."""
    return {
        "@type": "cr:FileSet",
        "@id": f"{table}-files",
        "name": table,
        "description": TABLES[table],
        "includes": _glob(table),
        "encodingFormat": "application/x-parquet",
    }


def _glob(table: str) -> str:
    folders = {"model_measurements": "/*", "operator_measurements": "/*/*"}
    return f"{table}{folders.get(table, '')}/*.parquet"


def _file(dataset: Dataset, table: str) -> dict[str, Any]:
    path = Path(dataset.path) / f"{table}.parquet"
    return {
        "@type": "cr:FileObject",
        "@id": path.name,
        "name": path.name,
        "description": TABLES[table],
        "contentUrl": path.name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": "application/x-parquet",
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }


def _columns(dataset: Dataset, table: str) -> dict[str, tuple[str, str]]:
    """Those of the file, which lacks what came after its version."""
    if dataset.is_lake:
        return COLUMNS[table]
    schema = json.loads((Path(dataset.path) / "schema.json").read_text())
    version = int(schema["schema_version"])
    since = {
        column: re.search(r"since version (\d+)$", meaning)
        for column, (_, meaning) in COLUMNS[table].items()
    }
    return {
        column: of
        for column, of in COLUMNS[table].items()
        if (found := since[column]) is None or int(found[1]) <= version
    }


def _records(dataset: Dataset, table: str) -> dict[str, Any]:
    columns = _columns(dataset, table).items()
    fields = [_field(dataset, table, column, *of) for column, of in columns]
    if dataset.is_lake and table == "operator_measurements":
        fields.append(_kind(table))
    return {
        "@type": "cr:RecordSet",
        "@id": table,
        "name": table,
        "description": TABLES[table],
        "field": fields,
    }


def _field(dataset: Dataset, table: str, column: str, kind: str, meaning: str) -> dict[str, Any]:
    source = {"fileSet": {"@id": f"{table}-files"}}
    if not dataset.is_lake:
        source = {"fileObject": {"@id": f"{table}.parquet"}}
    field: dict[str, Any] = {
        "@type": "cr:Field",
        "@id": f"{table}/{column}",
        "name": column,
        "description": meaning,
        "dataType": "sc:Text" if kind.startswith("text") else "sc:Integer",
        "source": {**source, "extract": {"column": column}},
    }
    return {**field, "repeated": True} if kind.startswith("list") else field


def _kind(table: str) -> dict[str, Any]:
    """The kind of operator, which a lake has in the names of its folders."""
    return {
        "@type": "cr:Field",
        "@id": f"{table}/kind",
        "name": "kind",
        "description": "what the operator computes, as in `operators`; percent-encoded",
        "dataType": "sc:Text",
        "source": {
            "fileSet": {"@id": f"{table}-files"},
            "extract": {"fileProperty": "fullpath"},
            "transform": {"regex": ".*/kind=([^/]+)/.*"},
        },
    }


def _readme(
    dataset: Dataset, counts: dict[str, Any], name: str, description: str, license: str
) -> str:
    head = ["---", f"license: {license.lower()}", f"pretty_name: {json.dumps(name)}"]
    head += ["tags:", "- latency", "- vision", "- croissant", "configs:"]
    for table in dataset:
        files = _glob(table) if dataset.is_lake else f"{table}.parquet"
        head += [f"- config_name: {table}", f"  data_files: {json.dumps(files)}"]
        head += ["  default: true"] if table == "model_measurements" else []
    head.append("---")
    lines = [f"# {name}", "", description, "", f"{counts['runs']} runs of models.", ""]
    lines += ["| environment | what |", "|---|---|"]
    lines += [f"| `{of}` | {what} |" for of, what in sorted(dataset.environments.items())]
    for table in dataset:
        lines += ["", f"## {table}.parquet", "", TABLES[table], "", "| column | meaning |"]
        lines += ["|---|---|"]
        lines += [f"| `{c}` | {of[1]} |" for c, of in _columns(dataset, table).items()]
    return "\n".join([*head, *lines]) + "\n"
