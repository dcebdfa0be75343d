"""What the tests of TCP and TLS share: servers, replays, and connections as a capture shows them."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from cryptography.hazmat.primitives import serialization

from cli import linux, programs
from cli.experiment.schema import Server
from cli.plan import certificates, network
from cli.process import Process
from cli.servers import bind
from cli.servers.kind import Service
from report.rqfile import Records, Status
from tests import bed as beds
from tests import packets
from tests.bed import Bed, accounted
from tests.dns_server import messages
from tests.packets import ACK, FIN, RST, SYN, TCP, Packet

SECOND = 10**9
BASE = 1_475_762_151 * SECOND  # of the traces made here
TLS_PORT = 853
NAME = "server.reprise.test"
MARK_REUSED, MARK_OPENED, MARK_RETRIED, MARK_REWRITTEN = 1, 2, 4, 32
MARK_FALLBACK, MARK_RESUMED, MARK_EARLY_DATA = 1024, 2048, 4096
LONGEST_S = 150.0  # of a replay
_DELAYED_ACK = SECOND * 30 // 1000  # Linux delays an acknowledgement by 40 ms


# --- traces -----------------------------------------------------------------------------------------------


def rounds(path: Path, sources: int, count: int, gap_s: float, step_s: float = 0.001) -> Path:
    """`count` rounds; in each, every source asks once, `step_s` after the one before it. The n-th query asks
    for n.com with id n.
    """
    return packets.write(
        path,
        (
            (
                BASE + int((turn * gap_s + source * step_s) * SECOND),
                f"203.0.{source >> 8}.{source & 255}",
                2000,
                packets.query((turn * sources + source) & 0xFFFF, f"{turn * sources + source}.com"),
            )
            for turn in range(count)
            for source in range(sources)
        ),
    )


# --- servers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Certified:
    """The files of a server's certificate and of who vouches for it."""

    certificate: Path
    key: Path
    authority: Path


def certify(folder: Path, name: str = NAME, expired_s: int = 0) -> Certified:
    """A certificate for the name and the service addresses; expired so many seconds ago where told."""
    folder.mkdir(exist_ok=True)
    authority = certificates.make_authority()
    lifetime = datetime.timedelta(seconds=-expired_s) if expired_s else datetime.timedelta(days=1)
    addresses = (network.SERVICE_V4, network.SERVICE_V6) if name == NAME else ("192.0.2.1",)
    with mock.patch.object(certificates, "_LIFETIME", lifetime):
        pem, key = certificates.issue(authority, name, addresses)
    made = Certified(folder / "service.pem", folder / "service.key", folder / "authority.pem")
    made.certificate.write_bytes(pem)
    made.key.write_bytes(key)
    made.authority.write_bytes(authority.certificate.public_bytes(serialization.Encoding.PEM))
    return made


def _service(tls: Certified | None, port: int) -> Service | None:
    return Service(port, str(tls.key), str(tls.certificate)) if tls else None


def start_nsd(bed: Bed, tls: Certified | None = None, tls_port: int = TLS_PORT, **settings: Any) -> Process:
    return bed.start_server(_service(tls, tls_port), **settings)


def start_bind(bed: Bed, tls: Certified | None = None, **settings: Any) -> Process:
    config = bed.folder / "named.conf"
    site = bed.site(_service(tls, TLS_PORT))
    config.write_text(bind.config(Server(kind="bind", **settings), site), encoding="ascii")
    return bed.start_named(network.SERVER, config)


def start_unbound(bed: Bed, tls: Certified, **settings: Any) -> Process:
    assert not settings
    site = bed.site()
    listen = "".join(f"  interface: {one}@{port}\n" for one in site.addresses for port in (53, TLS_PORT))
    config = bed.folder / "unbound.conf"
    config.write_text(
        f"""server:
{listen}  username: ""
  chroot: ""
  directory: "{site.folder}"
  pidfile: ""
  use-syslog: no
  do-daemonize: no
  num-threads: 1
  incoming-num-tcp: 2000
  access-control: 0.0.0.0/0 allow
  access-control: ::/0 allow
  module-config: "iterator"
  tls-port: {TLS_PORT}
  tls-service-key: "{tls.key}"
  tls-service-pem: "{tls.certificate}"
auth-zone:
  name: "."
  zonefile: "{site.zones[0][1]}"
  for-downstream: yes
  for-upstream: yes
remote-control:
  control-enable: no
""",
        encoding="ascii",
    )
    server = bed.start(network.SERVER, [programs.packaged("unbound"), "-d", "-c", str(config)])
    return server.until("start of service")


def misbehave(bed: Bed, behavior: str, port: int = 53) -> Process:
    """The test server at the service address."""
    return bed.start_dns_server(network.SERVER, f"{network.SERVICE_V4}:{port}", behavior)


# --- replays ----------------------------------------------------------------------------------------------


class Capture(beds.Capture):
    """tcpdump at the server's end of the link."""

    def __init__(self, bed: Bed) -> None:
        super().__init__(bed, network.SERVER, "data1")
        self._packets: list[Packet] | None = None

    def packets(self) -> list[Packet]:
        if self._packets is None:
            self.stop()
            assert "\n0 packets dropped by kernel" in self.program.text(), self.program.text()
            self._packets = packets.read(self.path)
        return self._packets

    def flows(self, port: int = 53) -> list[Flow]:
        return flows(self.packets(), port)

    def tshark(self, where: str, *fields: str, decode: str = "") -> list[list[str]]:
        """Rows of the packets that a display filter lets through."""
        self.packets()
        return self.rows(where, *fields, options=("-d", decode) if decode else ())


class Play:
    """A replay by one client: begun at once, judged when it has ended."""

    def __init__(
        self,
        bed: Bed,
        trace: Path,
        *options: str,
        queriers: int = 1,
        distributor: tuple[str, ...] = (),
        wrap: tuple[str, ...] = (),
    ) -> None:
        self.bed = bed
        self.distributor = bed.start_distributor(1, queriers=queriers, extra=distributor, wrap=wrap)
        self.controller = bed.start_controller(trace, extra=options)

    def ends(self, status: int = 0) -> dict[str, int]:
        """The account of the queries: each has its one end. A run without answers is not clean."""
        ended = self.controller.wait(LONGEST_S)
        self.distributor.wait(LONGEST_S)  # until then its queriers may have connections to close
        queries: dict[str, int] = self.bed.account()["queries"]
        told = self.controller.text() + self.distributor.text()
        assert ended == (status if queries["answered"] else 1), told
        assert accounted(queries) == queries["read"]
        return queries

    def answers_all(self) -> dict[str, int]:
        queries = self.ends()
        assert queries["answered"] == queries["read"] > 0, queries
        assert queries["unmatched"] == queries["duplicate_answers"] == 0
        return queries

    def records(self) -> Records:
        """Of all queriers, in the order of the trace."""
        found = np.concatenate([np.asarray(file.records) for file in self.bed.records()])
        ordered: Records = np.sort(found, order="seq")
        return ordered

    def connections(self) -> Counter[str]:
        return self._sum("connections")

    def failures(self) -> Counter[str]:
        return self._sum("failures")

    def statistic(self, key: str) -> int:
        return sum(file.statistics[key] for file in self.bed.records())

    def _sum(self, table: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for file in self.bed.records():
            total.update(file.statistics[table])
        return total

    def log(self) -> str:
        """What distributor and queriers said."""
        return self.distributor.text()


def only_headers_fail(play: Play) -> None:
    """NSD closes the connection on a query without a question; every other query is answered."""
    queries = play.ends()
    assert queries["read"] == queries["sent"] + queries["skipped"]
    assert queries["answered"] > 100
    records = play.records()
    failed = records[(records["status"] != Status.ANSWERED) & (records["status"] != Status.SKIPPED)]
    assert set(failed["query_size"].tolist()) <= {12}
    assert set(failed["status"].tolist()) <= {Status.CONNECTION_FAILED}
    assert len(failed) <= 2


def marked(records: Records, mark: int) -> int:
    return int(((records["marks"] & mark) != 0).sum())


@contextmanager
def reading(bed: Bed, host: str) -> Iterator[None]:
    """The host's /proc/net and sockets."""
    with linux.inside(bed.hosts.of(host)):
        yield


def established(bed: Bed, host: str = network.SERVER) -> int:
    """TCP connections of a host that are established, of both families."""
    with reading(bed, host):
        lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        lines += Path("/proc/thread-self/net/tcp6").read_text(encoding="ascii").splitlines()[1:]
    return sum(line.split()[3] == "01" for line in lines)


# --- connections in a capture -----------------------------------------------------------------------------


@dataclass
class Flow:
    """One TCP connection to the server, from its SYN on."""

    client: tuple[str, int]
    port: int
    packets: list[Packet] = field(default_factory=list)

    def from_client(self, packet: Packet) -> bool:
        return packet.destination_port == self.port

    def sent(self) -> list[Packet]:
        """The client's segments with data, without retransmissions."""
        return _once([one for one in self.packets if self.from_client(one) and one.payload])

    def received(self) -> list[Packet]:
        return _once([one for one in self.packets if not self.from_client(one) and one.payload])

    def queries(self) -> list[bytes]:
        return list(messages(b"".join(one.payload for one in self.sent())))

    def answers(self) -> list[bytes]:
        return list(messages(b"".join(one.payload for one in self.received())))

    def end(self) -> Packet | None:
        """The first packet that closes."""
        return next((one for one in self.packets if one.flags & (FIN | RST)), None)

    def ended_by(self) -> str:
        """Who closed first: "client", "server", or "" where nobody did."""
        end = self.end()
        return "" if end is None else "client" if self.from_client(end) else "server"

    def is_reset(self) -> bool:
        return any(one.flags & RST for one in self.packets)

    def one_query_a_segment(self) -> bool:
        return all(len(one.payload) == 2 + int.from_bytes(one.payload[:2], "big") for one in self.sent())

    def stalls(self, of_client: bool = True) -> int:
        """Segments of one side that left when the other's delayed acknowledgement came (Nagle)."""
        return _stalls(self.packets, self.port if of_client else self.client[1])


def few_stalls(flows: Sequence[Flow]) -> bool:
    """Nagle's algorithm stalls one of a few segments; a process that waits for its processor looks alike."""
    stalls = sum(one.stalls() + one.stalls(of_client=False) for one in flows)
    return stalls <= sum(len(one.sent()) for one in flows) / 20


def _once(segments: list[Packet]) -> list[Packet]:
    seen: dict[int, Packet] = {}
    for one in segments:
        seen.setdefault(one.sequence, one)
    return list(seen.values())


def _stalls(found: list[Packet], to_port: int) -> int:
    count = 0
    for data, ack, after in zip(found, found[1:], found[2:], strict=False):
        mine = data.destination_port == after.destination_port == to_port != ack.destination_port
        pure = not ack.payload and not ack.flags & (SYN | FIN | RST)
        delayed = ack.time - data.time >= _DELAYED_ACK and after.time - ack.time < SECOND // 1000
        count += bool(mine and pure and delayed and data.payload and after.payload)
    return count


def flows(found: list[Packet], port: int) -> list[Flow]:
    """The connections to a port of the server, in the order of their SYNs."""
    made: list[Flow] = []
    latest: dict[tuple[str, int], Flow] = {}
    for one in sorted((one for one in found if one.protocol == TCP), key=lambda one: one.time):
        if port not in (one.source_port, one.destination_port):
            continue
        to_server = one.destination_port == port
        client = (one.source, one.source_port) if to_server else (one.destination, one.destination_port)
        flow = latest.get(client)
        fresh = one.flags & (SYN | ACK) == SYN
        if fresh and (flow is None or flow.packets[0].sequence != one.sequence):
            flow = latest[client] = Flow(client, port)
            made.append(flow)
        if flow is not None:
            flow.packets.append(one)
    return made
