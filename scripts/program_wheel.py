#!/usr/bin/env python3
"""Packs the program `vitempo` as the wheel `vitempo-program`, which `pip install vitempo[train]`
adds: scripts/program_wheel.py PROGRAM FOLDER. Prints the path of the wheel and its size in bytes.

The wheel has the program and a module that says where it is. Bytes depend on the program alone.
"""

import base64
import hashlib
import re
import sys
import sysconfig
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAME = "vitempo_program"

MODULE = '''"""Where the program `vitempo` is. The package `vitempo` asks."""

from __future__ import annotations

import os

FILE = {file!r}


def path() -> str:
    """The path of the program."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), FILE)
'''

METADATA = """Metadata-Version: 2.1
Name: vitempo-program
Version: {version}
Summary: The program `vitempo`, with inference engines and training, for the package `vitempo`.
License: MIT OR Apache-2.0
Requires-Python: >=3.9
"""

WHEEL = """Wheel-Version: 1.0
Generator: vitempo program_wheel
Root-Is-Purelib: false
Tag: {tag}
"""


def version() -> str:
    """That of the workspace."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    if found is None:
        sys.exit("error: Cargo.toml has no version")
    return found.group(1)


def record(name: str, content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(content)}\n"


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("error: scripts/program_wheel.py PROGRAM FOLDER")
    program, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    tag = "py3-none-" + re.sub(r"[-.]", "_", sysconfig.get_platform())
    info = f"{NAME}-{version()}.dist-info"
    files = {
        f"{NAME}/__init__.py": MODULE.format(file=program.name).encode(),
        f"{NAME}/{program.name}": program.read_bytes(),
        f"{info}/METADATA": METADATA.format(version=version()).encode(),
        f"{info}/WHEEL": WHEEL.format(tag=tag).encode(),
    }
    for licence in ("LICENSE-APACHE", "LICENSE-MIT"):
        files[f"{info}/licenses/{licence}"] = (ROOT / licence).read_bytes()
    listed = "".join(record(name, content) for name, content in files.items())
    files[f"{info}/RECORD"] = f"{listed}{info}/RECORD,,\n".encode()
    wheel = folder / f"{NAME}-{version()}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = (0o100755 if name.endswith(program.name) else 0o100644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            out.writestr(entry, content)
    print(wheel, wheel.stat().st_size)


if __name__ == "__main__":
    main()
