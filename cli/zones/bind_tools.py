"""BIND's tools on zones that others wrote."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from cli import programs


def run(argv: Sequence[str], folder: Path, text: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Runs one of BIND's tools in a folder of zones, with `text` as its input."""
    program, *rest = argv
    return subprocess.run(
        [programs.packaged(program), *rest], input=text, cwd=folder, capture_output=True, check=False
    )
