"""Measuring and training by the program: found or missed, its lines, its errors, Ctrl-C. A script
stands for the program; where VITEMPO_PROGRAM names the real one, it runs as well."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import MODELS

import vitempo
from vitempo import _program

REAL = os.environ.get("VITEMPO_PROGRAM")


def program(folder: Path, body: str) -> str:
    """A program in Python; it has `arguments`."""
    path = folder / "vitempo"
    text = f"#!{sys.executable}\nimport json, signal, sys, time\narguments = sys.argv[1:]\n"
    path.write_text(text + textwrap.dedent(body))
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


@pytest.fixture
def use(tmp_path, monkeypatch):
    def named(body: str) -> str:
        path = program(tmp_path, body)
        monkeypatch.setenv("VITEMPO_PROGRAM", path)
        return path

    return named


def test_a_missing_program_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.delenv("VITEMPO_PROGRAM", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "vitempo_program", None)
    with pytest.raises(vitempo.ProgramNotFound, match="which is not installed") as error:
        vitempo.train("data", "out.vtb")
    assert "pip install 'vitempo[train]'" in error.value.hint
    program(tmp_path, "")
    with pytest.raises(vitempo.ProgramNotFound):
        vitempo.program()  # A script in PATH is this package's own command.
    monkeypatch.setenv("VITEMPO_PROGRAM", str(tmp_path / "nowhere"))
    with pytest.raises(vitempo.ProgramNotFound, match="nowhere is not a program"):
        vitempo.program()


def test_the_package_of_the_program_comes_before_path(monkeypatch, tmp_path):
    import types

    monkeypatch.delenv("VITEMPO_PROGRAM", raising=False)
    module = types.ModuleType("vitempo_program")
    module.path = lambda: "/there/vitempo"
    monkeypatch.setitem(sys.modules, "vitempo_program", module)
    assert vitempo.program() == "/there/vitempo"


def test_arguments_lines_and_result(use, caplog):
    use(
        """
        print("warning: one is left out", file=sys.stderr)
        print("measuring two", file=sys.stderr, flush=True)
        print(json.dumps(arguments))
        """
    )
    with caplog.at_level(logging.INFO, logger="vitempo"):
        result = _program.run(["profile", "a.onnx"])
    assert result == ["profile", "a.onnx", "--format", "json"]
    assert [(r.levelname, r.message) for r in caplog.records] == [
        ("WARNING", "warning: one is left out"),
        ("INFO", "measuring two"),
    ]
    lines: list[str] = []
    _program.run(["profile"], lines.append)
    assert lines == ["warning: one is left out", "measuring two"]


def test_errors_of_the_program_are_exceptions(use):
    use(
        """
        print("error: data: 2 environments", file=sys.stderr)
        print("hint: --environment chooses one", file=sys.stderr)
        sys.exit(1)
        """
    )
    with pytest.raises(vitempo.ProgramError, match="data: 2 environments") as error:
        vitempo.train("data", "out.vtb")
    assert error.value.hint == "--environment chooses one" and error.value.returncode == 1
    kept = pickle.loads(pickle.dumps(error.value))
    assert (kept.message, kept.hint, kept.returncode) == (error.value.message, error.value.hint, 1)
    use("sys.exit(2)")
    with pytest.raises(vitempo.ProgramError, match="`vitempo train` ended with 2") as error:
        vitempo.train("data", "out.vtb")
    assert error.value.returncode == 2


def test_an_exception_of_the_callback_is_raised(use):
    use("print('one', file=sys.stderr, flush=True)")

    def refuse(line: str) -> None:
        raise RuntimeError(f"not {line}")

    with pytest.raises(RuntimeError, match="not one"):
        _program.run(["profile"], refuse)


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_ctrl_c_ends_the_program_once(use, tmp_path):
    mark = tmp_path / "ended"
    use(
        f"""
        ended = []
        def end(*_):
            ended.append(1)
        signal.signal(signal.SIGINT, end)
        print("ready", file=sys.stderr, flush=True)
        end_at = time.monotonic() + 60
        while not ended and time.monotonic() < end_at:
            time.sleep(0.01)
        time.sleep(0.3)
        open({str(mark)!r}, "w").write(str(len(ended)))
        """
    )

    def interrupt(line: str) -> None:
        threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()

    # Where tests run in the background, Ctrl-C is ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            _program.run(["profile"], interrupt)
            time.sleep(5)
    finally:
        signal.signal(signal.SIGINT, before)
    assert mark.read_text() == "1", "it had the time to end by itself"


def test_profile_and_train_pass_their_options(use):
    use("print(json.dumps(arguments)); sys.exit(1)")
    with pytest.raises(vitempo.ProgramError):
        vitempo.profile(["a.onnx", "b"], "data", backend="onnxruntime", budget="30m", threads=2)
    seen: list[object] = []
    original = _program.run
    try:
        _program.run = lambda arguments, progress: seen.append(list(arguments))
        with pytest.raises(vitempo.InvalidDataset):
            vitempo.profile("m", "nowhere", rounds=2, options=["--session", "s"])
        with pytest.raises(vitempo.InvalidBundle):
            vitempo.train("data", "nowhere", environment="e", method="lasso")
    finally:
        _program.run = original
    assert seen[0][:4] == ["profile", "m", "--out", "nowhere"]
    assert seen[0][-2:] == ["--session", "s"]
    assert "--rounds" in seen[0] and seen[1][-2:] == ["--environment", "e"]


@pytest.mark.skipif(not REAL, reason="VITEMPO_PROGRAM names no program")
def test_the_real_program_measures_and_trains(tmp_path, monkeypatch):
    monkeypatch.setenv("VITEMPO_PROGRAM", REAL)
    models = tmp_path / "models"
    sample = [REAL, "sample", "--count", "6", "--seed", "1", "--out", str(models)]
    subprocess.run(sample, check=True, capture_output=True)
    data = vitempo.profile(
        [models, MODELS / "mobilevit_xxs.onnx"],
        tmp_path / "data",
        options=["--min-repeats", "3", "--max-repeats", "5"],
    )
    assert len(data["model_measurements"]) == 7
    with pytest.raises(vitempo.ProgramError) as error:
        vitempo.train(data, tmp_path / "x.vtb", environment="nothing")
    assert "nothing" in error.value.message and error.value.returncode == 1
