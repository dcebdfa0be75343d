"""What of a plan each machine needs: its part of folders and files, and of what the steps have made.

A machine that runs servers or proxies has all that was prepared but for keys; others have what their command
lines name. A private key is on no machine that does not use it.
"""

from __future__ import annotations

import dataclasses
import json
import re
import subprocess
from collections.abc import Iterable
from pathlib import PurePosixPath

from cli.errors import RepriseError, one_line
from cli.hosts import changes
from cli.hosts.inventory import Target
from cli.plan.planned import RESULTS, RUN, Plan

_NAMED = re.compile(r"@(?:run|results)@(?:/[^\s\"'\\,;:=]*)?")
_PLAIN_ROLES = ("controller", "distributor", "sampler", "capture")
_KEYS = f"{RUN}/tls/"


def part(plan: Plan, hosts: Iterable[str]) -> Plan:
    """The plan with the folders and files of some hosts, and without steps."""
    named, whole = _needs(plan, set(hosts))
    parents = {str(parent) for path in named for parent in PurePosixPath(path).parents}
    always = {RESULTS, f"{RESULTS}/logs"}
    return dataclasses.replace(
        plan,
        folders=tuple(one for one in plan.folders if whole or one.path in named | parents | always),
        files=tuple(one for one in plan.files if whole or one.path in named),
        prepare=(),
    )


def _needs(plan: Plan, hosts: set[str]) -> tuple[set[str], bool]:
    """Paths that are named in what the hosts carry out, and whether they need everything."""
    processes = [one for one in plan.processes if one.host in hosts]
    steps = [one for one in (*plan.setup, *plan.begin, *plan.finish) if one.host in hosts]
    words = [word for one in processes for word in (*one.argv, *one.files, *one.env.values())]
    words += [word for one in steps for argv in (*one.apply, *one.undo) for word in argv]
    named = {found for word in words for found in _NAMED.findall(word)}
    return named, any(one.role not in _PLAIN_ROLES for one in processes)


def send(plan: Plan, home: Target, to: Target, hosts: Iterable[str]) -> None:
    """Copies what the steps have made on `home` and the hosts need, with owners by their names."""
    named, whole = _needs(plan, set(hosts))
    run, results = str(changes.runtime(plan.run)), str(changes.results(plan.run))
    wanted = sorted(
        path.replace(RUN, run).replace(RESULTS, results)
        for path in named
        if path not in (RUN, RESULTS) and (not whole or path.startswith((_KEYS, RESULTS)))
    )
    asked = json.dumps({"run": run, "whole": whole, "paths": wanted})
    with (
        subprocess.Popen(
            home.python("changes", "pack"), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as there,
        subprocess.Popen(
            to.command("tar", "-C", "/", "--same-owner", "-xpf", "-"),
            stdin=there.stdout,
            stderr=subprocess.PIPE,
        ) as here,
    ):
        assert there.stdin is not None
        assert here.stderr is not None
        there.stdin.write(asked.encode())
        there.stdin.close()
        complaint = here.stderr.read().decode("utf-8", "replace")
        if here.wait() != 0 or there.wait() != 0:
            raise RepriseError(
                f"cannot copy prepared files from {home.name} to {to.name}: {one_line(complaint)}",
                "check that both have enough free memory",
            )
