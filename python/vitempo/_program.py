"""Measuring and training: for the program `vitempo`, which has the engines and LightGBM.

It is looked for in the variable `VITEMPO_PROGRAM`, in the package `vitempo-program`, which
`pip install "vitempo[train]"` adds, and in `PATH`. Without it, `ProgramNotFound` says so.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import IO, Any, Callable, Optional, Union

from ._dataset import Dataset
from ._open import written
from ._vitempo import Bundle
from .errors import ProgramError, ProgramNotFound

Path = Union[str, "os.PathLike[str]"]
Progress = Union[bool, Callable[[str], object]]

VARIABLE = "VITEMPO_PROGRAM"
STOP_WITHIN_S = 60.0
PR_SET_PDEATHSIG = 1

_log = logging.getLogger("vitempo")


def program() -> str:
    """The path of the program.

    Raises:
        ProgramNotFound: There is none.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if os.access(named, os.X_OK) and os.path.isfile(named):
            return named
        raise ProgramNotFound(f"{VARIABLE}: {named} is not a program", hint="give its path")
    found = _of_package() or _of_path()
    if found is None:
        raise ProgramNotFound(
            "measuring and training are for the program `vitempo`, which is not installed",
            hint="`pip install 'vitempo[train]'`, or build it (`make` in a checkout) and set "
            f"{VARIABLE} to its path",
        )
    return found


def _of_package() -> Optional[str]:
    try:
        package = importlib.import_module("vitempo_program")
    except ImportError:
        return None
    return str(package.path())


def _of_path() -> Optional[str]:
    """The first in `PATH` that is not the script which this package installs."""
    for folder in os.get_exec_path():
        found = shutil.which("vitempo", path=folder)
        if found and not is_script(found):
            return found
    return None


def is_script(path: str) -> bool:
    """Whether a file is a script of an interpreter; on Windows, where scripts are programs, whether
    it is beside this one."""
    if os.name == "nt":
        own = os.path.dirname(os.path.abspath(sys.executable))
        return os.path.abspath(path).startswith(own)
    with open(path, "rb") as file:
        return file.read(2) == b"#!"


def run(arguments: Sequence[str], progress: Progress = False) -> Any:
    """Runs a verb of the program, and gives its result, which it prints as JSON.

    Raises:
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed.
    """
    out = printed([*arguments, "--format", "json"], progress)
    return json.loads(out) if out.strip() else None


def printed(arguments: Sequence[str], progress: Progress = False) -> str:
    """Runs a verb of the program, and gives what it prints.

    Lines of the program go to the logger `vitempo`, or to a function given as `progress`; with
    `progress=True` they and its bars go to standard error. Ctrl-C ends the program, which keeps
    what it has measured, and raises `KeyboardInterrupt`.

    Raises:
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed.
    """
    shown = progress is True
    process = subprocess.Popen(
        [program(), *arguments],
        stdout=subprocess.PIPE,
        stderr=None if shown else subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        # Its terminal's Ctrl-C is passed on here, once: a second one would end it at once.
        start_new_session=os.name == "posix",
        preexec_fn=_ended_with_parent(),
    )
    said = _Said(progress if callable(progress) else _logged)
    reader = threading.Thread(target=said.read, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        out = _output(process, reader)
    except BaseException:
        _stop(process)
        raise
    if said.failed is not None:
        raise said.failed
    if process.returncode != 0:
        raise said.error(arguments[0], process.returncode)
    return out


def _ended_with_parent() -> Optional[Callable[[], object]]:
    """On Linux: asks the system to end the program when this process is killed, so that none goes
    on measuring beside the next one."""
    if not sys.platform.startswith("linux"):
        return None
    control = ctypes.CDLL(None, use_errno=True).prctl
    return lambda: control(PR_SET_PDEATHSIG, signal.SIGKILL)


def _output(process: subprocess.Popen[str], reader: threading.Thread) -> str:
    assert process.stdout is not None
    with process.stdout as stream:
        out = stream.read()
    process.wait()
    reader.join()
    return out


def _stop(process: subprocess.Popen[str]) -> None:
    """Asks the program to end, and waits for it."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT if os.name == "posix" else signal.SIGTERM)
        try:
            process.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()


class _Said:
    """What a program says beside its result."""

    def __init__(self, show: Callable[[str], object]) -> None:
        self.show = show
        self.lines: list[str] = []
        self.failed: Optional[BaseException] = None

    def read(self, stream: Optional[IO[str]]) -> None:
        if stream is None:
            return
        with stream:
            for line in stream:
                text = line.rstrip("\n")
                self.lines.append(text)
                if not text.startswith(("error: ", "hint: ")) and self.failed is None:
                    try:
                        self.show(text)
                    except BaseException as error:  # raised where the program was started
                        self.failed = error

    def error(self, verb: str, returncode: int) -> ProgramError:
        def after(mark: str) -> Optional[str]:
            found = [line[len(mark) :] for line in self.lines if line.startswith(mark)]
            return found[-1] if found else None

        where = "standard error has its message" if not self.lines else "\n".join(self.lines[-5:])
        message = after("error: ") or f"`vitempo {verb}` ended with {returncode}: {where}"
        return ProgramError(message, hint=after("hint: "), returncode=returncode)


def _logged(line: str) -> None:
    level = logging.WARNING if line.startswith("warning: ") else logging.INFO
    _log.log(level, "%s", line)


def profile(
    models: Union[Path, Sequence[Path]],
    out: Path,
    *,
    backend: str = "rten",
    threads: int = 1,
    precision: str = "f32",
    rounds: int = 1,
    budget: Optional[str] = None,
    seed: int = 0,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> Dataset:
    """Measures models end to end and operator by operator on this machine, by `vitempo profile`.
    Nothing else should run meanwhile. The same call goes on where an interrupted one stopped.

    Args:
        models: ONNX files, folders of them, or globs.
        out: The folder of the dataset; made if it is not there.
        backend: The inference engine: `rten`, `onnxruntime`, `openvino`, `litert`, ...
        threads: Threads that compute inside one operator.
        precision: `f32`, `bf16`, `f16` or `int8`.
        rounds: How often each model is measured.
        budget: Time after which no measurement starts, e.g. `30m`.
        seed: Of inputs, of missing weights, and of the order.
        options: More of the command's options, as on its command line.
        progress: True shows the program's bars; a function gets each line that it prints.

    Raises:
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed: its message and hint.
    """
    paths = [models] if isinstance(models, (str, os.PathLike)) else list(models)
    arguments = ["profile", *(os.fspath(path) for path in paths), "--out", os.fspath(out)]
    arguments += ["--backend", backend, "--threads", str(threads), "--precision", precision]
    arguments += ["--rounds", str(rounds), "--seed", str(seed)]
    if budget is not None:
        arguments += ["--budget", budget]
    run([*arguments, *options], progress)
    return Dataset(out)


def train(
    dataset: Union[Dataset, Path],
    out: Path,
    *,
    method: str = "gbdt",
    environment: Optional[str] = None,
    seed: int = 1,
    level: float = 0.9,
    options: Sequence[str] = (),
    progress: Progress = False,
) -> Bundle:
    """Trains predictors on a dataset, by `vitempo train`.

    Args:
        dataset: A dataset, or its folder.
        out: The bundle to write, `NAME.vtb`.
        method: `gbdt`, `random-forest` or `lasso`.
        environment: Its identifier, where the dataset has several: one of `Dataset.environments`.
        seed: The same data and seed give the same bundle, byte for byte.
        level: Level of the intervals, between 0 and 1.
        options: More of the command's options, as on its command line.
        progress: True shows the program's bars; a function gets each line that it prints.

    Raises:
        ProgramNotFound: There is no program.
        ProgramError: It refused or failed: its message and hint.
    """
    folder = dataset.path if isinstance(dataset, Dataset) else os.fspath(dataset)
    arguments = ["train", folder, "--out", os.fspath(out), "--method", method]
    arguments += ["--seed", str(seed), "--level", repr(level)]
    if environment is not None:
        arguments += ["--environment", environment]
    run([*arguments, *options], progress)
    return written(out)
