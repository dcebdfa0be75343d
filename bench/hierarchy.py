"""`reprise bench hierarchy`: planning, views for each address against colors, and the two data paths.

Rows: `plan` and `server` for each size and form, `path` (queries through proxies on TUN and through
nftables), `delay` (what the delay line adds to the delay it was asked for).
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from bench import hierarchy_path, traces, udp
from bench.bed import CLIENT_CORE, SERVER_CORE, MeasuredBed, start
from bench.session import Session, Step, make, run, want_rows
from cli import programs
from cli.errors import RepriseError, complain
from cli.plan.network import Host, Network, Route
from cli.process import Process
from cli.zones import zone_plan

_ROWS = ("plan", "server", *hierarchy_path.ROWS)
_HOST = "meta"
_MALLOC = "MALLOC_CONF=narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0"  # as in an experiment's plan
_LIMIT_S = 600.0
_QUERIES = 300_000
_QUICK_QUERIES = 1_000
_REFERENCE_NAMES = 10_000
_REFERENCE_RUNS = 50
_VIEW = re.compile(r'^view "([^"]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Size:
    """A world of so many zones, served in a form."""

    zones: int
    form: str

    @property
    def tool(self) -> str:
        """Its name in the table."""
        return f"{self.form}-{self.zones}"


SIZES = (
    *(Size(zones, "paper") for zones in (100, 549)),
    *(Size(zones, "colored") for zones in (100, 549, 2_000, 10_000)),
)
_QUICK_SIZES = (Size(40, "paper"), Size(40, "colored"))


@dataclass(frozen=True)
class Target:
    """A zone in a view, the address that leads there and the address to ask from."""

    view: str
    zone: str
    destination: str
    source: str


def measure(session: Session) -> None:
    """All repeats: sizes in turn, then the paths."""
    only = session.options.only
    want_rows(only, _ROWS)
    sizes = _QUICK_SIZES if session.options.quick else SIZES
    for repeat in range(session.options.repeats):
        if not only or {"plan", "server"} & set(only):
            for size in sizes[:-1]:
                _measure_size(session, size, repeat)
            _measure_reference(session, "plan-reference", repeat)  # of the largest, and so beside it
            _measure_size(session, sizes[-1], repeat)
        if not only or "path" in only:
            _measure_reference(session, "path-reference", repeat)
        hierarchy_path.measure(session, repeat, lambda: world_of(session, sizes[0].zones))
    shutil.rmtree(session.traces, ignore_errors=True)


def _measure_reference(session: Session, row: str, repeat: int) -> None:
    """What dnsperf needs for a million queries on this machine just now."""
    names = session.traces / "names.txt"
    traces.write_dnsperf(names, _REFERENCE_NAMES)
    tool = udp.few_sockets(names, 1 if session.options.quick else _REFERENCE_RUNS)
    run(session, Step(row, "dnsperf", tool), repeat)


def _measure_size(session: Session, size: Size, repeat: int) -> None:
    complain(f"bench: {size.tool} (repeat {repeat + 1} of {session.options.repeats})")
    world = world_of(session, size.zones)
    folder = session.next_folder("plan", size.tool)
    folder.mkdir(parents=True)
    out = folder / "plan"
    argv = [sys.executable, "-m", "cli", "zones", "plan", str(world), "-o", str(out), "--form", size.form]
    program = start(folder, "plan", CLIENT_CORE, argv)
    if program.wait(_LIMIT_S) != 0:
        raise RepriseError(f"planning failed: {program.last_line()}", f"see {folder}")
    session.note(folder, row="plan", tool=size.tool, repeat=repeat, argv=[argv], zones=size.zones)
    only = session.options.only
    if not only or "server" in only:
        _measure_server(session, size, repeat, out)
    for file in out.glob("*.conf"):
        file.unlink()  # megabytes that the world's seed gives again


def world_of(session: Session, zones: int) -> Path:
    """A synthetic hierarchy, made once for the session."""
    world = session.traces / f"world-{zones}"
    if not world.exists():
        make([sys.executable, "-m", "cli", "zones", "synth", "--zones", str(zones), "-o", str(world)])
    return world


# --- the meta-DNS-server ----------------------------------------------------------------------------------


def _measure_server(session: Session, size: Size, repeat: int, plan: Path) -> None:
    folder = session.next_folder("server", size.tool)
    folder.mkdir(parents=True)
    routes = tuple(Route(_HOST, to, kind="local", interface="lo") for to in ("0.0.0.0/0", "::/0"))
    # It has every address: what is sent to or from any of them stays in it.
    with MeasuredBed(folder, Network("namespaces", (Host(_HOST),), routes=routes)) as bed:
        bed.ip(_HOST, "-batch", str(plan / "meta-1.ip"))
        named = start_named(bed, plan)
        _keep_status(named, folder)
        runs = _QUICK_QUERIES if session.options.quick else _QUERIES
        for place, target in zip(("first", "last"), _ends(plan, size.form), strict=True):
            (folder / f"{place}.txt").write_text(f"{target.zone} SOA\n", encoding="utf-8")
            bed.log.processes([named.pid], f"before-{place}", named.name)
            argv = [programs.packaged("dnsperf"), "-s", target.destination, "-a", target.source]
            argv += ["-d", str(folder / f"{place}.txt"), "-c", "1", "-T", "1", "-q", "20", "-n", str(runs)]
            client = bed.start(_HOST, argv, f"dnsperf-{place}", CLIENT_CORE)
            if client.wait(_LIMIT_S) != 0:
                raise RepriseError(f"dnsperf failed: {client.last_line()}", f"see {folder}")
            bed.log.processes([named.pid], f"after-{place}", named.name)
        named.stop()
    session.note(folder, row="server", tool=size.tool, repeat=repeat, zones=size.zones)


def start_named(bed: MeasuredBed, plan: Path) -> Process:
    """The server with its views, ready; the log has the times of every step."""
    copy = programs.copied("named", bed.folder)
    argv = [programs.packaged("env"), _MALLOC, copy, "-g", "-c", str(plan / "named-1.conf"), "-n", "1"]
    bed.log.add("before", "named", "start")
    named = bed.start(_HOST, argv, "named", SERVER_CORE).until(" running\n")
    bed.log.add("after", "named", "start")
    Path(copy).unlink()
    return named


def _keep_status(program: Process, folder: Path) -> None:
    """The kernel's word on the memory, now that all zones are loaded."""
    text = Path(f"/proc/{program.pid}/status").read_text(encoding="ascii")
    (folder / "status.txt").write_text(text, encoding="ascii")


def _ends(plan: Path, form: str) -> tuple[Target, Target]:
    """A zone in the first view and one in the last."""
    text = (plan / "views-1.conf").read_text(encoding="utf-8")
    starts = [match.start() for match in _VIEW.finditer(text)]
    first, last = text[starts[0] :], text[starts[-1] :]
    meta = zone_plan.read_map(plan / "map.tsv").metas[0].address.v4
    return _target(first, form, meta), _target(last, form, meta)


def _target(block: str, form: str, meta: str) -> Target:
    """What to ask and from where, out of a view's text."""
    view = re.match(r'view "([^"]+)"', block)
    zone = re.search(r'zone "([^"]+)"', block)
    addresses = re.search(r"match-(?:clients|destinations) \{([^}]*)\}", block)
    if view is None or zone is None or addresses is None:
        raise RepriseError("a view without zones or addresses", "see views-1.conf of the plan")
    four = next(one for one in re.findall(r"[0-9.]+(?=[;/\s])", addresses[1]) if one.count(".") == 3)
    if form == "paper":
        return Target(view[1], zone[1], meta, four)
    return Target(view[1], zone[1], four, "203.0.113.1")
