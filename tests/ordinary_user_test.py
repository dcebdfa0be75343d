"""Whole runs as an ordinary user, in a user namespace."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import programs

HIERARCHY = ("synth.duration=3", "hierarchy.synth.zones=8", "hierarchy.data_path=nft", "sample.capture=false")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of nobody's: he may not look into pytest's folders."""
    path = Path(tempfile.mkdtemp(prefix="reprise-home-"))
    os.chown(path, pwd.getpwnam("nobody").pw_uid, pwd.getpwnam("nobody").pw_gid)
    yield path
    shutil.rmtree(path)


@pytest.mark.netns
@pytest.mark.skipif(os.geteuid() != 0, reason="then all other tests run as an ordinary user")
@pytest.mark.parametrize(
    ("name", "settings"), [("quickstart", ("synth.duration=2",)), ("hierarchy", HIERARCHY)]
)
def test_a_run_as_an_ordinary_user(home: Path, name: str, settings: tuple[str, ...]) -> None:
    user = pwd.getpwnam("nobody")
    may = ("unshare", "--user", "--net", "--map-root-user", "test", "-x", programs.ROOT / "reprise")
    if subprocess.run(may, user=user.pw_uid, group=user.pw_gid, extra_groups=(), check=False).returncode:
        pytest.skip("nobody may not read this clone, or not make user namespaces")
    words = [word for one in ("replay.late_ms=0", *settings) for word in ("--set", one)]
    done = subprocess.run(
        [programs.ROOT / "reprise", "run", name, "-o", home / "results", *words],
        user=user.pw_uid, group=user.pw_gid, extra_groups=(), cwd="/", capture_output=True, text=True,
        env={"PATH": programs.SEARCH_PATH, "HOME": str(home)}, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (folder,) = (home / "results").iterdir()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary["clean"]
    assert summary["queries"]["answered"] == summary["queries"]["read"] > 0
    assert folder.stat().st_uid == user.pw_uid
