"""`reprise run --inventory`: the playbook deploy.yml prepares the hosts, then the plan is carried out."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from cli import programs
from cli.errors import RepriseError, one_line
from cli.experiment import experiment as experiments
from cli.hosts import inventory
from cli.hosts import run as hosts_run
from cli.plan.facts import check_kinds
from cli.progress import Progress

_PLAYBOOKS = programs.ROOT / "playbooks"


def command_run(options: argparse.Namespace) -> int:
    """Refuses an inventory or servers that do not fit before anything is done."""
    experiment = experiments.load(options.experiment, options.set)
    check_kinds(experiment)
    inventory.place(experiment, inventory.read(*options.inventory))
    if not options.no_deploy:
        _deploy(options)
    return hosts_run.command_run(options)


def _deploy(options: argparse.Namespace) -> None:
    import ansible_runner  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    progress = Progress()
    failures: list[str] = []

    def note(event: dict[str, Any]) -> bool:
        data = event.get("event_data", {})
        if event.get("event") == "playbook_on_play_start":
            progress.phase(f"hosts: {data.get('play', '')}")
        elif event.get("event") in ("runner_on_failed", "runner_on_unreachable") and not data.get(
            "ignore_errors"
        ):
            result = data.get("res", {})
            said = (result.get("stderr") or result.get("msg") or "it failed").rstrip().rpartition("\n")[2]
            failures.append(f"{data.get('host')}: {data.get('task')}: {one_line(str(said))}")
        elif event.get("event") == "runner_on_ok" and "warning: " in str(data.get("res", {}).get("msg", "")):
            progress.phase(one_line(str(data["res"]["msg"])))
        return False

    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"  # of ansible-playbook
    with tempfile.TemporaryDirectory(prefix="reprise-") as scratch:
        done = ansible_runner.run(
            private_data_dir=scratch,
            project_dir=str(_PLAYBOOKS),
            playbook=str(_PLAYBOOKS / "deploy.yml"),
            inventory=[str(path.absolute()) for path in options.inventory],
            extravars={"experiment": str(Path(options.experiment).absolute()), "reprise_set": options.set},
            event_handler=note,
            quiet=True,
            envvars={
                "ANSIBLE_NOCOLOR": "1",
                "ANSIBLE_PIPELINING": "1",
                "ANSIBLE_SSH_EXTRA_ARGS": " ".join(programs.NO_FORWARDING),
                "PATH": path,
            },
        )
        said = one_line(done.stdout.read()[-400:])
    progress.finish()
    if done.rc != 0:
        what = failures[0] if failures else f"ansible-playbook ended with status {done.rc}, {said}"
        raise RepriseError(f"the hosts could not be prepared: {what}", "fix that and run it again")
