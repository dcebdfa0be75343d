"""`reprise run --inventory`: the playbook deploy.yml prepares the hosts, then the plan is carried out."""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from cli import programs
from cli.errors import RepriseError, one_line
from cli.experiment import experiment as experiments
from cli.experiment import tables
from cli.hosts import inventory, source
from cli.hosts import run as hosts_run
from cli.plan.facts import check_kinds
from cli.progress import Progress
from cli.servers import kinds
from cli.tools import needs, packages

_PLAYBOOKS = programs.ROOT / "playbooks"
_SECTIONS = ("base", "run", "hierarchy", "hosts")  # guards need what a hierarchy needs


def command_run(options: argparse.Namespace) -> int:
    """Refuses an inventory or servers that do not fit before anything is done."""
    experiment = experiments.load(options.experiment, options.set)
    check_kinds(experiment)
    targets = inventory.place(experiment, inventory.read(*options.inventory))
    if not options.no_deploy:
        _deploy(options)
    return hosts_run.carry_out(options, targets)


def _deploy(options: argparse.Namespace) -> None:
    import ansible_runner  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    progress = Progress()
    failures: list[str] = []

    def note(event: dict[str, Any]) -> bool:
        kind, data = event.get("event"), event.get("event_data", {})
        result = data.get("res") or {}
        message = result.get("msg") or ""
        if kind == "playbook_on_play_start":
            progress.phase(f"hosts: {data.get('play', '')}")
        elif kind in ("runner_on_failed", "runner_on_unreachable") and not data.get("ignore_errors"):
            said = (result.get("stderr") or message or "it failed").rstrip().rpartition("\n")[2]
            failures.append(f"{data.get('host')}: {data.get('task')}: {one_line(str(said))}")
        elif kind == "runner_on_ok" and "warning: " in str(message):
            progress.phase(one_line(str(message)))
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


def wanted(experiment: str, settings: list[str]) -> dict[str, Any]:
    """Packages, servers, the version of the source and, where there is one, an archive of it, for deploy.yml.
    Every host gets all packages, so that what one prepares can be carried out on the others.
    """
    asked = argparse.Namespace(command="run", experiment=tables.find(experiment), set=settings)
    loaded = experiments.load(asked.experiment, settings)
    listed = packages.listed()
    every = dict.fromkeys((*_SECTIONS, *needs.of(asked).sections))
    building, others = (
        sorted(name for one in every if (one in packages.BUILDING) == built for name in listed.get(one, ()))
        for built in (True, False)
    )
    found = source.checksum()
    by_proxy = loaded.emulated is not None and loaded.emulated.data_path == "tun"
    return {
        "packages": others,
        "building": building,
        "programs": sorted(kinds.packaged_programs(experiments.as_dict(loaded))),
        "hierarchy": loaded.emulated is not None,
        "tun": by_proxy or loaded.rtt is not None or loaded.server.front == "reference",
        "source": found,
        "archive": "" if programs.INSTALLED else str(_archive(found)),
    }


def _archive(checksum: str) -> Path:
    """Made once for each version; earlier ones go."""
    cache = programs.cache()
    path = cache / f"source-{checksum[:16]}.tar.gz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        for old in cache.glob("source-*.tar.gz"):
            old.unlink(missing_ok=True)
        making = path.with_suffix(f".{os.getpid()}")
        source.write(making)
        making.rename(path)
    return path
