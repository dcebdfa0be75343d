"""Locks that other users of the machine can neither hold nor turn against their owner."""

import fcntl
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest

from cli import locks
from cli.executor import sandbox
from cli.tools import packages


def test_a_lock_follows_no_link_and_keeps_what_stands_there(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "lock").symlink_to("victim")
    with pytest.raises(OSError, match="symbolic links"):
        locks.opened(tmp_path / "lock")
    assert (tmp_path / "victim").read_text() == "mine"
    with locks.opened(tmp_path / "victim") as lock:
        assert lock.read() == "mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_cannot_hold_a_lock(tmp_path: Path) -> None:
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(0o755)
    folder = tmp_path / "reprise/locks"
    (tmp_path / "old").touch(mode=0o644)
    with locks.of_machine("run", folder) as lock, locks.opened(tmp_path / "old"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        other = ["setpriv", "--reuid", "daemon", "--regid", "daemon", "--clear-groups"]
        for path in (folder / "run", tmp_path / "old"):
            done = subprocess.run([*other, "flock", "-n", path, "true"], capture_output=True, check=False)
            assert b"Permission denied" in done.stderr
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_no_daemon_starts_while_packages_are_installed_and_later_they_may(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if we were killed in between, and as long as apt-get then continues."""
    policy = tmp_path / "policy-rc.d"
    monkeypatch.setattr(packages, "_POLICY", policy)
    monkeypatch.setattr(locks, "MACHINE", tmp_path / "reprise/locks")
    with packages._no_daemons([]) as lock:
        assert subprocess.run([policy], check=False).returncode == 101
        apt = subprocess.Popen(["sleep", "60"], pass_fds=(lock,))
        left = policy.read_bytes()
    assert not policy.exists()
    policy.write_bytes(left)  # as of a process that was killed
    policy.chmod(0o755)
    assert subprocess.run([policy], check=False).returncode == 101
    apt.kill()
    apt.wait()
    assert subprocess.run([policy], check=False).returncode == 0
    assert not policy.exists()


def test_a_folder_in_tmp_that_is_not_ours_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = tmp_path / "usual"
    monkeypatch.setattr(sandbox, "_TEMPORARY", str(usual))
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: str(tmp_path / "new"))
    assert sandbox._own_temporary() == usual
    assert stat.S_IMODE(usual.stat().st_mode) == 0o700
    usual.chmod(0o777)
    assert sandbox._own_temporary() == tmp_path / "new"
    usual.rmdir()
    (tmp_path / "mine").mkdir(mode=0o700)
    usual.symlink_to("mine")
    assert sandbox._own_temporary() == tmp_path / "new"
