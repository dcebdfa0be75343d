"""`reprise package --deb`: the Debian package of Reprise, made by Debian's own tools.

What is deployed to hosts is copied into a folder, with packaging/debian as its debian/, and dpkg-buildpackage
works there; its rules fetch the pinned Python packages with pip. lintian looks at the package before anybody
gets it.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
import time
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from cli import VERSION, programs, steps
from cli.errors import want
from cli.hosts import source
from cli.tools import building
from cli.tools.checking import git

RULES = programs.ROOT / "packaging/debian"
_SCRATCH = programs.ROOT / "build/debian"  # always the same: ccache knows files again by their paths
_CHANGELOG = """reprise ({version}) {release}; urgency=medium

  * See CHANGELOG.md.

 -- {maintainer}  {date}
"""
_PATIENCE_S = 10.0  # for a build that is interrupted


@dataclass(frozen=True)
class State:
    """A commit: its time in seconds since 1970, its short name, and whether files differ from it."""

    time_s: int
    commit: str
    changed: bool


def checked_out() -> State | None:
    """None where git cannot tell."""
    told = " ".join(git("show", "-s", "--format=%ct %h", "HEAD") or ()).split()
    if len(told) != 2 or git("rev-parse", "--show-prefix") not in ([], [""]):
        return None
    return State(int(told[0]), told[1], changed=git("status", "--porcelain") != [])


@dataclass(frozen=True)
class Build:
    """Version and time of what is packaged."""

    version: str
    time_s: int

    @staticmethod
    def of(state: State | None) -> Build:
        """Packages of later commits are later versions, and those of other files are other versions: apt
        leaves an installed package alone that has the same one. The release that it was built on, and is for,
        comes last.
        """
        files, system = source.checksum()[:8], platform.freedesktop_os_release()
        suffix = f"+{system['ID'][:3]}{system.get('VERSION_ID', '')}"
        if state is None:
            return Build(f"{VERSION}+{files}{suffix}", int(time.time()))
        minute = time.strftime("%Y%m%d%H%M", time.gmtime(state.time_s))
        mark = f".{files}" if state.changed else ""
        return Build(f"{VERSION}+git{minute}.{state.commit}{mark}{suffix}", state.time_s)

    def changelog(self, maintainer: str) -> str:
        """The file debian/changelog, of which the tools take version and time."""
        return _CHANGELOG.format(
            version=self.version,
            release=platform.freedesktop_os_release().get("VERSION_CODENAME", "unstable"),
            maintainer=maintainer,
            date=formatdate(self.time_s),
        )


def command_deb(output: Path | None) -> int:
    """Builds the package, and says where it is and how it is installed."""
    folder = output or Path()
    want(folder.is_dir(), f"{folder} is not a folder", "make it, or give another with -o")
    path = build(folder)
    where = path if path.is_absolute() or ".." in path.parts else f"./{path}"
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB; as root: apt install {where}")
    return 0


def build(output: Path) -> Path:
    """The package in a folder; it appears there when it is whole and lintian finds no error."""
    _SCRATCH.parent.mkdir(exist_ok=True)
    with building.alone(_SCRATCH.with_name(".debian-lock")):
        shutil.rmtree(_SCRATCH, ignore_errors=True)
        tree = _SCRATCH / "reprise"
        for path in source.files():
            target = tree / path.relative_to(source.ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        shutil.copytree(RULES, tree / "debian")
        control = (RULES / "control").read_text(encoding="utf-8").splitlines()
        maintainer = next(line.split(": ", 1)[1] for line in control if line.startswith("Maintainer:"))
        changelog = Build.of(checked_out()).changelog(maintainer)
        (tree / "debian/changelog").write_text(changelog, encoding="utf-8")
        hint = "see above; the network is needed for the Python packages"
        argv: tuple[str, ...] = ("dpkg-buildpackage", "--build=binary", "--no-sign")
        steps.carry_out(_job("building the package", argv, tree), "the Debian package cannot be built", hint)
        (made,) = _SCRATCH.glob("*.deb")
        argv = ("lintian", "--fail-on=error", str(made))
        complaint, hint = "the Debian package has errors", "see what lintian says above"
        steps.carry_out(_job("checking the package", argv, tree), complaint, hint)
        path = Path(shutil.copy2(made, output / made.name))
        shutil.rmtree(_SCRATCH)
        return path


def _job(title: str, argv: tuple[str, ...], tree: Path) -> steps.Job:
    """A tool that works in the tree."""
    asked = ["ccache", "--get-config", "cache_dir"]
    cache = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    env = {
        **steps.NINJA_ENVIRONMENT,
        "CCACHE_DIR": cache,  # debhelper gives the build a home of its own
        "DEB_BUILD_OPTIONS": "noautodbgsym",
        "LC_ALL": "C.UTF-8",
    }
    return steps.Job(title, argv, env, tree, _PATIENCE_S)
