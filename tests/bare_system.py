"""A bare Debian system in a folder, by debootstrap: each command has mounts and processes of its own there,
and the network of this machine.
"""

import os
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from cli import programs

# The folder becomes the root, so that the system may make namespaces as if it were on a machine.
_ENTER = """
mount --bind "$1" "$1"
mount --rbind /dev "$1/dev"
cd "$1"
mkdir -p .outside
pivot_root . .outside
cd /
mount -t proc proc /proc
umount -l /.outside
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /run
mkdir -p /run/lock
shift
cd "$1"
shift
exec "$@"
"""
OWN = platform.freedesktop_os_release()["VERSION_CODENAME"]  # this machine's release
_TRUSTED = Path("/etc/ssl/certs/ca-certificates.crt")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def outside(*argv: str, limit_s: float, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """A command in the network of whoever started the tests, as a test's own may be closed."""
    net = f"--net=/proc/{os.getppid()}/ns/net"
    return subprocess.run(
        [programs.packaged("nsenter"), net, "--", *argv],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=limit_s,
        check=False,
    )


@dataclass(frozen=True)
class BareSystem:
    """The system in a folder."""

    root: Path

    def make(self, release: str = OWN) -> None:
        """A Debian's required packages and apt, with this machine's sources of packages for that release."""
        argv = (programs.packaged("debootstrap"), "--variant=minbase", release, str(self.root), _mirror())
        done = outside(*argv, limit_s=1800)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        apt = Path("/etc/apt")
        for one in (apt / "sources.list", apt / "sources.list.d/debian.sources"):
            if one.is_file():
                text = one.read_text(encoding="utf-8").replace(OWN, release)
                (self.root / one.relative_to("/")).write_text(text, encoding="utf-8")
        if (apt / "sources.list.d/debian.sources").is_file() and not (apt / "sources.list").is_file():
            (self.root / "etc/apt/sources.list").unlink()
        shutil.copyfile("/etc/resolv.conf", self.root / "etc/resolv.conf")
        self._trust()

    def _trust(self) -> None:
        """pip trusts there whom this machine trusts: the way to its packages may have a certificate of its
        own.
        """
        if _TRUSTED.is_file():
            (self.root / "etc/ssl").mkdir(exist_ok=True)
            shutil.copyfile(_TRUSTED, self.root / "etc/ssl/machine.crt")
            (self.root / "etc/pip.conf").write_text("[global]\ncert = /etc/ssl/machine.crt\n")

    def run(
        self, *argv: str, limit_s: float = 60, cwd: str = "/", user: str = "root"
    ) -> subprocess.CompletedProcess[str]:
        """A command from its beginning to its end; what it has started ends with it."""
        alone = (programs.packaged("unshare"), "--mount", "--pid", "--fork", "--kill-child")
        as_user = ("setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--reset-env")
        inside = (
            "env",
            "-i",
            f"PATH={_PATH}",
            "LC_ALL=C.UTF-8",
            "DEBIAN_FRONTEND=noninteractive",
            "HOME=/root",
        )
        words = (*inside, *(as_user if user != "root" else ()), *argv)
        return outside(*alone, "sh", "-ec", _ENTER, "sh", str(self.root), cwd, *words, limit_s=limit_s)

    def text(self, *argv: str, limit_s: float = 60, cwd: str = "/") -> str:
        """Standard output of a command that has to succeed."""
        done = self.run(*argv, limit_s=limit_s, cwd=cwd)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def _mirror() -> str:
    """Where this machine's packages of Debian come from."""
    argv = [
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
        f"Codename: {OWN}",
    ]
    found = subprocess.run(argv, capture_output=True, text=True, check=False).stdout.split()
    assert found, "apt knows no source of Debian's packages"
    return found[0]
