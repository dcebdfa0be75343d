"""What BIND's tools can see."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli import programs
from cli.zones import bind_tools

_ZONE = b"$TTL 60\n@ SOA a. b. 1 2 3 4 5\n@ NS ns.b.\n$INCLUDE %s\n"
_PLAIN = b"$TTL 60\n@ SOA a. b. 1 2 3 4 5\n@ NS ns.b.\nx A 192.0.2.7\n"
_CHECK = ("named-compilezone", "-w", ".", "-i", "none", "-o", "-", "--", "a.", "-")


@pytest.fixture(autouse=True)
def _shut_in() -> None:
    if not bind_tools.can([("ro", Path("/usr"))]):
        pytest.skip("no namespaces here")


def test_only_the_given_folder_is_there(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "zones"
    folder.mkdir()
    for file in (outside, folder / "inside"):
        file.write_text("x A 192.0.2.7\n")
    (folder / "link").symlink_to(outside)
    found = {
        name: bind_tools.run(_CHECK, folder, text=_ZONE % os.fsencode(name))
        for name in (str(outside), str(folder / "link"), "/etc/passwd", str(folder / "inside"))
    }
    assert [b"192.0.2.7" in one.stdout for one in found.values()] == [False, False, False, True]
    assert all(b"file not found" in one.stdout + one.stderr for one in list(found.values())[:3])


def test_nothing_is_written_but_where_it_may_be(tmp_path: Path) -> None:
    made, kept = tmp_path / "made", tmp_path / "kept"
    made.mkdir()
    kept.mkdir()
    for folder, done in ((made, True), (kept, False)):
        argv = ("dnssec-keygen", "-q", "-K", str(folder), "-a", "ED25519", "a.")
        assert (bind_tools.run(argv, kept, writable=made).returncode == 0) == done
        assert bool(list(folder.iterdir())) == done


def test_the_tools_see_no_more_and_have_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packaged = programs.packaged
    monkeypatch.setattr(programs, "packaged", lambda name: packaged("sh" if name == "tool" else name))
    shown = (
        "ls /; for one in /etc/passwd /proc/self; do [ -e $one ] && echo $one; done; chroot . && echo root"
    )
    done = bind_tools.run(("tool", "-c", shown), tmp_path)
    top = str(tmp_path).split("/")[1]
    links = {name for name in bind_tools._LINKS if Path("/", name).is_symlink()}
    assert set(done.stdout.decode().split()) == {"usr", "dev", top, *links}


def test_unconfined_tools_are_told_of_once_and_only_while_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bind_tools, "_possible", set())
    monkeypatch.setattr(bind_tools, "told", [])
    with monkeypatch.context() as lacking:
        lacking.setattr(programs, "find", lambda _: None)
        for _ in range(2):
            assert b"192.0.2.7" in bind_tools.run(_CHECK, tmp_path, text=_PLAIN).stdout
    assert bind_tools.can([("ro", tmp_path)])
    assert capsys.readouterr().err.count("warning: BIND's tools run unconfined") == 1
    assert len(bind_tools.told) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_it_is_the_same_without_root() -> None:
    """For a user who may create namespaces."""
    code = f"""
import sys, tempfile; sys.path.insert(0, {str(programs.ROOT)!r})
from pathlib import Path
from cli.zones import bind_tools
bind_tools.can([("ro", Path("/usr"))]) or sys.exit(77)
with tempfile.TemporaryDirectory() as made:
    (Path(made) / "inside").write_text("x A 192.0.2.7\\n")
    done = bind_tools.run({_CHECK!r}, Path(made), text={_ZONE % b"/etc/hostname"!r})
    assert b"file not found" in done.stdout + done.stderr, done
    done = bind_tools.run({_CHECK!r}, Path(made), text={_ZONE % b"inside"!r})
    assert b"192.0.2.7" in done.stdout, done
"""
    user = ("setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--")
    done = subprocess.run(
        [*user, sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False
    )
    if done.returncode == 77:
        pytest.skip("this user may not make namespaces")
    assert done.returncode == 0, done.stderr
