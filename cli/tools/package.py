"""`reprise package`: the mutator as one archive that runs where nothing may be installed.

It holds the program, every library it needs and the dynamic loader, so it runs unprivileged on any Linux of
the same processor whose kernel is not older than the libraries demand; and the licenses of all of these.
Nothing in it depends on where it is unpacked. The archive is the same bytes whenever the program and the
libraries are.
"""

from __future__ import annotations

import argparse
import gzip
import io
import os
import platform
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from cli import VERSION, programs
from cli.errors import RepriseError, want
from cli.tools import licenses

PROGRAM = "reprise-mutator"
FOLDER = f"{PROGRAM}-{VERSION}-{platform.machine()}"  # within the archive
_LIBRARY = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LAUNCHER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")") || exit 1
exec "$here/lib/{loader}" --library-path "$here/lib" "$here/lib/{program}" "$@"
"""
_README = f"""reprise-mutator {VERSION}

Unpack the archive anywhere, and run ./{PROGRAM} --help. It needs no installation and no privileges. lib/
holds the program and the libraries it was built with. LICENSE, licenses/ and SOURCES say under which terms
they may be handed on and where their sources are.
"""


def command_package(options: argparse.Namespace) -> int:
    if options.deb:
        from cli.tools import debian  # noqa: PLC0415

        return debian.command_deb(options.output)
    path = options.output or Path(f"{FOLDER}.tar.gz")
    want(path.absolute().parent.is_dir(), f"{path}: its folder is not there", "make it, or give another -o")
    want(not path.is_dir(), f"{path} is a folder", "give the archive's name with -o")
    write(path)
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB; unpack it and run {FOLDER}/{PROGRAM} --help")
    return 0


def write(path: Path) -> None:
    """The archive appears under its name only when it is whole."""
    program = Path(programs.own(PROGRAM))
    libraries = _libraries(program)
    loader = next((name for name in libraries if name.startswith("ld-")), None)
    if loader is None:
        raise RepriseError(f"{program} has no dynamic loader", "build it again with ./reprise")
    terms = licenses.texts(libraries.values())
    partial = path.with_name(path.name + ".partial")
    try:
        with (
            partial.open("wb") as file,
            gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as archive,
        ):
            launcher = _LAUNCHER.format(loader=loader, program=PROGRAM)
            _add(archive, PROGRAM, launcher.encode(), 0o755)
            _add(archive, "README", _README.encode(), 0o644)
            for name, text in sorted(terms.items()):
                _add(archive, name, text, 0o644)
            _add(archive, f"lib/{PROGRAM}", _stripped(program), 0o755)
            for name, source in sorted(libraries.items()):
                _add(archive, f"lib/{name}", source.read_bytes(), 0o755)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _libraries(program: Path) -> dict[str, Path]:
    """Every library the program loads, by the name it is looked for, the loader among them."""
    done = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode != 0 or "not found" in done.stdout:
        raise RepriseError(f"{program} misses libraries", "build it again with ./reprise")
    return {
        match.group(1) or Path(match.group(2)).name: Path(match.group(2))
        for match in _LIBRARY.finditer(done.stdout)
    }


def _stripped(program: Path) -> bytes:
    """Without its debugging information where binutils are at hand; a Debian package's has none."""
    if programs.find("strip") is None:
        return program.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / program.name
        done = subprocess.run(["strip", "-o", str(copy), str(program)], capture_output=True, check=False)
        return (copy if done.returncode == 0 else program).read_bytes()


def _add(archive: tarfile.TarFile, name: str, content: bytes, mode: int) -> None:
    entry = tarfile.TarInfo(f"{FOLDER}/{name}")
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
