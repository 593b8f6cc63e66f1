"""The command `vitempo` of this package.

Where the program `vitempo` is installed, the command is the program. Elsewhere it has the verbs
that need neither engines nor training, with flags of the program.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Optional

from . import _program, _verbs, _verbs_data
from ._vitempo import __version__
from .errors import ProgramNotFound, VitempoError

# Verbs of the program that need what this package has not.
OF_THE_PROGRAM = (
    "agent",
    "backends",
    "campaign",
    "completions",
    "demo",
    "energy",
    "explore",
    "inspect",
    "profile",
    "refine",
    "report",
    "run",
    "sample",
    "serve",
    "train",
    "zoo",
)


def main(arguments: Optional[Sequence[str]] = None) -> int:
    """Runs the command; its exit code: 0, 1 for the input or a gate, 2 for a fault of vitempo."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        program: Optional[str] = _program.program()
    except ProgramNotFound as error:
        if os.environ.get(_program.VARIABLE):
            return refuse(error)
        program = None
    if program is not None:
        return _replaced(program, words)
    if words and words[0] in OF_THE_PROGRAM:
        message = f"`vitempo {words[0]}` needs the program `vitempo`, which is not installed"
        hint = "`pip install 'vitempo[train]'`, or build it: `make` in a checkout"
        return refuse(VitempoError(message, hint=hint))
    parser = _parser()
    given = parser.parse_args(words)
    if given.run is None:
        parser.print_help(sys.stderr)
        return 1
    try:
        given.run(given)
        sys.stdout.flush()
    except VitempoError as error:
        return refuse(error)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError) as error:
        return refuse(VitempoError(_without_number(error)))
    except KeyboardInterrupt:
        return 1
    return 0


def _without_number(error: Exception) -> str:
    """A message; of the system's, the file and what is wrong with it."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return str(error)


def _replaced(program: str, words: list[str]) -> int:
    if os.name == "posix":
        os.execv(program, [program, *words])
    return subprocess.call([program, *words])


def refuse(error: VitempoError) -> int:
    """Prints an error and what to do about it; the exit code."""
    print(f"error: {error.message}", file=sys.stderr)
    if error.hint is not None:
        print(f"hint: {error.hint}", file=sys.stderr)
    return 1


class Parser(argparse.ArgumentParser):
    """Exit code 1 for the user's mistake, as the program has it."""

    def error(self, message: str) -> Any:
        self.print_usage(sys.stderr)
        self.exit(1, f"error: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="vitempo",
        description="How long will this vision model take on that device, and how sure are we?",
        epilog="Further verbs come with the program: pip install 'vitempo[train]'",
    )
    parser.add_argument("--version", action="version", version=f"vitempo {__version__}")
    parser.set_defaults(run=None)
    verbs = parser.add_subparsers(title="verbs", metavar="VERB", parser_class=Parser)
    for name, add, about in (
        ("bundle", _verbs.add_bundle, "lists bundles"),
        ("predict", _verbs.add_predict, "forecasts the latency of models"),
        ("export", _verbs.add_export, "writes models that ship, and architectures, as ONNX"),
        ("search", _verbs.add_search, "searches a space for the best architectures"),
        ("adapt", _verbs_data.add_adapt, "makes a bundle from a few end-to-end latencies"),
        ("evaluate", _verbs_data.add_evaluate, "evaluates bundles on measured models"),
        ("dataset", _verbs_data.add_dataset, "inspects and validates datasets"),
        ("plan", _verbs.add_plan, "divides models among processors"),
    ):
        add(verbs.add_parser(name, help=about))
    return parser
