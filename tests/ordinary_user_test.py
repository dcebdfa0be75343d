"""Whole runs as an ordinary user, in a user namespace."""

import json
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from cli import linux, programs
from report.rqfile import Status, read_rq
from tests.command import UNRENDERED
from tests.slow import slow

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="then all other tests run as an ordinary user"),
]

HIERARCHY = ("synth.duration=2", "hierarchy.synth.zones=8", "hierarchy.data_path=nft", "sample.capture=false")


@pytest.fixture
def home() -> Iterator[Path]:
    """A home of nobody's: he may not look into pytest's folders."""
    path, user = Path(tempfile.mkdtemp(prefix="reprise-home-")), pwd.getpwnam("nobody")
    shutil.copytree(mpl.get_cachedir(), path / ".cache/matplotlib")  # to look for fonts takes seconds
    for one in (path, *path.rglob("*")):
        os.chown(one, user.pw_uid, user.pw_gid)
    yield path
    shutil.rmtree(path)


def run(home: Path, name: str, *settings: str, first: Callable[[], None] | None = None) -> tuple[int, str]:
    """Status and standard error of nobody's run; `first` is called in its process, still as root."""
    user = pwd.getpwnam("nobody")
    may = ("unshare", "--user", "--net", "--map-root-user", "test", "-x", programs.ROOT / "reprise")
    if subprocess.run(may, user=user.pw_uid, group=user.pw_gid, extra_groups=(), check=False).returncode:
        pytest.skip("nobody may not read this clone, or not make user namespaces")
    words = [word for one in settings for word in ("--set", one)]
    as_user = ("setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups")
    done = subprocess.run(
        [*as_user, programs.ROOT / "reprise", "run", name, "-o", home / "results", *words],
        preexec_fn=first, cwd="/", capture_output=True, text=True, timeout=180, check=False,
        env={"PATH": programs.SEARCH_PATH, "HOME": str(home), "PYTHONPATH": UNRENDERED},
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("name", "settings"), [("quickstart", ("synth.duration=1",)), slow("hierarchy", HIERARCHY)]
)
def test_a_run_as_an_ordinary_user(home: Path, name: str, settings: tuple[str, ...]) -> None:
    status, said = run(home, name, "replay.late_ms=1000", *settings)
    assert status == 0, said
    (folder,) = (home / "results").iterdir()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    read = summary["queries"]["read"]
    assert summary["clean"] and summary["leaked_packets"] == 0
    assert summary["queries"]["answered"] == read > 0
    records = np.concatenate([read_rq(path).records for path in folder.glob("queries-*.rq")])
    assert sorted(records["seq"]) == list(range(read))
    assert set(records["status"]) == {Status.ANSWERED}
    assert not list(folder.glob("capture*"))
    assert {path.stat().st_uid for path in (folder, *folder.rglob("*"))} == {pwd.getpwnam("nobody").pw_uid}


def test_a_kernel_without_user_namespaces_for_users_is_one_line(home: Path) -> None:
    def forbid() -> None:
        """In a user namespace of our own, whose limit is its own too; its users are those outside."""
        ready, mapped = os.pipe(), os.pipe()
        if (inner := os.fork()) != 0:
            os.read(ready[0], 1)
            for kind in ("uid", "gid"):
                Path(f"/proc/{inner}/{kind}_map").write_text("0 0 65536", encoding="ascii")
            os.write(mapped[1], b".")
            os._exit(os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1]))
        linux.unshare(linux.CLONE_NEWUSER, "user namespace")
        os.write(ready[1], b".")
        os.read(mapped[0], 1)
        os.setresuid(0, 0, 0)
        Path("/proc/sys/user/max_user_namespaces").write_text("0", encoding="ascii")

    status, said = run(home, "quickstart", first=forbid)
    assert status == 1, said
    (line,) = [one for one in said.splitlines() if "error: " in one]
    assert re.fullmatch(
        r"reprise: error: this user cannot make namespaces here \(unshare user namespace: .+\); run as root, "
        "or allow unprivileged user namespaces",
        line,
    )
    assert not (home / "results").exists() or not list((home / "results").iterdir())
