"""The notebooks run, cell by cell, each in a process of its own in its folder. The last expression
of a cell is shown as a notebook shows it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest
from conftest import ROOT

FOLDER = ROOT / "python/notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
# Packages beyond vitempo and NumPy.
NEEDS = {"2-search-with-optuna": "optuna"}

RUN = """
import ast, json, sys

names = {}
for number, source in enumerate(json.load(sys.stdin)):
    tree = ast.parse(source, f"cell {number}")
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        if value is not None:
            show = getattr(value, "_repr_html_", value.__repr__)
            assert show(), value
"""


def cells(path) -> list[dict]:
    return json.loads(path.read_text())["cells"]


def test_there_are_five():
    assert [path.stem[0] for path in NOTEBOOKS] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path):
    needed = NEEDS.get(path.stem)
    if needed and importlib.util.find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    sources = ["".join(cell["source"]) for cell in cells(path) if cell["cell_type"] == "code"]
    done = subprocess.run(
        [sys.executable, "-c", RUN],
        input=json.dumps(sources),
        cwd=FOLDER,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_has_no_results(path):
    for cell in cells(path):
        assert cell.get("outputs", []) == [] and cell.get("execution_count") is None
        assert cell["cell_type"] in ("code", "markdown") and cell["source"]
