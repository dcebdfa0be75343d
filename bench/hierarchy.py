"""`reprise bench hierarchy`: planning, views for each address against colors, and the two data paths.

Rows: `plan` and `server` for each size and form, `path` (queries through proxies on TUN and through
nftables), `delay` (what the delay line adds to the delay it was asked for).

Hosts, addresses, rules and processes of the data paths are those of an experiment's plan; instead of a
resolver dnsperf asks one of the emulated root servers. What passes is counted by the kernel at the link
between the two hosts.
"""

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import traces, udp
from bench.bed import CLIENT_CORE, SERVER_CORE, MeasuredBed, start
from bench.session import Session, Step, make, pack, run, want_rows
from cli import programs
from cli.errors import RepriseError, complain
from cli.executor import machine, processes
from cli.experiment import experiment as experiments
from cli.plan import facts, privileges
from cli.plan import plan as plans
from cli.plan.network import Host, Network, Route
from cli.plan.planned import RESULTS, RUN, Plan
from cli.process import Process
from cli.zones import zone_plan
from tests.bed import Capture

_ROWS = ("plan", "server", "path", "delay")
_HOST = "meta"
_MALLOC = "MALLOC_CONF=narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0"  # as in an experiment's plan
_LIMIT_S = 600.0
_QUERIES = 300_000
_QUICK_QUERIES = 1_000
_REFERENCE_NAMES = 10_000
_REFERENCE_RUNS = 50
ROOT = "198.41.0.4"  # a.root-servers.net
RTT_MS = 20.0
RATE = 20_000  # packets a second of the row `delay`
_SECONDS = 5
_QUICK_PATH_QUERIES = 2_000
_NAMES = 1_000
_RESOLVER, _META = "server", "meta1"
_LINK = "meta1"  # the resolver's end of the link
_CORES = {"proxy-server": CLIENT_CORE, "proxy-meta1": SERVER_CORE, _META: SERVER_CORE}
_VIEW = re.compile(r'^view "([^"]+)"', re.MULTILINE)
# Form and number of zones of a world.
SIZES = ("paper-100", "paper-549", "colored-100", "colored-549", "colored-2000", "colored-10000")
_QUICK_SIZES = ("paper-40", "colored-40")


def measure(session: Session) -> None:
    """All repeats: sizes in turn, then the paths."""
    want_rows(session.options.only, _ROWS)
    only = session.options.only or _ROWS
    sizes = _QUICK_SIZES if session.options.quick else SIZES
    for repeat in range(session.options.repeats):
        for size in sizes if {"plan", "server"} & set(only) else ():
            if size == sizes[-1]:
                _measure_reference(session, "plan-reference", repeat)  # of the largest, and so beside it
            _measure_size(session, size, repeat, "server" in only)
        if "path" in only:
            _measure_reference(session, "path-reference", repeat)
            for data_path in ("nft", "tun"):
                _measure_path(session, repeat, data_path)
        if "delay" in only:
            _measure_delay(session, repeat)
    shutil.rmtree(session.traces, ignore_errors=True)


def _measure_reference(session: Session, row: str, repeat: int) -> None:
    """What dnsperf needs for a million queries on this machine just now."""
    names = session.traces / "names.txt"
    traces.write_dnsperf(names, _REFERENCE_NAMES)
    tool = udp.few_sockets(names, 1 if session.options.quick else _REFERENCE_RUNS)
    run(session, Step(row, "dnsperf", tool), repeat)


def _measure_size(session: Session, size: str, repeat: int, served: bool) -> None:
    complain(f"bench: {size} (repeat {repeat + 1} of {session.options.repeats})")
    form, _, zones = size.partition("-")
    world = world_of(session, zones)
    folder = session.next_folder("plan", size)
    folder.mkdir(parents=True)
    out = folder / "plan"
    argv = [sys.executable, "-m", "cli", "zones", "plan", str(world), "-o", str(out), "--form", form]
    program = start(folder, "plan", CLIENT_CORE, argv)
    if program.wait(_LIMIT_S) != 0:
        raise RepriseError(f"planning failed: {program.last_line()}", f"see {folder}")
    session.note(folder, row="plan", tool=size, repeat=repeat, argv=[argv], zones=int(zones))
    if served:
        _measure_server(session, size, repeat, out)
    for file in out.glob("*.conf"):
        file.unlink()  # megabytes that the world's seed gives again


def world_of(session: Session, zones: str) -> Path:
    """A synthetic hierarchy, made once for the session."""
    world = session.traces / f"world-{zones}"
    if not world.exists():
        make([sys.executable, "-m", "cli", "zones", "synth", "--zones", zones, "-o", str(world)])
    return world


# --- the meta-DNS-server ----------------------------------------------------------------------------------


def _measure_server(session: Session, size: str, repeat: int, plan: Path) -> None:
    folder = session.next_folder("server", size)
    folder.mkdir(parents=True)
    routes = tuple(Route(_HOST, to, kind="local", interface="lo") for to in ("0.0.0.0/0", "::/0"))
    # It has every address: what is sent to or from any of them stays in it.
    with MeasuredBed(folder, Network("namespaces", (Host(_HOST),), routes=routes)) as bed:
        bed.ip(_HOST, "-batch", str(plan / "meta-1.ip"))
        named = start_named(bed, plan)
        # The kernel's word on the memory, now that all zones are loaded.
        status = Path(f"/proc/{named.pid}/status").read_text(encoding="ascii")
        (folder / "status.txt").write_text(status, encoding="ascii")
        runs = _QUICK_QUERIES if session.options.quick else _QUERIES
        for place, (zone, destination, source) in zip(("first", "last"), _ends(plan, size), strict=True):
            bed.log.processes([named.pid], f"before-{place}", named.name)
            words = ["-q", "20", "-n", str(runs)]
            _ask(bed, _HOST, f"dnsperf-{place}", [f"{zone} SOA"], [destination, "-a", source], words)
            bed.log.processes([named.pid], f"after-{place}", named.name)
        named.stop()
    session.note(folder, row="server", tool=size, repeat=repeat, zones=int(size.partition("-")[2]))


def _ask(
    bed: MeasuredBed, host: str, name: str, questions: list[str], to: list[str], words: list[str]
) -> list[str]:
    """Runs dnsperf with one client on a host; its command line."""
    data = bed.folder / f"{name}.txt"
    data.write_text("".join(f"{one}\n" for one in questions), encoding="utf-8")
    argv = [programs.packaged("dnsperf"), "-s", *to, "-d", str(data), "-c", "1", "-T", "1", *words]
    client = bed.start(host, argv, name, CLIENT_CORE)
    if client.wait(_LIMIT_S) != 0:
        raise RepriseError(f"dnsperf failed: {client.last_line()}", f"see {bed.folder}")
    return argv


def start_named(bed: MeasuredBed, plan: Path) -> Process:
    """The server with its views, ready; the log has the times of every step."""
    copy = programs.copied("named", bed.folder)
    argv = [programs.packaged("env"), _MALLOC, copy, "-g", "-c", str(plan / "named-1.conf"), "-n", "1"]
    bed.log.add("before", "named", "start")
    named = bed.start(_HOST, argv, "named", SERVER_CORE).until(" running\n")
    bed.log.add("after", "named", "start")
    Path(copy).unlink()
    return named


def _ends(plan: Path, size: str) -> Iterator[tuple[str, str, str]]:
    """A zone in the first view and one in the last, the address that leads there and the one to ask from."""
    text = (plan / "views-1.conf").read_text(encoding="utf-8")
    starts = [match.start() for match in _VIEW.finditer(text)]
    meta = zone_plan.read_map(plan / "map.tsv").metas[0].address.v4
    for block in (text[starts[0] :], text[starts[-1] :]):
        zone = re.search(r'zone "([^"]+)"', block)
        addresses = re.search(r"match-(?:clients|destinations) \{([^}]*)\}", block)
        if zone is None or addresses is None:
            raise RepriseError("a view without zones or addresses", "see views-1.conf of the plan")
        four = next(one for one in re.findall(r"[0-9.]+(?=[;/\s])", addresses[1]) if one.count(".") == 3)
        yield (zone[1], meta, four) if size.startswith("paper") else (zone[1], four, "203.0.113.1")


# --- the data paths ---------------------------------------------------------------------------------------


class Site(MeasuredBed):
    """The hosts of a plan, its steps carried out and the far end's processes running."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        super().__init__(folder, plan.network)
        self.plan = plan

    def fill(self, text: str) -> str:
        """The plan's marks as folders of this run."""
        for mark, value in ((RUN, self.folder / "run"), (RESULTS, self.folder), ("@turn@", 1)):
            text = text.replace(mark, str(value))
        return text

    def ask(self, *words: str) -> list[str]:
        """Asks the emulated root server from the resolver's host; dnsperf's command line."""
        questions = [f"n{i}.nothing. A" for i in range(_NAMES)]
        return _ask(self, _RESOLVER, "dnsperf", questions, [ROOT], list(words))

    def read(self, when: str) -> None:
        """What the far end's processes have used, and the link's counters, as `ip` prints them."""
        for program in self.started:
            if program.exit is None:
                self.log.processes([program.pid], when, program.name)
        argv = [programs.packaged("ip"), "-s", "-j", "link", "show", "dev", _LINK]
        self.log.add(when, "link", "ip", text=self.output(_RESOLVER, *argv, check=True))


def _measure_path(session: Session, repeat: int, data_path: str) -> None:
    complain(f"bench: path {data_path} (repeat {repeat + 1} of {session.options.repeats})")
    queries = _QUICK_PATH_QUERIES if session.options.quick else _QUERIES
    with _site(session, "path", data_path) as site:
        site.read("before")
        argv = site.ask("-n", str(queries // _NAMES), "-q", "100")
        site.read("after")
    session.note(site.folder, row="path", tool=data_path, repeat=repeat, argv=[argv])


def _measure_delay(session: Session, repeat: int) -> None:
    complain(f"bench: delay (repeat {repeat + 1} of {session.options.repeats})")
    seconds = 1 if session.options.quick else session.options.seconds or _SECONDS
    rate = 1_000 if session.options.quick else RATE
    rtt = f"[hierarchy.rtt]\nrtt_ms = {RTT_MS}\nrealtime = true\n"
    with _site(session, "delay", "tun", rtt) as site:
        captures = [
            Capture(
                site, _RESOLVER, interface, name, "-Q", "out", "udp dst port 53", snap=64, live=False,
                core=SERVER_CORE,
            )
            for interface, name in (("reprise0", "before"), (_LINK, "after"))
        ]  # fmt: skip
        argv = site.ask("-l", str(seconds), "-Q", str(rate), "-q", "2000")
        for capture in captures:
            capture.stop()
    for capture in captures:
        pack(capture.path)
    more = {"argv": [argv], "delay_ms": RTT_MS / 2, "rate": rate}
    session.note(site.folder, row="delay", tool="tun", repeat=repeat, **more)


# --- the hosts --------------------------------------------------------------------------------------------


@contextmanager
def _site(session: Session, row: str, data_path: str, rtt: str = "") -> Iterator[Site]:
    world = world_of(session, (_QUICK_SIZES if session.options.quick else SIZES)[0].partition("-")[2])
    folder = session.next_folder(row, data_path)
    (folder / "run").mkdir(parents=True)
    written = folder / "experiment.toml"
    table = f"""schema = 1
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
    written.write_text(table, encoding="utf-8")
    experiment = experiments.load(written, [])
    made = plans.make(experiment, facts.gather(experiment, "bench"))
    with Site(folder, made) as site:
        _prepare(site)
        if row == "path":  # the stacks behind both ends of the link run in threads of their own
            site.receive_apart(_RESOLVER, _LINK, CLIENT_CORE)
            site.receive_apart(_META, "resolver1", SERVER_CORE)
        for process in made.processes:
            if process.role in ("meta", "proxy"):
                argv = [site.fill(word) for word in process.argv]
                started = site.start(process.host, argv, process.id, _CORES[process.id])
                started.until(process.ready.text)
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
    env = {"PATH": programs.SEARCH_PATH, "LANG": "C.UTF-8"}
    for step in site.plan.prepare:
        if step.id in ("zones", "plan", "serve"):
            own = {key: site.fill(value) for key, value in step.env.items()}
            processes.carry_out((step.argv,), None, site.fill, {**env, **own}, log)
    for part in site.plan.setup:
        processes.carry_out(part.apply, site.hosts.of(part.host), site.fill, env, log)
