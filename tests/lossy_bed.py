"""Two hosts in namespaces, the second of which loses packets in ways that a test chooses."""

import contextlib
import json
import socket
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cli.plan import host_settings
from cli.plan.network import Host, Link, Network, sysctls
from cli.plan.planned import RESULTS
from report import hosts as report_hosts
from tests.bed import BareBed

NEAR, HOST = "client1", "server"
PORT, CLOSED = 5300, 9
ADDRESS = {4: "198.19.1.1", 6: "fd00:198:19:1::1"}
SENDER = {4: "198.19.1.2", 6: "fd00:198:19:1::2"}
NEIGHBOR = {4: "198.19.1.77", 6: "fd00:198:19:1::77"}
ELSEWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}
FAMILY = {4: socket.AF_INET, 6: socket.AF_INET6}


def network() -> Network:
    near, far = (tuple(f"{where[v]}/{24 if v == 4 else 64}" for v in (4, 6)) for where in (SENDER, ADDRESS))
    links = (Link(NEAR, HOST, "data", "data1", near, far),)
    settings = tuple(one for name in (NEAR, HOST) for one in sysctls(name, 4096))
    return Network("local", hosts=(Host(NEAR), Host(HOST)), links=links, sysctls=settings)


@dataclass
class Pair:
    """Two hosts and what loses packets at the second."""

    bed: BareBed
    mac: bytes = b""

    def run(self, *words: str) -> None:
        self.bed.output(HOST, *words, check=True)

    def nft(self, *rules: str, hook: str = "input") -> None:
        chain = f"type filter hook {hook} priority 0; {'; '.join(rules)};"
        self.load(f"table inet t {{ chain {hook} {{ {chain} }}; }}\n")

    def load(self, ruleset: str, host: str = HOST) -> None:
        with self.bed.inside(host):
            subprocess.run(["nft", "-f", "-"], input=ruleset, text=True, check=True)

    def send(self, version: int, count: int = 1, port: int = PORT, to: str = "") -> None:
        """Datagrams from the near host's own stack."""
        with self.bed.inside(NEAR), socket.socket(FAMILY[version], socket.SOCK_DGRAM) as channel:
            for _ in range(count):
                channel.sendto(b"query", (to or ADDRESS[version], port))

    def answer(self, version: int, count: int) -> None:
        with self.bed.inside(HOST), socket.socket(FAMILY[version], socket.SOCK_DGRAM) as channel:
            for _ in range(count):
                with contextlib.suppress(PermissionError):
                    channel.sendto(b"answer", (SENDER[version], CLOSED))

    def frame(self, kind: int, packet: bytes, mac: bytes = b"") -> None:
        with self.bed.inside(NEAR), socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as channel:
            channel.bind(("data", 0))
            channel.send((mac or self.mac) + b"\x02\0\0\0\0\x07" + struct.pack(">H", kind) + packet)


def summed(data: bytes) -> int:
    total = sum(int.from_bytes(data[at : at + 2]) for at in range(0, len(data), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def packet(version: int, to: str, protocol: int, payload: bytes, fragment: int = 0, ident: int = 7) -> bytes:
    source, there = (socket.inet_pton(FAMILY[version], one) for one in (SENDER[version], to))
    if version == 6:
        return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + source + there + payload
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), ident, fragment, 64, protocol, 0)
    check = struct.pack(">H", summed(head + source + there))
    return head[:10] + check + source + there + payload


def udp(size: int = 20, check: int = 0xBAD) -> bytes:
    return struct.pack(">4H", 1024, PORT, size, check) + bytes(size - 8)


def kind_of(version: int) -> int:
    return 0x0800 if version == 4 else 0x86DD


def forward(pair: Pair) -> None:
    pair.run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")


@contextlib.contextmanager
def made(tmp_path: Path) -> Iterator[Pair]:
    """Both hosts, which know each other."""
    with BareBed(tmp_path, network()) as bed:
        found = Pair(bed)
        for host, link in ((NEAR, "data"), (HOST, "data1")):  # what kernels send late does not come to IP
            groups = "nd-router-solicit, mld-listener-report, mld2-listener-report"
            rules = f'type filter hook ingress device "{link}" priority 0; icmpv6 type {{ {groups} }} drop;'
            found.load(f"table netdev quiet {{ chain c {{ {rules} }}; }}\n", host)
        mac = json.loads(bed.output(HOST, "ip", "-j", "link", "show", "data1"))[0]["address"]
        found.mac = bytes.fromhex(mac.replace(":", ""))
        for version in (4, 6):  # neighbors are found before anything is counted
            found.send(version, port=CLOSED)
            found.answer(version, 1)
        bed.ip(NEAR, "neigh", "replace", ADDRESS[6], "lladdr", mac, "dev", "data")
        yield found


def read(pair: Pair, when: str = "") -> None:
    for step in host_settings.counters(network(), when):
        (pair.bed.folder / f"{step.id}.txt").unlink(missing_ok=True)
        for argv in step.apply:
            pair.bed.output(
                step.host, *(word.replace(RESULTS, str(pair.bed.folder)) for word in argv), check=True
            )


def judged(pair: Pair) -> report_hosts.Findings:
    problems: list[str] = []
    found = report_hosts.read(pair.bed.folder, problems)
    assert problems == []
    return report_hosts.judge(found, set(), {}, {}, {})
