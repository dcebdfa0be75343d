"""Where the programs are."""

import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli import linux, programs
from cli.errors import RepriseError

_OWN = "from cli import programs; import subprocess; subprocess.run([programs.own('tool')], check=True)"


def test_a_program_without_the_right_to_run_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRISE_PROGRAMS", str(tmp_path))
    (tmp_path / "tool").write_text("", encoding="ascii")
    with pytest.raises(RepriseError, match="tool is not built"):
        programs.own("tool")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has rights to give")
def test_a_program_in_a_folder_of_roots_alone(tmp_path: Path) -> None:
    """A clone in root's home: the user of a run may read there by the one right he is given."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    shutil.copy(programs.packaged("env"), closed / "tool")
    group = str(pwd.getpwnam("nobody").pw_gid)
    begin = linux.setpriv(programs.packaged("setpriv"), "nobody", group, ("dac_read_search",))
    environment = {**os.environ, "REPRISE_PROGRAMS": str(closed)}
    argv = [*begin, sys.executable, "-c", _OWN]
    done = subprocess.run(
        argv, cwd=programs.ROOT, env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
