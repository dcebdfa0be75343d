"""Hosts of a testbed as network namespaces: each has an interface in one LAN, a management network in which
its own sshd listens, and state of its own; one more namespace is their operator's.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

from cli import programs
from cli.hosts import changes
from cli.plan.network import Host, Link, Network, Route, sysctls
from cli.process import Process
from tests import command
from tests.bed import BareBed, wait_for
from tests.booted_host import booted
from tests.ssh import Ssh, shared_connections

OPERATOR, LAN = "operator", "lan"
PORT = 2222
GROUPS = {"controller": ["boss"], "clients": ["load1", "load2"], "servers": ["dns"]}


@dataclass(frozen=True)
class Testbed:
    """The hosts, their inventory, and ways to look at them."""

    __test__ = False  # it is no test itself

    bed: BareBed
    ssh: Path
    inventory: Path
    names: tuple[str, ...]
    folder: Path

    def start(self, *words: str, cwd: Path, log: Path) -> Process:
        """The `reprise` command on the operator's host; what it says goes into a file."""
        return self.start_python("cli", *words, cwd=cwd, log=log)

    def start_python(self, *words: str, cwd: Path, log: Path) -> Process:
        """A module of Python there."""
        python = str(programs.ROOT / ".venv/bin/python")
        places = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder)}
        places["MPLCONFIGDIR"] = mpl.get_cachedir()  # to look for fonts takes seconds
        env = {"PYTHONPATH": command.UNRENDERED, "PWD": str(cwd), **places}
        argv = ["env", "-C", str(cwd), python, "-P", "-m", *words]
        return Process.started(argv, log, env=env, netns=self.bed.hosts.of(OPERATOR))

    def run(self, *words: str, cwd: Path, limit_s: float = 300) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        return self.run_python("cli", *words, cwd=cwd, limit_s=limit_s)

    def run_python(self, *words: str, cwd: Path, limit_s: float = 300) -> subprocess.CompletedProcess[str]:
        """The same of a module."""
        process = self.start_python(*words, cwd=cwd, log=cwd / "run.log")
        return subprocess.CompletedProcess(words, process.wait(limit_s), "", process.text())

    def on(self, host: str, *words: str) -> str:
        """Standard output of a command on a host, over a connection of its own."""
        with self.bed.inside(OPERATOR):
            return subprocess.run(
                ["ssh", "-F", str(self.ssh), "-T", host, *words],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=60,
                check=True,
            ).stdout

    def kill(self, host: str, mark: str) -> None:
        """Kills processes on a host whose command lines have a text, and so the whole tree of an agent."""
        own = os.fstat(self.bed.hosts.descriptors[host]).st_ino
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if mark.encode() in words and (folder / "ns/net").stat().st_ino == own:
                    os.kill(int(folder.name), signal.SIGKILL)

    def state(self, host: str) -> str:
        """Addresses, routes, rules, tables of nftables, settings and files that a run may leave there."""
        settings = (
            "net.ipv4.conf.all.rp_filter net.core.somaxconn net.ipv4.ip_local_port_range net.ipv4.ip_forward"
        )
        return self.on(
            host,
            f"ip -br addr; ip route show table all; ip -6 route show table all; ip rule; ip -6 rule; "
            f"nft list ruleset; sysctl {settings}; ls -I locks {changes.RUNTIME}; "
            f"cd {changes.STATE}; find . -path './undo/*' -o -path './runs/*'; "
            "ip link | grep -o 'reprise[01]'; tc qdisc show dev exp0; tc filter show dev exp0 ingress; "
            "tc filter show dev exp0 egress; sysctl -a 2> /dev/null | grep -E 'forwarding|accept_ra '; true",
        )


def management(number: int) -> str:
    """The address at which host number `number` is reached, from 1."""
    return f"192.0.2.{4 * number + 1}"


def _network(names: tuple[str, ...]) -> Network:
    links = []
    for number, name in enumerate(names, 1):
        links.append(
            Link(name, LAN, "exp0", f"port{number}", (f"172.16.1.{number}/24", f"fd10:1::{number}/64"), ())
        )
        links.append(
            Link(
                name,
                OPERATOR,
                "mgmt",
                f"to{number}",
                (f"{management(number)}/30",),
                (f"192.0.2.{4 * number + 2}/30",),
            )
        )
    return Network(
        "namespaces",
        hosts=tuple(Host(name) for name in (*names, LAN, OPERATOR)),
        links=tuple(links),
        routes=tuple(Route(name, "0.0.0.0/0", f"192.0.2.{4 * n + 2}") for n, name in enumerate(names, 1)),
        sysctls=tuple(
            one
            for name in (*names, OPERATOR)
            for one in sysctls(name, 4096)
            if one.key.startswith("net/ipv6/")  # the others are a run's to set, and to put back
        ),
    )


@contextlib.contextmanager
def opened(
    folder: Path,
    groups: dict[str, list[str]],
    wraps: Mapping[str, Sequence[str]] | None = None,
    with_systemd: tuple[str, ...] = (),
    root: Path | None = None,
    variables: str = "",
) -> Iterator[Testbed]:
    """Hosts by the groups of an inventory, with more lines of variables, some of them booted with systemd.
    They have this machine's files, or all of them the system in the folder `root`; `wraps` starts the sshd
    of a host by further words.
    """
    folder.mkdir()
    names = tuple(dict.fromkeys(name for group in groups.values() for name in group))
    with BareBed(folder, _network(names)) as bed, contextlib.ExitStack() as servers:
        bed.ip(LAN, "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        bed.ip(LAN, "link", "set", "br0", "up")
        for number in range(1, len(names) + 1):
            bed.ip(LAN, "link", "set", f"port{number}", "master", "br0")
        ssh = Ssh(folder / "ssh", PORT)
        config = ssh.config({name: management(number) for number, name in enumerate(names, 1)})
        for number, name in enumerate(names, 1):
            if name in with_systemd:
                servers.enter_context(booted(name, bed.hosts.of(name), ssh, management(number)))
                continue
            own = folder / "state" / name
            own.mkdir(parents=True)
            if root is None:
                for place in (changes.RUNTIME, changes.STATE):
                    place.mkdir(parents=True, exist_ok=True)
            enter = f"set -e; {entered(root, folder) if root else ''} {_private(own)}"
            wrap = ["unshare", "-m", "sh", "-c", f'{enter} exec "$@"', "sh", *(wraps or {}).get(name, ())]
            servers.enter_context(ssh.serve([management(number)], bed.hosts.of(name), wrap))
        inventory = folder / "hosts.ini"
        shared = " ".join(f"-o {one}" for one in servers.enter_context(shared_connections()))
        inventory.write_text(_inventory(names, groups, config, shared) + variables, encoding="utf-8")
        made = Testbed(bed, config, inventory, names, folder)
        for name in names:
            wait_for(lambda name=name: _reached(made, name), f"ssh to {name}")  # type: ignore[misc]
        yield made


def _private(own: Path) -> str:
    """State of its own for a host, in shell."""
    return f"mount -t tmpfs tmpfs {changes.RUNTIME}; mount --bind {own} {changes.STATE};"


def entered(root: Path, folder: Path) -> str:
    """The system becomes the root, in shell; of this machine the folder, devices and processes stay."""
    same = "".join(f"mkdir -p {root}{one}; mount --rbind {one} {root}{one};" for one in (folder, "/dev"))
    return (
        f"mount --bind {root} {root}; {same} cd {root}; mkdir -p .outside; pivot_root . .outside; cd /;"
        "mount -t proc proc /proc; mount -t sysfs sysfs /sys; umount -l /.outside; mount -t tmpfs tmpfs /run;"
        f"mkdir -p /run/lock /run/sshd {changes.RUNTIME} {changes.STATE};"
    )


def _reached(made: Testbed, name: str) -> bool:
    try:
        made.on(name, "true")
    except subprocess.CalledProcessError:
        return False
    return True


def _inventory(names: tuple[str, ...], groups: dict[str, list[str]], config: Path, shared: str) -> str:
    text = "".join(
        f"[{group}]\n" + "".join(f"{name}\n" for name in names) + "\n" for group, names in groups.items()
    )
    own = "".join(f"{name} reprise_address=172.16.1.{number}\n" for number, name in enumerate(names, 1))
    settings = (
        f"ansible_ssh_common_args=-F {config}\n"
        f"ansible_ssh_args={shared}\n"
        "ansible_python_interpreter=/usr/bin/python3\n"
    )
    return f"{own}\n{text}[all:vars]\n{settings}"
