"""System calls: mounts."""

import subprocess
import sys
from pathlib import Path

import pytest

from cli import programs

_FOLLOWS_NO_LINK = """
import sys
from pathlib import Path
from cli.plan import privileges
seen = privileges.lend(Path(sys.argv[1]), Path(sys.argv[2]))
(seen / "link").symlink_to("/usr")
print((seen / "link").exists())
"""


def test_links_are_forbidden_on_a_mount_with_other_flags(tmp_path: Path) -> None:
    """A user namespace may not clear the flags of a mount that it did not make."""
    results, run = tmp_path / "results", tmp_path / "run"
    results.mkdir()
    run.mkdir()
    apart = ("unshare", "--user", "--map-root-user", "--mount", "--")
    if subprocess.run([*apart, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not make namespaces")
    mounted = 'mount -t tmpfs -o noexec,noatime results "$1" && shift && exec "$@"'
    code = (sys.executable, "-c", _FOLLOWS_NO_LINK, str(results), str(run))
    argv = [*apart, "sh", "-c", mounted, "sh", str(results), *apart, *code]
    done = subprocess.run(argv, cwd=programs.ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("False\n", "")
