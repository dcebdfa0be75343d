"""An Ansible inventory as the machines of an experiment.

Groups: `controller` (one), `clients`, `servers` (one, or one for each resolver under test) and `metas` (one
for each meta-DNS-server of a hierarchy). Hosts are reached by ssh as Ansible would, or are this machine
(`ansible_connection: local`). Each but the controller's has an interface in the experiment's network, named
by `reprise_interface`, or by one of its addresses in `reprise_address`.
"""

import contextlib
import functools
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from cli import call, programs
from cli.errors import RepriseError, UsageError, last_line, one_line, want
from cli.experiment.addresses import parsed
from cli.experiment.schema import Experiment
from cli.plan import hierarchy_hosts, network

GROUPS = ("controller", "clients", "servers", "metas")
_SSH = ("-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5", "-T")
_INTERFACE = r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,14}"  # nothing special in rules or to a shell
_OURS = "reprise: error: "
MOST_SAID = 64 << 20  # bytes in one answer from a host


@dataclass(frozen=True)
class Target:
    """One machine of the inventory, and which hosts of the plan it is."""

    name: str
    variables: Mapping[str, Any]
    hosts: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        return self.variables.get("ansible_connection") == "local"

    @property
    def root(self) -> str:
        return str(self.variables.get("reprise_root", programs.ROOT))

    def text(self, *names: str) -> str:
        """The first of the variables that is there; "" without any."""
        return next((str(self.variables[name]) for name in names if name in self.variables), "")

    def command(self, *words: str) -> list[str]:
        if self.local:
            seen = f"SSH_CONNECTION={os.environ.get('SSH_CONNECTION', '')}"
            return [*(("sudo", "-n", "--", "env", seen) if self._becomes() else ()), *words]
        port = self.text("ansible_port", "ansible_ssh_port")
        user = self.text("ansible_user", "ansible_ssh_user")
        key = self.text("ansible_ssh_private_key_file", "ansible_private_key_file")
        more = (
            *(("-p", port) if port else ()),
            *(("-l", user) if user else ()),
            *(("-i", key) if key else ()),
            *shlex.split(self.text("ansible_ssh_common_args")),
            *shlex.split(self.text("ansible_ssh_extra_args")),
        )
        host = self.text("ansible_host", "ansible_ssh_host") or self.name
        become = 'sudo -n -- env SSH_CONNECTION="$SSH_CONNECTION" ' if self._becomes() else ""
        return ["ssh", *_SSH, *more, *programs.NO_FORWARDING, host, become + shlex.join(words)]

    def call(self, function: str, **values: Any) -> list[str]:
        """The command line that calls a function of cli.hosts on it. Who is not root may not have sbin. Hosts
        have programs at the same places: REPRISE_PROGRAMS is for runs on this machine alone. What a host says
        can fill no larger file here than MOST_SAID: ssh ends at the limit.
        """
        words = call.words(f"cli.hosts.{function}", **values)
        limit = () if self.local else ("prlimit", f"--fsize={MOST_SAID}", "--")
        python = f"{self.root}/.venv/bin/python"
        places = ("-u", "REPRISE_PROGRAMS", f"PYTHONPATH={self.root}", f"PATH={programs.SEARCH_PATH}")
        return [*limit, *self.command("env", *places, python, "-P", "-m", "cli.call", *words)]

    def ask(self, form: Any, function: str, given: bytes = b"", **values: Any) -> Any:
        """What such a function returns, of the type `form`; `given` is its input."""
        with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as errors:
            argv = self.call(function, **values)
            subprocess.run(argv, input=given, stdout=said, stderr=errors, check=False)
            said.seek(0)
            errors.seek(0)
            try:
                value = json.loads(said.read())
            except (ValueError, RecursionError):
                text = last_line(errors.read())
                if not text.startswith(_OURS):
                    raise UnreachableError(self, text) from None
                what, _, hint = text.removeprefix(_OURS).partition("; ")
                raise RepriseError(f"{self.name}: {what}", hint) from None
        return checked(self.name, value, form)

    def _becomes(self) -> bool:
        return str(self.variables.get("ansible_become", "no")).lower() in ("true", "yes", "1")

    def interface(self, found: Mapping[str, str]) -> str:
        """The interface in the experiment's network; `found` has those of all addresses there."""
        if name := self.text("reprise_interface"):
            return name
        address = self.text("reprise_address")
        if not address:
            what = f"host {self.name} has neither reprise_interface nor reprise_address"
            raise UsageError(what, "name its interface in the experiment's network in the inventory")
        what = f"reprise_address {address} of host {self.name} is not an IP address"
        wanted = str(parsed(address, UsageError(what, "write one like 10.10.1.2")))
        if wanted not in found:
            what = f"host {self.name} has no interface with reprise_address {address}"
            raise UsageError(what, "correct the inventory; `ip address` shows what the host has")
        if not re.fullmatch(_INTERFACE, found[wanted]):
            what = f"host {self.name} reports the interface name {found[wanted]!r}"
            raise UsageError(what, "set reprise_interface in the inventory")
        return found[wanted]


def read(*paths: Path) -> dict[str, list[Target]]:
    """The groups' machines, in the inventory's order; several inventories are one."""
    for one in paths:
        want(one.exists(), f"no inventory {one}", "give an Ansible inventory, see docs/testbeds.md")
    path = " and ".join(map(str, paths))
    given = [word for one in paths for word in ("-i", str(one))]
    argv = [sys.executable, "-m", "ansible", "inventory", *given, "--list"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    try:
        found = json.loads(done.stdout) if done.returncode == 0 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UsageError(f"inventory {path} cannot be read: {one_line(done.stderr)}", "see docs/testbeds.md")
    if "Failed to parse" in done.stderr:
        hint = "try it by hand: ansible-inventory --list -i FILE"
        raise UsageError(f"inventory {path} cannot be read", hint)
    variables = found.get("_meta", {}).get("hostvars", {})
    listed = {group: _listed(found, group) for group in GROUPS}
    placed = {name for names in listed.values() for name in names}
    for group in found.get("all", {}).get("children", []):
        want(
            group == "ungrouped" or placed.issuperset(_listed(found, group)),
            f"inventory {path}: unknown group {group}, whose hosts are in none of the known groups",
            f"use the groups {', '.join(GROUPS)}",
        )
    return {group: [Target(one, variables.get(one, {})) for one in names] for group, names in listed.items()}


def _listed(found: Mapping[str, Any], group: str) -> list[str]:
    value = found.get(group, {})
    names = list(value.get("hosts", []))
    for child in value.get("children", []):
        names += _listed(found, child)
    return list(dict.fromkeys(names))


def place(experiment: Experiment, groups: Mapping[str, list[Target]]) -> list[Target]:
    """The machines that are hosts of the plan, the controller's first, where also what is prepared is
    prepared; too few machines are a usage error.
    """
    metas = experiment.emulated.instances if experiment.emulated else 0
    wanted = {
        "controller": [network.CONTROLLER],
        "clients": [network.client(index) for index in range(1, experiment.topology.clients + 1)],
        "servers": network.servers(experiment.servers if experiment.own_server else 0),
        "metas": [hierarchy_hosts.meta(index) for index in range(1, metas + 1)],
    }
    targets: dict[str, Target] = {}
    for group, hosts in wanted.items():
        there = groups.get(group, [])
        want(
            len(there) >= len(hosts),
            f"the experiment needs {len(hosts)} hosts in group {group}, but the inventory has {len(there)}",
            "add hosts" + (", or lower topology.clients" if group == "clients" else ""),
        )
        targets.update(zip(hosts, there, strict=False))
    guarded = [one.name for host, one in targets.items() if host != network.CONTROLLER]
    twice = sorted({name for name in guarded if guarded.count(name) > 1})
    if twice:
        what = f"{', '.join(twice)}: assigned two roles in the experiment"
        raise UsageError(what, "only the controller may share its machine with another host")
    roots = sorted({one.root for one in targets.values()})
    if len(roots) > 1:
        what = f"Reprise would be in {' and in '.join(roots)} on different hosts"
        raise UsageError(what, "give all hosts the same reprise_root")
    machines = {one.name: one for one in targets.values()}
    hosts_of = {name: tuple(host for host, one in targets.items() if one.name == name) for name in machines}
    return [replace(one, hosts=hosts_of[name]) for name, one in machines.items()]


_adapter = functools.cache(TypeAdapter)


def checked(name: str, value: Any, form: Any) -> Any:
    """What a host answered, if it has the type `form`; another one is an error."""
    try:
        return _adapter(form).validate_python(value)
    except ValidationError as error:
        what = error.errors()[0]
        where = ".".join(map(str, what["loc"])) or "answer"
        raise RepriseError(f"{name} reports a wrong {where}: {what['msg']}", "look at that host") from None


def passed_on(
    source: list[str], to: list[str], what: str, hint: str, given: bytes = b"", head: bytes = b""
) -> None:
    """Runs two programs: what one writes, given its input, is the other's input, with `head` before it. Where
    one of them fails, `what` is not copied, and the error has the last that they said.
    """
    with tempfile.TemporaryFile() as asked, tempfile.TemporaryFile() as errors:
        asked.write(given)
        asked.seek(0)
        status = 1
        with subprocess.Popen(to, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors) as other:
            assert other.stdin is not None
            with contextlib.suppress(OSError), other.stdin as pipe:  # its status says what is wrong
                pipe.write(head)
                pipe.flush()
                status = subprocess.call(source, stdin=asked, stdout=pipe, stderr=errors)
        if status or other.returncode:
            errors.seek(0)
            raise RepriseError(f"cannot copy {what}: {last_line(errors.read()) or 'no message'}", hint)


class UnreachableError(RepriseError):
    """A machine that does not answer, or does not any more; `reason`: what ssh said."""

    def __init__(self, target: Target, reason: str) -> None:
        what = f"{target.name} cannot be reached: {reason or 'ssh failed'}"
        super().__init__(what, "try it by hand: " + " ".join(target.command("true")[:-1]))
