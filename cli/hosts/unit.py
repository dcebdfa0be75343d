"""What keeps a run on hosts that were booted with systemd apart from the ssh sessions that start it.

`main`, called by ssh, becomes `systemd-run` with the agent as a transient service: limits of the session do
not hold for it, and nothing that ends sessions ends it. systemd kills all that it leaves, and
undoes its changes where it was killed. Input, output and exit status are the agent's. Where systemd or its
bus is not there, or we are not root, it runs in the session.

The service is denied what no program of a run needs, see docs/decisions/0021-agents-as-units.md.
"""

import os
import sys
from pathlib import Path
from typing import NoReturn

from cli import call, programs
from cli.hosts import changes

_STARTER = Path("/usr/bin/systemd-run")
_PYTHON = (sys.executable, "-P", "-m", "cli.call")
_AGENT = (*_PYTHON, "cli.hosts.agent.serve")
_BUS = Path("/run/dbus/system_bus_socket")  # systemd-run --wait and --pipe need it
_PRIVATE = ("/tmp", "/var/tmp")  # of the unit alone

# Of root's rights: those of docs/privileges.md, and of what the agent and servers do as root.
_CAPABILITIES = """
    CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_KILL CAP_SETGID CAP_SETUID CAP_SETPCAP
    CAP_NET_ADMIN CAP_NET_BIND_SERVICE CAP_NET_RAW CAP_BPF CAP_PERFMON CAP_IPC_LOCK
    CAP_SYS_ADMIN CAP_SYS_CHROOT CAP_SYS_NICE CAP_SYS_PTRACE CAP_SYS_RESOURCE
"""

_PROPERTIES = {
    # A run opens many sockets and starts many processes. One that is killed for lack of memory is reported.
    "LimitNOFILE": "infinity",
    "LimitMEMLOCK": "infinity",
    "TasksMax": "infinity",
    "OOMPolicy": "continue",
    "CPUAccounting": "yes",
    "MemoryAccounting": "yes",
    # SIGTERM is for the agent alone, which stops the others in order and undoes its changes.
    "KillMode": "mixed",
    "TimeoutStopSec": "90",
    # Addresses, routes and kernel settings are the agent's to undo, so /proc/sys stays writable.
    "ProtectSystem": "strict",
    "ReadWritePaths": f"{changes.RUNTIME} {changes.STATE}",
    "ProtectHome": "read-only",
    "PrivateTmp": "yes",
    "ProtectControlGroups": "yes",
    "ProtectHostname": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectKernelModules": "yes",
    "DevicePolicy": "closed",
    "DeviceAllow": "/dev/char/10:200 rw",  # /dev/net/tun, also where its module is loaded later
    # Not the clock (which is read, so that ProtectClock is too much), not modules, not a restart.
    "CapabilityBoundingSet": " ".join(_CAPABILITIES.split()),
    "NoNewPrivileges": "yes",
    "LockPersonality": "yes",
    "RestrictSUIDSGID": "yes",
    "RestrictNamespaces": "mnt net pid user",  # of a user's own: BIND's tools
    "RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_XDP",
    "SystemCallArchitectures": "native",
    "SystemCallFilter": "~@cpu-emulation @debug @module @obsolete @raw-io @reboot @swap",
    "SystemCallErrorNumber": "EPERM",
}


def service(run: str, root: Path = programs.ROOT) -> list[str]:
    """The command line that starts the agent of a run as its unit."""
    words = (*_PYTHON, *call.words("cli.hosts.changes.repair", run=run))
    repair = " ".join(_quoted(word).replace("$", "$$") for word in words)
    properties = {**_PROPERTIES, "ExecStopPost": f"+{repair}"}
    if any(root.is_relative_to(one) for one in _PRIVATE):
        properties["BindReadOnlyPaths"] = _quoted(str(root))
    seen = ["--setenv=SSH_CONNECTION"] if "SSH_CONNECTION" in os.environ else []
    return [
        str(_STARTER),
        *("--quiet", "--pipe", "--wait", "--collect", "--service-type=exec"),
        *(f"--unit={changes.unit(run)}", f"--description=Reprise run {run}"),
        *(f"--property={name}={value}" for name, value in properties.items()),
        *(f"--setenv=PYTHONPATH={root}", *seen, "--"),
        *(word.replace("$", "$$") for word in _AGENT),
    ]


def _quoted(word: str) -> str:
    """A word of a unit file's line. Only in command lines `$` has to be doubled."""
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def possible() -> bool:
    """Whether systemd manages this host and would listen to us."""
    there = changes.BOOTED.is_dir() and _STARTER.exists() and _BUS.is_socket()
    return there and os.geteuid() == 0


def main(run: str) -> NoReturn:
    argv = [*_AGENT]
    if possible():
        changes.RUNTIME.mkdir(parents=True, exist_ok=True)
        changes.make_state()
        argv = service(run)
    os.execv(argv[0], argv)
