"""The Python blocks of the guides run, in order, as one program with the models that ship."""

from __future__ import annotations

import shutil

import pytest
from conftest import MODELS, ROOT


def blocks(text: str) -> list[str]:
    return [part.split("```")[0] for part in text.split("```python\n")[1:]]


@pytest.mark.parametrize("guide", ["docs/python.md", "docs/scale.md", "python/README.md"])
def test_the_programs_of_the_guide_run(guide, tmp_path, monkeypatch):
    programs = blocks((ROOT / guide).read_text())
    assert programs, "no ```python block"
    shutil.copytree(MODELS, tmp_path / "real")
    shutil.copy(MODELS / "mobilevit_xxs.onnx", tmp_path / "vit.onnx")
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for program in programs:
        exec(compile(program, guide, "exec"), names)


def test_the_guide_names_every_adapter():
    guide = (ROOT / "docs/python.md").read_text()
    modules = {path.stem for path in (ROOT / "python/vitempo").glob("[a-z]*.py")}
    for module in modules - {"errors", "plan"}:
        assert f"`vitempo.{module}`" in guide, module
