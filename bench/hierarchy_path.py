"""Rows `path` and `delay` of the hierarchy bench: the data paths as an experiment sets them up.

Hosts, addresses, rules and processes are those of an experiment's plan; instead of a resolver dnsperf asks
one of the emulated root servers. What passes is counted by the kernel at the link between the two hosts.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.bed import CLIENT_CORE, SERVER_CORE, MeasuredBed
from bench.session import Session, pack
from cli import programs
from cli.errors import RepriseError, complain
from cli.executor import hoststeps, machine
from cli.experiment import experiment as experiments
from cli.plan import facts, plan, privileges
from cli.plan.planned import RESULTS, RUN, Plan, Process
from tests.bed import Capture

ROWS = ("path", "delay")
ROOT = "198.41.0.4"  # a.root-servers.net
RTT_MS = 20.0
RATE = 20_000  # packets a second of the row `delay`
_SECONDS = 5
_QUERIES = 300_000
_QUICK_QUERIES = 2_000
_NAMES = 1_000
_LIMIT_S = 120.0
_RESOLVER, _META = "server", "meta1"
_LINK = "meta1"  # the resolver's end of the link
_CORES = {"proxy-server": CLIENT_CORE, "proxy-meta1": SERVER_CORE, _META: SERVER_CORE}
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Site(MeasuredBed):
    """The hosts of a plan, its steps carried out and the far end's processes running."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        super().__init__(folder, plan.network)
        self.plan = plan

    def fill(self, text: str) -> str:
        """The plan's marks as folders of this run."""
        marks = {RUN: str(self.folder / "run"), RESULTS: str(self.folder), "@turn@": "1"}
        for mark, value in marks.items():
            text = text.replace(mark, value)
        return text

    def ask(self, words: list[str]) -> list[str]:
        """Runs dnsperf on the resolver's host; its command line."""
        data = self.folder / "names.txt"
        data.write_text("".join(f"n{i}.nothing. A\n" for i in range(_NAMES)), encoding="ascii")
        argv = [programs.packaged("dnsperf"), "-s", ROOT, "-d", str(data), "-c", "1", "-T", "1", *words]
        client = self.start(_RESOLVER, argv, "dnsperf", CLIENT_CORE)
        if client.wait(_LIMIT_S) != 0:
            raise RepriseError(f"dnsperf failed: {client.last_line()}", f"see {self.folder}")
        return argv

    def read_link(self, when: str) -> None:
        """The link's counters, as `ip` prints them."""
        argv = [programs.packaged("ip"), "-s", "-j", "link", "show", "dev", _LINK]
        self.log.add(when, "link", "ip", text=self.output(_RESOLVER, *argv, check=True))


def measure(session: Session, repeat: int, world: Callable[[], Path]) -> None:
    """Both data paths, then the delay line."""
    only = session.options.only
    if not only or "path" in only:
        for data_path in ("nft", "tun"):
            _measure_path(session, repeat, world(), data_path)
    if not only or "delay" in only:
        _measure_delay(session, repeat, world())


def _measure_path(session: Session, repeat: int, world: Path, data_path: str) -> None:
    complain(f"bench: path {data_path} (repeat {repeat + 1} of {session.options.repeats})")
    queries = _QUICK_QUERIES if session.options.quick else _QUERIES
    with _site(session, "path", data_path, _table(world, data_path, "")) as site:
        far = list(site.started)
        for program in far:
            site.log.processes([program.pid], "before", program.name)
        site.read_link("before")
        argv = site.ask(["-n", str(queries // _NAMES), "-q", "100"])
        site.read_link("after")
        for program in far:
            site.log.processes([program.pid], "after", program.name)
    session.note(site.folder, row="path", tool=data_path, repeat=repeat, argv=[argv])


def _measure_delay(session: Session, repeat: int, world: Path) -> None:
    complain(f"bench: delay (repeat {repeat + 1} of {session.options.repeats})")
    seconds = 1 if session.options.quick else session.options.seconds or _SECONDS
    rate = 1_000 if session.options.quick else RATE
    rtt = f"[hierarchy.rtt]\nrtt_ms = {RTT_MS}\nrealtime = true\n"
    with _site(session, "delay", "tun", _table(world, "tun", rtt)) as site:
        captures = [
            Capture(
                site, _RESOLVER, interface, name, "-Q", "out", "udp dst port 53", snap=64, live=False,
                core=SERVER_CORE,
            )
            for interface, name in (("reprise0", "before"), (_LINK, "after"))
        ]  # fmt: skip
        argv = site.ask(["-l", str(seconds), "-Q", str(rate), "-q", "2000"])
        for capture in captures:
            capture.stop()
    for capture in captures:
        pack(capture.path)
    more = {"argv": [argv], "delay_ms": RTT_MS / 2, "rate": rate}
    session.note(site.folder, row="delay", tool="tun", repeat=repeat, **more)


# --- the hosts --------------------------------------------------------------------------------------------


def _table(world: Path, data_path: str, rtt: str) -> str:
    """The experiment whose hosts are made."""
    return f"""schema = 1
name = "bench"
[generate]
name = "example."
[replay]
rate = 1.0
limit = 1
[server]
kind = "hierarchy"
[hierarchy]
zones = "{world}"
data_path = "{data_path}"
{rtt}"""


@contextmanager
def _site(session: Session, row: str, name: str, table: str) -> Iterator[Site]:
    folder = session.next_folder(row, name)
    (folder / "run").mkdir(parents=True)
    written = folder / "experiment.toml"
    written.write_text(table, encoding="utf-8")
    experiment = experiments.load(written, [])
    made = plan.make(experiment, facts.gather(experiment, "bench"))
    with Site(folder, made) as site:
        _prepare(site)
        if row == "path":  # the stacks behind both ends of the link run in threads of their own
            site.receive_apart(_RESOLVER, _LINK, CLIENT_CORE)
            site.receive_apart(_META, "resolver1", SERVER_CORE)
        for process in made.processes:
            if process.role in ("meta", "proxy"):
                _start(site, process)
        yield site
        for program in reversed(site.started):
            program.stop()
    shutil.rmtree(folder / "run")
    privileges.give_back(folder)


def _prepare(site: Site) -> None:
    """The plan's folders and files, and the steps that its hosts need, as an executor has them done."""
    machine.make_folders(site.plan.folders, site.fill)
    machine.make_files(site.plan.files, site.fill)
    for parent in (site.folder / "run", *(site.folder / "run").parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)  # servers that give up root read below it
    log = site.folder / "steps.log"
    env = {"PATH": _PATH, "LANG": "C.UTF-8"}
    for step in site.plan.prepare:
        if step.id in ("zones", "plan", "serve"):
            own = {key: site.fill(value) for key, value in step.env.items()}
            hoststeps.carry_out((step.argv,), None, site.fill, {**env, **own}, log)
    for part in site.plan.setup:
        hoststeps.carry_out(part.apply, site.hosts.of(part.host), site.fill, env, log)


def _start(site: Site, process: Process) -> None:
    argv = [site.fill(word) for word in process.argv]
    site.start(process.host, argv, process.id, _CORES[process.id]).until(process.ready.text)
