"""Rows `path` and `delay` of the hierarchy bench: the data paths as an experiment sets them up.

Hosts, addresses, rules and processes are those of an experiment's plan; instead of a resolver dnsperf asks
one of the emulated root servers. What passes is counted by the kernel at the link between the two hosts.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench import veth
from bench.bed import CLIENT_CORE, SERVER_CORE, Program, spawn
from bench.readings import Log
from bench.session import Session, pack
from cli import linux, programs
from cli.errors import RepriseError, complain
from cli.executor import hoststeps, netns
from cli.experiment import experiment as experiments
from cli.plan import facts, plan
from cli.plan.planned import RESULTS, RUN, Plan, Process

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


@dataclass
class Site:
    """The hosts of a plan, its steps carried out and the far end's processes running."""

    folder: Path
    plan: Plan
    hosts: netns.Hosts
    started: list[Program] = field(default_factory=list)
    sysfs: dict[str, Path] = field(default_factory=dict)

    def receive_apart(self) -> None:
        """The stacks behind both ends of the link run in kernel threads of their own, not in the senders."""
        for host, interface, core in ((_RESOLVER, _LINK, CLIENT_CORE), (_META, "resolver1", SERVER_CORE)):
            folder = self.folder / f"sys-{host}"
            folder.mkdir()
            with linux.inside(self.hosts.of(host)):
                flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
                linux.mount("sysfs", str(folder), "sysfs", flags)
            self.sysfs[host] = folder
            veth.pin(veth.use_threaded_napi(self.hosts.of(host), folder, interface), core)

    def fill(self, text: str) -> str:
        """The plan's marks as folders of this run."""
        marks = {RUN: str(self.folder / "run"), RESULTS: str(self.folder), "@turn@": "1"}
        for mark, value in marks.items():
            text = text.replace(mark, value)
        return text

    def start(self, name: str, host: str, core: int, argv: list[str]) -> Program:
        """A program on a host, pinned to a core."""
        self.started.append(spawn(self.folder, name, core, argv, self.hosts.of(host)))
        return self.started[-1]

    def read_link(self, when: str) -> None:
        """The link's counters, as `ip` prints them."""
        with linux.inside(self.hosts.of(_RESOLVER)):
            argv = [programs.packaged("ip"), "-s", "-j", "link", "show", "dev", _LINK]
            text = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        Log(self.folder / "readings.jsonl").add(when, "link", "ip", text=text)


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
        for program in site.started:
            program.log.threads(program.process.pid, "before", program.name)
        site.read_link("before")
        argv = _dnsperf(site, "-n", str(queries // _NAMES), "-q", "100")
        client = site.start("dnsperf", _RESOLVER, CLIENT_CORE, argv)
        if client.finish(_LIMIT_S) != 0:
            raise RepriseError(f"dnsperf failed: {client.last_line()}", f"see {site.folder}")
        site.read_link("after")
        for program in site.started[:-1]:
            program.log.threads(program.process.pid, "after", program.name)
        folder = site.folder
    session.note(folder, row="path", tool=data_path, repeat=repeat, argv=[argv])


def _measure_delay(session: Session, repeat: int, world: Path) -> None:
    complain(f"bench: delay (repeat {repeat + 1} of {session.options.repeats})")
    seconds = 1 if session.options.quick else session.options.seconds or _SECONDS
    rate = 1_000 if session.options.quick else RATE
    rtt = f"[hierarchy.rtt]\nrtt_ms = {RTT_MS}\nrealtime = true\n"
    with _site(session, "delay", "tun", _table(world, "tun", rtt)) as site:
        watches = [_capture(site, "reprise0", "before"), _capture(site, _LINK, "after")]
        argv = _dnsperf(site, "-l", str(seconds), "-Q", str(rate), "-q", "2000")
        client = site.start("dnsperf", _RESOLVER, CLIENT_CORE, argv)
        if client.finish(_LIMIT_S) != 0:
            raise RepriseError(f"dnsperf failed: {client.last_line()}", f"see {site.folder}")
        for watch in watches:
            _drain(watch)
            watch.stop()
        folder = site.folder
    for name in ("before", "after"):
        pack(folder / f"{name}.pcap")
    session.note(folder, row="delay", tool="tun", repeat=repeat, argv=[argv], delay_ms=RTT_MS / 2, rate=rate)


def _dnsperf(site: Site, *words: str) -> list[str]:
    data = site.folder / "names.txt"
    data.write_text("".join(f"n{i}.nothing. A\n" for i in range(_NAMES)), encoding="ascii")
    flags = ["-s", ROOT, "-d", str(data), "-c", "1", "-T", "1"]
    return [programs.packaged("dnsperf"), *flags, *words]


def _capture(site: Site, interface: str, name: str) -> Program:
    argv = [programs.packaged("tcpdump"), "-i", interface, "-n", "-s", "64", "-B", "65536", "-Z", "root"]
    argv += ["--time-stamp-precision=nano", "-Q", "out", "-w", str(site.folder / f"{name}.pcap")]
    argv.append("udp dst port 53")
    watch = site.start(f"tcpdump-{name}", _RESOLVER, SERVER_CORE, argv)
    watch.until("listening on")
    return watch


def _drain(watch: Program) -> None:
    """tcpdump leaves what it has not fetched when it ends; it fetches once a second."""
    watch.has_ended(1.5)


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
    site = Site(folder, made, netns.build(made.network))
    try:
        _prepare(site)
        if row == "path":
            site.receive_apart()
        for process in made.processes:
            if process.role in ("meta", "proxy"):
                _start(site, process)
        yield site
    finally:
        for program in reversed(site.started):
            program.stop(signal.SIGTERM)
        for mounted in site.sysfs.values():
            subprocess.run([programs.packaged("umount"), "-l", str(mounted)], check=False)
            mounted.rmdir()
        for descriptor in site.hosts.descriptors.values():
            os.close(descriptor)
        shutil.rmtree(folder / "run")


def _prepare(site: Site) -> None:
    """The plan's folders, files and steps, as an executor has them done."""
    for folder in site.plan.folders:
        Path(site.fill(folder.path)).mkdir(parents=True, exist_ok=True)
        if folder.owner:
            shutil.chown(site.fill(folder.path), folder.owner)
    for file in site.plan.files:
        path = Path(site.fill(file.path))
        if file.copy_of is not None:
            shutil.copyfile(site.fill(file.copy_of), path)
        else:
            path.write_text(site.fill(file.content or ""), encoding="utf-8")
        path.chmod(int(file.mode, 8))
    for parent in (site.folder / "run", *(site.folder / "run").parents):
        if parent.stat().st_uid == os.geteuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)  # servers that give up root read below it
    log = site.folder / "steps.log"
    env = {"PATH": _PATH, "LANG": "C.UTF-8"}
    for step in site.plan.prepare:
        if step.id in ("zones", "plan"):
            own = {key: site.fill(value) for key, value in step.env.items()}
            hoststeps.carry_out((step.argv,), None, site.fill, {**env, **own}, log)
    for part in site.plan.setup:
        hoststeps.carry_out(part.apply, site.hosts.of(part.host), site.fill, env, log)


def _start(site: Site, process: Process) -> None:
    argv = [site.fill(word) for word in process.argv]
    program = site.start(process.id, process.host, _CORES[process.id], argv)
    program.until(process.ready.text)
