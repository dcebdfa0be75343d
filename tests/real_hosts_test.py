"""Guards of real hosts: reached by ssh over a management network, with a default route that leads out.

The hosts are network namespaces, and the operator is one. What the plan says is carried out by a real ssh; a
capture at the other end of both default routes sees what leaves.
"""

import contextlib
import dataclasses
import ipaddress
import json
import os
import shlex
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cli import linux, programs
from cli.errors import RepriseError
from cli.executor import machine, netns, outcome, processes
from cli.plan import guards, hierarchy_hosts, network
from cli.plan.network import Host, Link, Network, Route
from cli.plan.planned import RUN, Figure, Folder, HostStep
from cli.servers import nftables
from tests import command, packets
from tests.bed import Bed, Capture, synth, wait_for
from tests.slow import slow
from tests.ssh import Ssh

pytestmark = pytest.mark.netns

OPERATOR = "operator"
SERVER, CLIENT = network.SERVER, network.client(1)
PREFIXES = ("192.0.2.0/24", "2001:db8:1::/48")
# Of each host its management address, and the other end of its way out.
OFFICE = {SERVER: "192.0.2.1", CLIENT: "2001:db8:1:1::1", "meta1": "192.0.2.9"}
WAYS_OUT = {SERVER: "to-server", CLIENT: "from-client", "meta1": "to-meta1"}
OUTSIDE = ("203.0.113.9", "2001:db8:9::9")
STRANGERS = ("203.0.113.77", "192.0.2.77")  # of a trace; one is in the management network
PORT = 2222


def with_operator(base: Network) -> Network:
    """The servers' default route is their management link, the client has another interface for it."""
    links = [
        _management(host, number)
        for number, host in enumerate(OFFICE)
        if host in {one.name for one in base.hosts}
    ]
    links.append(Link(CLIENT, OPERATOR, "wan", "from-client", *_ends("198.51.100.0", "2001:db8:2")))
    ways = {one.a: one for one in links}  # the client's last link is its way out
    routes = [
        Route(host, to, one.b_addresses[family].partition("/")[0])
        for host, one in ways.items()
        for family, to in enumerate(("0.0.0.0/0", "::/0"))
    ]
    return dataclasses.replace(
        base,
        hosts=(*base.hosts, Host(OPERATOR)),
        links=(*base.links, *links),
        routes=(*base.routes, *routes),
        sysctls=(*base.sysctls, *network.sysctls(OPERATOR, 4096)),
    )


def _management(host: str, number: int) -> Link:
    return Link(host, OPERATOR, "mgmt", f"to-{host}", *_ends(f"192.0.2.{4 * number}", f"2001:db8:1:{number}"))


def _ends(four: str, six: str) -> tuple[tuple[str, str], tuple[str, str]]:
    start = ipaddress.ip_address(four)
    here, there = ((f"{start + end}/30", f"{six}::{end}/64") for end in (1, 2))
    return here, there


def with_hierarchy(base: Network) -> Network:
    return with_operator(hierarchy_hosts.hierarchy(base, 1, 1, 4096))


@dataclass
class Site:
    """Hosts, and what the operator can do with them."""

    bed: Bed
    ssh: Path
    hosts: tuple[str, ...]

    def argv(self, host: str, *words: str) -> list[str]:
        return ["ssh", "-F", str(self.ssh), "-T", host, shlex.join(words)]

    def on(self, host: str, *words: str) -> subprocess.CompletedProcess[str]:
        """A command on a host, over a connection of its own."""
        with self.bed.inside(OPERATOR):
            return subprocess.run(
                self.argv(host, *words), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                check=False, timeout=60,
            )  # fmt: skip

    def carry_out(self, host: str, commands: list[list[str]]) -> None:
        """Commands of a step, as somebody would who has only the plan."""
        line = " && ".join(shlex.join(self.fill(word) for word in words) for words in commands) or "true"
        done = self.on(host, "sh", "-c", line)
        assert done.returncode == 0, f"{host}: {line}: {done.stdout}{done.stderr}"

    def fill(self, text: str) -> str:
        return text.replace(RUN, str(self.bed.folder)).replace("@results@", str(self.bed.results))

    def put(self, files: list[dict[str, str]]) -> None:
        for file in files:
            if "content" in file:
                Path(self.fill(file["path"])).write_text(self.fill(file["content"]), encoding="utf-8")

    def leak(self, host: str, mark: bytes) -> None:
        """A process of the host sends to the outside."""
        with self.bed.inside(host):
            for to in OUTSIDE:
                family = socket.AF_INET6 if ":" in to else socket.AF_INET
                with (
                    socket.socket(family, socket.SOCK_DGRAM) as channel,
                    contextlib.suppress(PermissionError),
                ):
                    channel.sendto(mark, (to, 53))


@contextlib.contextmanager
def reached(folder: Path, extend: Callable[[Network], Network]) -> Iterator[Site]:
    bed = Bed(folder, clients=1, extend=extend)
    hosts = tuple(host for host in OFFICE if host in bed.hosts.descriptors)
    ssh = Ssh(folder / "ssh", PORT)
    made = Site(bed, ssh.config({host: OFFICE[host] for host in hosts}), hosts)
    with contextlib.ExitStack() as servers:
        for host in hosts:
            servers.enter_context(ssh.serve([OFFICE[host]], bed.hosts.of(host)))
        for host in hosts:
            wait_for(lambda host=host: made.on(host, "true").returncode == 0, f"ssh to {host}")  # type: ignore[misc]
        yield made
    bed.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with reached(tmp_path, with_operator) as made:
        yield made


class Session:
    """An ssh session that stays open, in which the host says what we say."""

    def __init__(self, site: Site, host: str) -> None:
        with site.bed.inside(OPERATOR):
            self.process = subprocess.Popen(
                site.argv(host, "cat"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )

    def goes_on(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(b"still there\n")
        assert self.process.stdout.readline() == b"still there\n"

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(30) == 0


@dataclass
class Captures:
    """What leaves by the hosts' default routes."""

    site: Site

    def __post_init__(self) -> None:
        for interface in self.interfaces():
            Capture(self.site.bed, OPERATOR, interface, interface, snap=2048)

    def interfaces(self) -> list[str]:
        return [WAYS_OUT[host] for host in self.site.hosts]

    def path(self, interface: str) -> Path:
        return self.site.bed.folder / f"{interface}.pcap"

    def seen(self, mark: bytes) -> None:
        """Waits until a leak is in every capture, over both families."""
        for host in self.site.hosts:
            self.site.leak(host, mark)
            file = self.path(WAYS_OUT[host])
            wait_for(lambda file=file: file.read_bytes().count(mark) >= 2, f"{mark!r}")  # type: ignore[misc]

    def strangers(self, interface: str) -> list[bytes]:
        """Payloads, or protocol and ports, of what does not go to the management network's ssh."""
        return [
            one.payload or f"{one.protocol} {one.source_port} {one.destination_port}".encode()
            for one in packets.read(self.path(interface))
            if PORT not in (one.source_port, one.destination_port)
        ]


def plan_of(desk: Path, *words: str) -> dict[str, Any]:
    management = [word for prefix in PREFIXES for word in ("--management", prefix)]
    done = command.run("plan", *words, *management, cwd=desk)
    assert done.returncode == 0, done.stderr
    plan: dict[str, Any] = json.loads(done.stdout)
    return plan


def give_strangers(site: Site) -> None:
    """The client takes addresses that the server's default route leads to, as those of a trace."""
    for stranger in STRANGERS:
        site.bed.ip(CLIENT, "addr", "add", f"{stranger}/32", "dev", "lo")
    ask_as_strangers(site)


def ask_as_strangers(site: Site) -> None:
    for stranger in STRANGERS:
        with (
            site.bed.inside(CLIENT),
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel,
        ):
            channel.bind((stranger, 5353))
            channel.sendto(packets.query(7, "com", 2), (network.SERVICE_V4, 53))


def counted(host: str, site: Site) -> dict[str, int]:
    listing = site.on(host, "nft", "-j", "list", "counters")
    return nftables.counters(json.loads(listing.stdout), nftables.GUARD)


def test_nothing_leaves_real_hosts_and_the_operator_stays_connected(site: Site, desk: Path) -> None:
    plan = plan_of(desk, "good.toml")
    assert plan["network"]["links"] == json.loads(
        json.dumps([dataclasses.asdict(one) for one in network.local(1, 4096).links])
    )
    site.put([one for one in plan["files"] if "/guard-" in one["path"]])
    captures = Captures(site)
    sessions = [Session(site, host) for host in site.hosts]

    def goes_on() -> None:
        for one in sessions:
            one.goes_on()

    captures.seen(b"before")
    done: set[str] = set()
    for step in plan["setup"]:
        site.carry_out(step["host"], step["apply"])
        done.add(step["host"])
        for host in done:
            site.leak(host, b"during")
        goes_on()
    assert done == set(site.hosts)
    assert [one["new_connection"] for one in plan["setup"]] == [False, True, False, True]
    site.bed.start_server()
    site.bed.start_distributor(1)
    controller = site.bed.start_controller(
        synth(site.bed.folder / "t.pcap", "--queries", "200", "--rate", "400")
    )
    give_strangers(site)
    goes_on()
    assert controller.wait() == 0, controller.text()
    assert site.bed.account()["queries"]["answered"] == 200

    def dropped() -> bool:
        ask_as_strangers(site)  # again: one may get lost on a busy machine
        return counted(SERVER, site)["elsewhere"] >= 2

    wait_for(dropped, "answers to strangers, dropped")
    for host in site.hosts:
        site.leak(host, b"during")
    for step in plan["finish"]:
        if step["id"].startswith("guard-"):
            site.carry_out(step["host"], step["apply"])
    counted_figures = [Figure(**one) for one in plan["figures"]]
    _, leaks = outcome.read(counted_figures, site.bed.results)
    assert {(one.host, one.what.rpartition(" ")[2]) for one in leaks} == {
        (SERVER, "dns_ports)"),
        (SERVER, "elsewhere)"),
        (CLIENT, "dns_ports)"),
    }
    for step in reversed(plan["setup"]):
        site.carry_out(step["host"], step["undo"])
        goes_on()
    captures.seen(b"after")
    for one in sessions:
        one.close()
    for interface in captures.interfaces():
        assert sorted(captures.strangers(interface)) == [b"after", b"after", b"before", b"before"]


def own_steps(plan: dict[str, Any], site: Site) -> None:
    """Folders and zones of a hierarchy, the plan of who serves them, and the hosts' files made of it."""
    machine.make_folders([Folder(**one) for one in plan["folders"]], site.fill)
    for step in plan["prepare"]:
        if step["id"] in ("zones", "plan", "serve"):
            argv = [site.fill(word) for word in step["argv"]]
            done = subprocess.run(
                argv, env={**os.environ, **step["env"]}, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{step['id']}: {done.stdout}{done.stderr}"


@pytest.mark.parametrize("data_path", ["tun", slow("nft")])
def test_nothing_leaves_real_hosts_of_a_hierarchy(tmp_path: Path, data_path: str) -> None:
    """Rules, routes and settings of the data path do not cut off the operator either."""
    experiment = str(programs.ROOT / "experiments/hierarchy.toml")
    words = ("--set", "hierarchy.synth.zones=8", "--set", f"hierarchy.data_path={data_path}")
    plan = plan_of(tmp_path, experiment, *words)
    with reached(tmp_path, with_hierarchy) as site:
        site.put([one for one in plan["files"] if "/guard-" in one["path"]])
        own_steps(plan, site)
        captures = Captures(site)
        sessions = [Session(site, host) for host in site.hosts]
        captures.seen(b"before")
        steps = plan["setup"]
        for step in steps:
            if "guard" in step["id"]:
                site.carry_out(step["host"], step["apply"])
        for host in site.hosts:
            own = [one for one in steps if one["host"] == host and "guard" not in one["id"]]
            site.leak(host, b"during")
            site.carry_out(host, [argv for one in own for argv in one["apply"]])
            site.leak(host, b"during")
            for session in sessions:
                session.goes_on()
            site.carry_out(host, [argv for one in reversed(own) for argv in one["undo"]])
            site.leak(host, b"during")
        for step in reversed(steps):
            if "guard" in step["id"]:
                site.carry_out(step["host"], step["undo"])
        captures.seen(b"after")
        for session in sessions:
            session.goes_on()
            session.close()
        for interface in captures.interfaces():
            assert sorted(captures.strangers(interface)) == [b"after", b"after", b"before", b"before"]


# --- a guard that nobody confirms -------------------------------------------------------------------------


class Steps:
    """The steps of a host's guard that lets nothing through, carried out in its namespace."""

    def __init__(self, folder: Path, undo_s: float) -> None:
        guarded = nftables.Guarded(
            ("out",), ("198.51.100.0/24", "2001:db8:9::/48"), confirm_s=undo_s, writes_frames=True
        )
        self.load, self.confirm = guards.steps("h", guarded)
        self.folder = folder
        ends = (("192.0.2.1/24", "2001:db8::1/64"), ("192.0.2.9/24", "2001:db8::9/64"))
        link = Link("h", "x", "out", "in", *ends)
        self.hosts = netns.build(Network("local", hosts=(Host("h"), Host("x")), links=(link,)))
        (folder / "guard-h.nft").write_text(nftables.guard_ruleset(guarded))

    def do(self, step: HostStep, commands: tuple[tuple[str, ...], ...] = ()) -> None:
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
        processes.carry_out(commands or step.apply, self.hosts.of("h"), self.fill, env, self.folder / "log")

    def undo(self) -> None:
        self.do(self.load, self.load.undo)

    def fill(self, text: str) -> str:
        return text.replace(RUN, str(self.folder))

    def guarded(self) -> bool:
        """Whether it stops packets, of a socket and of one that writes frames."""
        stopped = self.stopped()
        assert stopped in (set(), {"elsewhere", "frames"})
        return bool(stopped)

    def stopped(self) -> set[str]:
        """The counters that see a packet now; of a guard that ends, one may see it a moment longer."""
        with linux.inside(self.hosts.of("h")):
            before = self._counted()
            frame = bytes(12) + b"\x08\x00" + b"\x45" + bytes(19)
            with (
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain,
                socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as raw,
            ):
                raw.bind(("out", 0))
                with contextlib.suppress(OSError):
                    raw.send(frame)
                with contextlib.suppress(OSError):
                    plain.sendto(b"x", ("192.0.2.9", 9))
            return {name for name, count in self._counted().items() if count > before.get(name, 0)}

    def _counted(self) -> dict[str, int]:
        listing = subprocess.run(
            ["nft", "-j", "list", "counters"], capture_output=True, text=True, check=True
        )
        found = nftables.counters(json.loads(listing.stdout), nftables.GUARD)
        return {name: found[name] for name in ("elsewhere", "frames") if name in found}

    def has_table(self) -> bool:
        with linux.inside(self.hosts.of("h")):
            listing = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True, check=True)
        return nftables.GUARD in listing.stdout


def test_a_guard_that_nobody_confirms_ends_by_itself(tmp_path: Path) -> None:
    steps = Steps(tmp_path, 1.5)
    steps.do(steps.load)
    assert steps.guarded()
    wait_for(lambda: not steps.stopped(), "the end of the guard")
    with pytest.raises(
        RepriseError, match=r"not confirmed within 1\.5 s and has been dropped; load it again"
    ):
        steps.do(steps.confirm)
    assert not steps.has_table()
    steps.do(steps.load)
    steps.do(steps.confirm)
    end = time.monotonic() + 2.0
    wait_for(lambda: not steps.stopped() or time.monotonic() > end, "the end of what may have been the guard")
    assert steps.guarded()
    steps.undo()
    assert not steps.guarded() and not steps.has_table()


def test_a_confirmed_guard_stays_until_its_undo(tmp_path: Path) -> None:
    """All may be carried out twice."""
    steps = Steps(tmp_path, 60)
    with pytest.raises(RepriseError, match="there is no guard to confirm; load it first"):
        steps.do(steps.confirm)
    for step in (steps.load, steps.load, steps.confirm, steps.confirm, steps.load):
        steps.do(step)
        assert steps.guarded()
    for _ in range(2):
        steps.undo()
        assert not steps.guarded() and not steps.has_table()


def test_a_guard_that_cannot_be_loaded_leaves_nothing(tmp_path: Path) -> None:
    steps = Steps(tmp_path, 10)
    (tmp_path / "guard-h.nft").write_text("table inet {")
    with pytest.raises(RepriseError, match="failed"):
        steps.do(steps.load)
    assert not steps.has_table()


def test_an_operator_who_is_locked_out_comes_back(site: Site) -> None:
    """The wrong prefix: connections are cut off, and go on when the guard has dropped itself."""
    guarded = nftables.Guarded(management=["192.0.2.128/25"], confirm_s=2)
    ruleset = nftables.guard_ruleset(guarded)
    (site.bed.folder / "guard-server.nft").write_text(ruleset)
    load, confirm = guards.steps(SERVER, guarded)
    session = Session(site, SERVER)
    session.goes_on()
    with linux.inside(site.bed.hosts.of(SERVER)):  # it does lock out
        subprocess.run(["nft", "-f", "-"], input=ruleset, text=True, check=True)
    with site.bed.inside(OPERATOR), pytest.raises(TimeoutError):
        socket.create_connection((OFFICE[SERVER], PORT), timeout=0.3)
    with linux.inside(site.bed.hosts.of(SERVER)):
        subprocess.run(["nft", "delete", "table", "inet", nftables.GUARD], check=True)
    site.carry_out(SERVER, [list(argv) for argv in load.apply])
    session.goes_on()
    done = site.on(SERVER, *[site.fill(word) for word in confirm.apply[0]])
    assert done.returncode == 1
    assert "not confirmed within 2 s" in done.stderr
    session.close()
