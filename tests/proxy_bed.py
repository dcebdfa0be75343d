"""Two hosts for the proxies: a resolver's and the meta-DNS-server's, with a link, rules and TUN devices.

The resolver's host has a route to the meta addresses only, so what reaches the other host went through the
proxy.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cli import linux, programs
from cli.executor import netns
from cli.plan.network import Address, Host, Link, Network, Route, Sysctl, sysctls
from tests.bed import Program, start, wait_for

RESOLVER, META = "resolver", "meta"
OWN4, OWN6 = "198.19.254.1", "fd00:198:19:fe::1"
TUN = "reprise0"
# Real addresses of root servers: a.root-servers.net and b.root-servers.net.
ROOT_A4, ROOT_A6 = "198.41.0.4", "2001:503:ba3e::2:30"
ROOT_B4, ROOT_B6 = "199.9.14.201", "2001:500:200::b"
META4 = {1: "198.18.128.1", 2: "198.18.128.2"}
META6 = {1: "fd00:198:18::1", 2: "fd00:198:18::2"}
SLOTS = {ROOT_A4: 1, ROOT_A6: 1, ROOT_B4: 2, ROOT_B6: 2}


def map_text() -> str:
    """The map of one resolver, two slots and four server addresses."""
    lines = ["#reprise-map 1", f"resolver\t1\t{OWN4}\t{OWN6}"]
    lines += [f"meta\t{slot}\t1\t1\t{META4[slot]}\t{META6[slot]}" for slot in META4]
    lines += [f"oqda\t{address}\t{slot}" for address, slot in SLOTS.items()]
    return "\n".join(lines) + "\n"


def network(mtu: int) -> Network:
    """The two hosts; everything is known but what the TUN devices need."""
    forwarding = ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding")
    return Network(
        kind="namespaces",
        hosts=(Host(RESOLVER), Host(META)),
        links=(
            Link(
                RESOLVER,
                META,
                "up0",
                "down0",
                ("198.19.253.1/30", "fd00:198:19:fd::1/126"),
                ("198.19.253.2/30", "fd00:198:19:fd::2/126"),
                mtu=mtu,
            ),
        ),
        addresses=(
            Address(RESOLVER, "lo", f"{OWN4}/32"),
            Address(RESOLVER, "lo", f"{OWN6}/128"),
            *(Address(META, "lo", f"{one}/32") for one in META4.values()),
            *(Address(META, "lo", f"{one}/128") for one in META6.values()),
        ),
        routes=(
            Route(RESOLVER, "198.18.128.0/17", via="198.19.253.2"),
            Route(RESOLVER, "fd00:198:18::/48", via="fd00:198:19:fd::2"),
            Route(META, "198.19.254.0/24", via="198.19.253.1"),
            Route(META, "fd00:198:19:fe::/64", via="fd00:198:19:fd::1"),
        ),
        sysctls=(
            *(one for host in (RESOLVER, META) for one in sysctls(host, 4096)),
            *(Sysctl(host, key, "1") for host in (RESOLVER, META) for key in forwarding),
        ),
    )


@dataclass
class ProxyBed:
    """Everything ends with close()."""

    folder: Path
    mtu: int = 1500
    hosts: netns.Hosts = field(default_factory=netns.Hosts)
    started: list[Program] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.hosts = netns.build(network(self.mtu))
        self.map.write_text(map_text(), encoding="ascii")
        self.folder.chmod(0o777)  # also for the user to whom a proxy changes
        for host, ports in ((RESOLVER, "dport 53"), (META, "sport 53")):
            self.make_tun(host)
            for family in ("-4", "-6"):
                for protocol in ("udp", "tcp"):
                    words = f"{family} rule add pref 100 iif lo ipproto {protocol} {ports} lookup 100"
                    self.ip(host, *words.split())

    @property
    def map(self) -> Path:
        return self.folder / "map.tsv"

    def make_tun(self, host: str) -> None:
        """A persistent device and the routes to it."""
        self.ip(host, "tuntap", "add", "dev", TUN, "mode", "tun")
        self.ip(host, "link", "set", TUN, "up")
        for family, own in (("-4", OWN4), ("-6", OWN6)):
            source = ["src", own] if host == RESOLVER else []
            self.ip(host, family, "route", "add", "default", "dev", TUN, *source, "table", "100")

    def ip(self, host: str, *words: str) -> None:
        with linux.inside(self.hosts.of(host)):
            subprocess.run([programs.packaged("ip"), *words], check=True)

    def output(self, host: str, *argv: str) -> str:
        """Standard output of a short program on a host; its status does not matter."""
        with linux.inside(self.hosts.of(host)):
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
        return done.stdout

    def start(self, host: str, name: str, argv: list[str]) -> Program:
        log = self.folder / f"{name}-{len(self.started)}.log"
        with linux.inside(self.hosts.of(host)):
            self.started.append(start(argv, log))
        return self.started[-1]

    def stats_file(self, host: str) -> Path:
        return self.folder / f"{host}.json"

    def start_proxy(self, host: str, *extra: str, stats: Path | None = None) -> Program:
        """The host's proxy, once it reads."""
        argv = [programs.own("reprise-proxy"), host, "--tun", TUN, "--map", str(self.map)]
        argv += ["--stats", str(stats or self.stats_file(host)), *extra]
        program = self.start(host, f"proxy-{host}", argv)
        wait_for(lambda: "event=ready" in program.text() or program.process.poll() is not None, "ready")
        assert program.process.poll() is None, program.text()
        return program

    def start_both(self) -> tuple[Program, Program]:
        self.start_responder()
        return self.start_proxy(RESOLVER), self.start_proxy(META)

    def start_responder(self) -> Program:
        """A server at all meta addresses that answers with the slot that was asked."""
        script = Path(__file__).with_name("meta_responder.py")
        addresses = [f"{META4[slot]}={slot}" for slot in META4] + [f"{META6[slot]}={slot}" for slot in META6]
        program = self.start(META, "responder", [sys.executable, str(script), *addresses])
        wait_for(lambda: "responding" in program.text(), "responder")
        return program

    def start_capture(self, host: str, interface: str) -> tuple[Program, Path]:
        path = self.folder / f"{host}-{interface}.pcap"
        argv = [programs.packaged("tcpdump"), "-i", interface, "-U", "-w", str(path), "-Z", "root"]
        program = self.start(host, "tcpdump", [*argv, "--immediate-mode"])
        wait_for(lambda: "listening on" in program.text(), "tcpdump")
        return program, path

    def dig(self, server: str, name: str, *options: str) -> str:
        """What dig says on the resolver's host, in its short form unless it failed."""
        argv = [programs.packaged("dig"), f"@{server}", name, "TXT", "+tries=1", "+time=2", "+short"]
        return self.output(RESOLVER, *argv, *options).strip()

    def statistics(self, host: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.stats_file(host).read_text())
        return loaded

    def finish(self, program: Program, host: str) -> dict[str, Any]:
        """Ends a proxy in order; its last statistics."""
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == 0, program.text()
        return self.statistics(host)

    def close(self) -> None:
        for program in reversed(self.started):
            if program.process.poll() is None:
                program.process.kill()
            program.process.wait()
        for descriptor in self.hosts.descriptors.values():
            os.close(descriptor)
