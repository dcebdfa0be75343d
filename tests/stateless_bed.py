"""Hosts for the comparison of statelessTCP with the kernel's TCP: a client with two links to one server.

On the link "front" a front may take the connections, the link "plain" is left to the kernel. Each of the real
servers listens at one address of each family for either link, so that both ways lead to the same process.
Between the client and the link "front" lies a bridge of ours, where the bed is made with faults.
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dns.query
import dns.update
import pytest

from bench.veth import NO_OFFLOADS, set_offloads
from cli import programs
from cli.plan.network import Address, Host, Link, Network, Route, sysctls, whole
from cli.process import Process
from cli.servers import bind
from cli.servers.kinds import KINDS
from tests import packets, stateless_zones
from tests.bed import BareBed, wait_for
from tests.packets import Packet
from tests.stateless_zones import CHANGED, KEY, SECRET, ZONE

CLIENT, BRIDGE, SERVER = "client", "bridge", "server"
FRONT, PLAIN = "front", "plain"  # the links, by the names of the client's interfaces
FRONTS = ("kernel", "reference", "bpf")
# With the kernel in the place of a front, what is expected is looked at, and no front.
MOSTLY_FRONTS = (pytest.param("kernel", marks=pytest.mark.slow), *FRONTS[1:])
BIND, NSD, TEST = "bind", "nsd", "test"  # TEST: addresses where tests start what they need
SERVERS = (BIND, NSD)
PORT = 53
OWN_PORTS = range(10_000, 40_000)  # of clients, which the kernel does not choose
UDP_SIZE = 4096  # the same of both servers; their TCP knows no limit
TIMEOUT_S = 3.0  # of an entry, by default
_NUMBER = {BIND: 53, NSD: 54, TEST: 55}
_LINK_SCRIPT = Path(__file__).with_name("stateless_link.py")


def address(server: str, way: str, family: int) -> str:
    """Where a server listens for what comes over a link."""
    if family == 4:
        return f"198.19.{255 if way == FRONT else 254}.{_NUMBER[server]}"
    return f"fd00:198:19:{'ff' if way == FRONT else 'fe'}::{_NUMBER[server]}"


def addresses(server: str) -> list[str]:
    return [address(server, way, family) for way in (FRONT, PLAIN) for family in (4, 6)]


def network(faults: bool) -> Network:
    """The hosts; with faults there is a bridge in the way of the link "front"."""
    near = tuple(f"{one}1/{bits}" for one, bits in (("198.19.1.", 24), ("fd00:198:19:1::", 64)))
    far = tuple(f"{one}2/{bits}" for one, bits in (("198.19.1.", 24), ("fd00:198:19:1::", 64)))
    front = (
        (Link(CLIENT, BRIDGE, FRONT, "near", near, ()), Link(BRIDGE, SERVER, "far", "data1", (), far))
        if faults
        else (Link(CLIENT, SERVER, FRONT, "data1", near, far),)
    )
    plain = Link(
        CLIENT,
        SERVER,
        PLAIN,
        "data2",
        ("198.19.2.1/24", "fd00:198:19:2::1/64"),
        ("198.19.2.2/24", "fd00:198:19:2::2/64"),
    )
    hosts = (CLIENT, SERVER, *([BRIDGE] if faults else []))
    return Network(
        kind="namespaces",
        hosts=tuple(Host(one) for one in hosts),
        links=(*front, plain),
        addresses=tuple(Address(SERVER, "lo", whole(one)) for server in _NUMBER for one in addresses(server)),
        routes=tuple(
            Route(CLIENT, whole(address(server, way, family)), _gateway(way, family))
            for server in _NUMBER
            for way in (FRONT, PLAIN)
            for family in (4, 6)
        ),
        sysctls=tuple(setting for one in hosts for setting in sysctls(one, 4096, one == CLIENT)),
    )


def _gateway(way: str, family: int) -> str:
    number = 1 if way == FRONT else 2
    return f"198.19.{number}.2" if family == 4 else f"fd00:198:19:{number}::2"


class StatelessBed(BareBed):
    """The hosts with their servers; at most one front at a time."""

    def __init__(self, folder: Path, *, front: str = "kernel", faults: bool = False) -> None:
        super().__init__(folder, network(faults))
        folder.chmod(0o755)
        with self.inside(CLIENT):  # ports below are given out by tests
            ports = Path("/proc/sys/net/ipv4/ip_local_port_range")
            ports.write_text(f"{OWN_PORTS.stop} 65535", encoding="ascii")
        self.front = front
        self.process: Process | None = None  # of the front
        self.before_front: tuple[str, ...] = ()  # words that start it

    # --- servers

    def start_servers(self) -> None:
        self.zones = stateless_zones.write(self.folder)
        self.bind = self.serve_bind(self.zones)
        self.nsd = self.serve_nsd(self.zones)
        self.nsd.until("nsd started")
        self._change_once()

    def serve_bind(self, zones: Mapping[str, Path]) -> Process:
        folder = self.folder / BIND
        folder.mkdir(exist_ok=True)
        config = self.folder / "named.conf"
        config.write_text(named_conf(folder, _copied(zones, folder)), encoding="ascii")
        return self.start_named(SERVER, config, name=BIND)

    def restart_bind(self) -> None:
        self.started.remove(self.bind)
        self.bind = self.serve_bind(self.zones)

    def serve_nsd(self, zones: Mapping[str, Path]) -> Process:
        """It is not waited for."""
        folder = self.folder / NSD
        folder.mkdir(exist_ok=True)
        config = self.folder / "nsd.conf"
        config.write_text(nsd_conf(folder, zones), encoding="ascii")
        return self.start_nsd(SERVER, config, NSD)

    def _change_once(self) -> None:
        """BIND keeps the difference for IXFR."""
        change = dns.update.Update(CHANGED)
        change.add(f"new.{CHANGED}", 300, "A", "192.0.2.9")
        with self.inside(CLIENT):
            dns.query.tcp(change, address(BIND, PLAIN, 4), timeout=5)

    # --- fronts

    def start_front(self, *options: str) -> None:
        """Nothing for "kernel"; skips the test where the programs are built without the front."""
        if self.front == "kernel":
            return
        argv = [*self.before_front, programs.own("reprise-proxy"), "stateless", "--front", self.front]
        argv += ["--interface", "data1", "--stats", str(self.stats_file)]
        argv += ["--active", "1"] if self.front == "reference" else []
        process = self.start(SERVER, [*argv, *options], f"front-{self.front}")
        wait_for(lambda: "event=ready" in process.text() or process.has_ended(), "the front serving")
        if "no such front" in process.text():
            pytest.skip(process.last_line())
        self.process = process.until("event=ready")

    def restart_front(self, *options: str) -> None:
        self.stop_front()
        self.start_front(*options)

    def stop_front(self) -> dict[str, Any]:
        if self.process is None:
            return {}
        process, self.process = self.process, None
        assert process.stop() == 0, process.text()
        self.started.remove(process)
        return self._read()

    @property
    def stats_file(self) -> Path:
        return self.folder / "front.json"

    def statistics(self) -> dict[str, Any]:
        """Written after this moment, which takes up to a second."""
        now = time.time_ns()
        wait_for(lambda: self.stats_file.stat().st_mtime_ns > now, "the front's statistics")
        return self._read()

    def _read(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.stats_file.read_text(encoding="utf-8"))
        return loaded

    def wait_for_no_entries(self, timeout_s: float = TIMEOUT_S) -> None:
        """No entry outlives its timeout; nothing to wait for without a front."""
        if self.process is not None:
            limit_s = time.monotonic() + timeout_s + 2.0
            while self.statistics()["entries"]:
                assert time.monotonic() < limit_s, "entries outlive their timeout"

    # --- clients

    def run(self, argv: Sequence[str], limit_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """A client program on the client's host."""
        with self.inside(CLIENT):
            return subprocess.run(argv, capture_output=True, text=True, timeout=limit_s, check=False)

    def socket(self, family: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
        """A socket of the client's host."""
        with self.inside(CLIENT):
            return socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, kind)


def _copied(zones: Mapping[str, Path], folder: Path) -> dict[str, Path]:
    """Files that named may write beside."""
    return {zone: Path(shutil.copy2(file, folder / file.name)) for zone, file in zones.items()}


# --- configurations ---------------------------------------------------------------------------------------


def named_conf(folder: Path, zones: Mapping[str, Path]) -> str:
    """BIND with records in a fixed order and the same size over UDP as in its OPT."""
    four, six = (" ".join(f"{one};" for one in addresses(BIND) if (":" in one) == v6) for v6 in (False, True))
    blocks = "".join(
        f"""zone "{zone}" {{
    type primary;
    file "{file}";
    allow-update {{ {"none" if zone == ZONE else "any"}; }};
}};
"""
        for zone, file in zones.items()
    )
    return f"""key "{KEY}" {{ algorithm hmac-sha256; secret "{SECRET}"; }};
options {{
{bind.own_folder(str(folder), KINDS["bind"].version())}    listen-on port {PORT} {{ {four} }};
    listen-on-v6 port {PORT} {{ {six} }};
    recursion no;
    allow-query {{ any; }};
    allow-transfer {{ any; }};
    notify no;
    dnssec-validation no;
    empty-zones-enable no;
    minimal-responses no-auth;
    minimal-any yes;
    rrset-order {{ order none; }};
    max-udp-size {UDP_SIZE};
    edns-udp-size {UDP_SIZE};
    nocookie-udp-size {UDP_SIZE};
    response-padding {{ any; }} block-size 128;
    tcp-idle-timeout 100;
    tcp-clients 2000;
    tcp-listen-queue 1000;
}};
controls {{ }};
{blocks}"""


def nsd_conf(folder: Path, zones: Mapping[str, Path]) -> str:
    listen = "".join(f"    ip-address: {one}@{PORT}\n" for one in addresses(NSD))
    blocks = "".join(
        f"""zone:
    name: "{zone}"
    zonefile: "{file}"
    provide-xfr: 0.0.0.0/0 NOKEY
    provide-xfr: ::/0 NOKEY
    provide-xfr: 0.0.0.0/0 {KEY}
    provide-xfr: ::/0 {KEY}
"""
        for zone, file in zones.items()
    )
    return f"""server:
{listen}    server-count: 1
    username: ""
    zonesdir: "{folder}"
    database: ""
    zonelistfile: "{folder}/zone.list"
    xfrdfile: "{folder}/xfrd.state"
    xfrdir: "{folder}"
    pidfile: ""
    zonefiles-check: no
    zonefiles-write: 0
    identity: "reprise"
    minimal-responses: no
    refuse-any: no
    round-robin: no
    ipv4-edns-size: {UDP_SIZE}
    ipv6-edns-size: {UDP_SIZE}
    tcp-count: 2000
    tcp-timeout: 10
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
key:
    name: "{KEY}"
    algorithm: hmac-sha256
    secret: "{SECRET}"
{blocks}"""


# --- the bridge -------------------------------------------------------------------------------------------


class FaultyBed(StatelessBed):
    """With a bridge that can be told to fail."""

    def __init__(self, folder: Path, front: str) -> None:
        super().__init__(folder, front=front, faults=True)
        self.bridge = Bridge(self)


class Bridge:
    """The process in the middle, see stateless_link.py. No offloads: packets on both of its links are as long
    as on a wire, and have their checksums.
    """

    def __init__(self, bed: BareBed) -> None:
        self.control, self.capture = bed.folder / "bridge", bed.folder / "bridge.pcap"
        self.captures = 0
        for host, interface in ((CLIENT, FRONT), (BRIDGE, "near"), (BRIDGE, "far"), (SERVER, "data1")):
            set_offloads(bed.hosts.of(host), interface, NO_OFFLOADS)
        with bed.inside(BRIDGE):
            Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1", encoding="ascii")
        for interface in ("near", "far"):
            bed.ip(BRIDGE, "link", "set", interface, "promisc", "on")
        argv = [shutil.which("python3") or "python3", str(_LINK_SCRIPT), "near", "far", str(self.control)]
        bed.start(BRIDGE, argv, "bridge").until("forwarding")
        self.asker = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.asker.bind(str(bed.folder / "bridge-asker"))
        self.asker.settimeout(5)

    def begin_capture(self) -> None:
        """Forgets what it has read so far."""
        self.captures += 1
        self.capture = self.capture.with_name(f"bridge-{self.captures}.pcap")
        self._tell(str(self.capture))

    def set(self, rules: Mapping[int, Sequence[tuple[str, int, str]]]) -> None:
        """From now on, by client port: which segment to "server" or "client" meets which fault."""
        self._tell({str(port): one for port, one in rules.items()})

    def _tell(self, what: object) -> None:
        self.asker.sendto(json.dumps(what).encode(), str(self.control))
        assert self.asker.recv(16) == b"done"

    def packets(self) -> list[Packet]:
        """All since the capture began."""
        return packets.read(self.capture)
