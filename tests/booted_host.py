"""A host that is booted with systemd: systemd-nspawn starts a copy of this machine's Debian, an overlay in
memory, in a network namespace of ours. It has control groups of version 2, logind, which ends what a session
leaves, root's too, and an sshd with such sessions. None of this machine's other services run there.
"""

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import programs
from cli.hosts import changes
from cli.process import Process
from tests.ssh import Ssh

_TARGET = "host.target"
_KEYS = Path("/etc/host-ssh")  # of its sshd, as it sees them
_PATIENCE_S = 30.0
_FILES = {  # below /etc/systemd
    "logind.conf": "[Login]\nKillUserProcesses=yes\nKillExcludeUsers=nobody\n",
    f"system/{_TARGET}": """[Unit]
Requires=basic.target dbus.service systemd-logind.service systemd-user-sessions.service host-ssh.service
After=basic.target dbus.service systemd-logind.service
""",
    "system/host-ssh.service": f"""[Unit]
After=dbus.service systemd-logind.service systemd-user-sessions.service
[Service]
RuntimeDirectory=sshd
ExecStart=/usr/sbin/sshd -D -f {_KEYS}/sshd
""",
}
# Its words: the folder to mount at, control groups to be in, and the command of systemd-nspawn.
_START = """
mount -t tmpfs -o mode=0755 tmpfs "$1" && cd "$1" && mkdir above work root &&
mount -t overlay -o lowerdir=/,upperdir=above,workdir=work overlay root &&
mount -t tmpfs -o mode=0755 tmpfs /run || exit 1
for group in $2; do echo $$ > "$group/cgroup.procs" || exit 1; done
shift 2 && exec "$@"
"""


@contextlib.contextmanager
def booted(name: str, netns: int | None, ssh: Ssh, address: str) -> Iterator[None]:
    """A host in a network namespace, whose sshd listens at an address there."""
    if shutil.which("systemd-nspawn") is None:
        pytest.skip("systemd-nspawn is not installed")
    folder = ssh.folder.parent / f"booted-{name}"
    keys, files, root = folder / "keys", folder / "files", folder / "root"
    for one in (keys, files / "system", root):
        one.mkdir(parents=True)
    for file in ("host", "user.pub"):
        shutil.copy(ssh.folder / file, keys)
    (keys / "sshd").write_text(ssh.server_config([address], _KEYS, pam="yes"))
    for file, text in _FILES.items():
        (files / file).write_text(text)
    groups = _make_groups(f"reprise-{name}-{os.getpid()}")
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _START, "sh", str(root)]
    words += [" ".join(map(str, groups)), *_nspawn(name, netns, folder)]
    try:
        host = Process.started(words, folder / "console", bound=True)
        try:
            yield
        finally:
            host.stop(limit_s=_PATIENCE_S)  # systemd there shuts down
    finally:
        for group in groups:
            for path, _, _ in os.walk(group, topdown=False):
                Path(path).rmdir()


def _nspawn(name: str, netns: int | None, folder: Path) -> list[str]:
    shown = {str(folder / "files" / file): f"/etc/systemd/{file}" for file in _FILES}
    shown |= {str(one): str(one) for one in (programs.ROOT, (programs.ROOT / ".venv").resolve())}
    shown[str(folder / "keys")] = str(_KEYS)
    if (own := Path.home() / ".bashrc").exists():
        shown["/dev/null"] = str(own)  # it may wait for locks that are held outside
    return [
        *("env", "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1", "SYSTEMD_NSPAWN_API_VFS_WRITABLE=network"),
        *("systemd-nspawn", "--quiet", "--boot", "--console=pipe", "--directory=root"),
        *(f"--machine=reprise-{name}-{os.getpid()}", "--register=no", "--keep-unit", "--link-journal=no"),
        *(f"--network-namespace-path=/proc/{os.getpid()}/fd/{netns}", "--capability=all"),
        "--system-call-filter=bpf",  # which a container lacks and a machine has
        *(f"--bind-ro={here}:{there}" for here, there in shown.items()),
        *(f"--tmpfs={changes.STATE}", "--bind=/dev/net/tun", "--", f"--unit={_TARGET}"),
    ]


def _make_groups(name: str) -> list[Path]:
    """Control groups below our own, in the hierarchies that systemd uses: that of version 2 and its own."""
    mounted: dict[str, str] = {}
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        place, (kind, _, options) = line.split()[4], line.rpartition(" - ")[2].split()
        if kind == "cgroup2" or "name=systemd" in options.split(","):
            mounted["" if kind == "cgroup2" else "name=systemd"] = place
    made = []
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        _, hierarchy, path = line.split(":", 2)
        if hierarchy in mounted:
            made.append(Path(mounted[hierarchy] + path) / name)
    try:
        for one in made:
            one.mkdir()
    except OSError as error:
        pytest.skip(f"no control group can be made here: {error}")
    return made
