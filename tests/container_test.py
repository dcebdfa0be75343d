"""The image of packaging/Containerfile, built and run by the commands of docs/container.md.

Its base is made by debootstrap, so that no registry is asked.
"""

import json
import os
import resource
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import programs
from tests.bare_system import BareSystem, outside
from tests.docs_test import commands

pytestmark = [
    pytest.mark.slow,
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="the base is made by root, and root's podman is tried"),
]

BASE = "localhost/base"
# Images and containers are the test's own. crun refuses machines that mount control groups of both versions.
_PODMAN = """
umount --recursive /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
cd "$0"
exec podman --cgroup-manager cgroupfs --root "$0/storage" --runroot "$0/run" "$@"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short path, as podman has sockets in it."""
    with tempfile.TemporaryDirectory(prefix="reprise-") as made:
        yield Path(made)


def podman(folder: Path, *words: str, limit_s: float) -> subprocess.CompletedProcess[str]:
    own = (programs.packaged("unshare"), "--mount", "sh", "-ec", _PODMAN, str(folder))
    done = outside(*own, *words, limit_s=limit_s)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done


def test_quickstart_in_a_container_without_capabilities(folder: Path) -> None:
    build, run = (
        shlex.split(one.replace("$PWD", str(folder))) for one in commands("docs/container.md", "podman")[-2:]
    )
    for name in ("packaging", "build/image"):
        (folder / name).mkdir(parents=True)
    shutil.copy(programs.ROOT / "packaging/Containerfile", folder / "packaging")
    package = (str(programs.ROOT / "reprise"), "package", "--deb", "-o", str(folder / "build/image"))
    built = outside(*package, limit_s=3600)
    assert built.returncode == 0, built.stdout + built.stderr
    base(folder)
    ways = ("--isolation", "chroot", "--network", "host", "--build-arg", f"BASE={BASE}")
    podman(folder, "build", *ways, *build[2:], limit_s=900)
    results = folder / "results"
    results.mkdir()
    os.chown(results, 1000, 1000)
    descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[1]  # podman asks for more than we may have
    limits = ("--ulimit", f"nofile={descriptors}:{descriptors}", "--ulimit", "nproc=4096:4096")
    podman(folder, "run", "--cgroups", "disabled", *limits, *run[2:], limit_s=300)
    (summary,) = results.glob("*/summary.json")
    assert json.loads(summary.read_text())["clean"]


def base(folder: Path) -> None:
    """An image of a bare system."""
    system = BareSystem(folder / "base")
    system.make()
    done = outside(
        "tar", "--create", "--file", str(folder / "base.tar"), "-C", str(system.root), ".", limit_s=300
    )
    assert done.returncode == 0, done.stderr
    podman(folder, "import", str(folder / "base.tar"), BASE, limit_s=300)
