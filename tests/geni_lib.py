"""profile.py run by geni-lib, as CloudLab's portal does.

The released geni-lib is Python 2 source (CloudLab has its own for Python 3), so its modules are converted by
fissix, the successor of Python's lib2to3, into a folder of the test.
"""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest
from fissix import refactor  # type: ignore[import-untyped]

from cli import programs

_FOLDERS = ("", "aggregate", "model", "rspec")  # those that a profile imports
# Standard output takes text in Python 3, and geni-lib gives bytes.
_RUNNER = """
import runpy, sys
folder, profile, *sys.argv[1:] = sys.argv[1:]
sys.path.insert(0, folder)
from geni.rspec import pg
pg.Request.writeXML = lambda self, _path: sys.stdout.write(self.toXMLString(True).decode())
runpy.run_path(profile, run_name="__main__")
"""


def convert(folder: Path) -> None:
    """Puts a geni-lib for this Python into a folder."""
    spec = importlib.util.find_spec("geni")
    if spec is None or not spec.submodule_search_locations:
        pytest.fail("geni-lib is not installed; ./reprise test installs it (requirements-test.txt)")
    tool = refactor.RefactoringTool(refactor.get_fixers_from_package("fissix.fixes"))
    for name in _FOLDERS:
        target = folder / "geni" / name
        target.mkdir(parents=True)
        for path in sorted(Path(spec.submodule_search_locations[0], name).glob("*.py")):
            source = path.read_text(encoding="utf-8").rstrip() + "\n"
            (target / path.name).write_text(str(tool.refactor_string(source, path.name)), encoding="utf-8")


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The profile with the values of its parameters as options; its output is the request (XML)."""
    argv = [sys.executable, "-P", "-c", _RUNNER, str(folder), str(programs.ROOT / "profile.py"), *arguments]
    return subprocess.run(argv, cwd=folder, env={}, capture_output=True, text=True, check=False)
