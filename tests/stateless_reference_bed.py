"""Two hosts for the fronts of statelessTCP: a client's, and a server's with a real NSD or BIND."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

from bench.veth import NO_OFFLOADS, set_offloads
from cli import programs
from cli.plan.network import Address, Host, Link, Network, Route, sysctls
from tests.bed import BareBed, Program, wait_for

CLIENT, SERVER = "client", "server"
CLIENT_IF, SERVER_IF = "data0", "data1"
CLIENT4, CLIENT6 = "198.19.1.1", "fd00:198:19:1::1"
SERVER4, SERVER6 = "198.19.1.2", "fd00:198:19:1::2"  # of the interface
SERVICE4, SERVICE6 = "198.19.255.53", "fd00:198:19:ff::53"  # of the loopback
SIZES = (100, 500, 1200, 2000, 3900)  # bytes of the TXT records sSIZE.example.
TRANSFERRED = 6000  # hosts in the zone, so that a transfer takes more than a client's window


def network() -> Network:
    """A link, and service addresses behind it."""
    return Network(
        kind="namespaces",
        hosts=(Host(CLIENT), Host(SERVER)),
        links=(
            Link(
                CLIENT,
                SERVER,
                CLIENT_IF,
                SERVER_IF,
                (f"{CLIENT4}/24", f"{CLIENT6}/64"),
                (f"{SERVER4}/24", f"{SERVER6}/64"),
            ),
        ),
        addresses=(Address(SERVER, "lo", f"{SERVICE4}/32"), Address(SERVER, "lo", f"{SERVICE6}/128")),
        routes=(Route(CLIENT, f"{SERVICE4}/32", via=SERVER4), Route(CLIENT, f"{SERVICE6}/128", via=SERVER6)),
        sysctls=tuple(one for host in (CLIENT, SERVER) for one in sysctls(host, 4096, host == CLIENT)),
    )


def zone_text() -> str:
    """Answers of several sizes, and enough hosts for a long transfer."""
    lines = ["$ORIGIN example.", "$TTL 300", "@ SOA ns hostmaster 1 3600 600 86400 300", "@ NS ns"]
    lines += ["ns A 192.0.2.1", "a A 192.0.2.2", "a AAAA 2001:db8::2"]
    for size in SIZES:
        strings = [f'"{"x" * min(250, size - at)}"' for at in range(0, size, 250)]
        lines.append(f"s{size} TXT {' '.join(strings)}")
    lines += [f"host{number} A 10.1.{number // 250}.{number % 250}" for number in range(TRANSFERRED)]
    return "\n".join(lines) + "\n"


class ReferenceBed(BareBed):
    """The two hosts; at the server's, packets have whole checksums and are not merged."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, network())
        self.folder.chmod(0o755)
        self.stats = folder / "front.json"
        for host, interface in ((CLIENT, CLIENT_IF), (SERVER, SERVER_IF)):
            set_offloads(self.hosts.of(host), interface, NO_OFFLOADS)

    def start_nsd_server(self, port: int = 53, minimal: bool = True) -> Program:
        """NSD at every address of its host."""
        (self.folder / "zone").write_text(zone_text(), encoding="ascii")
        config = self.folder / "nsd.conf"
        config.write_text(
            f"""server:
    ip-address: 0.0.0.0
    ip-address: ::0
    port: {port}
    username: ""
    zonesdir: "{self.folder}"
    database: ""
    zonelistfile: "{self.folder}/zone.list"
    xfrdfile: "{self.folder}/xfrd.state"
    xfrdir: "{self.folder}"
    pidfile: ""
    minimal-responses: {"yes" if minimal else "no"}
    round-robin: no
    ipv4-edns-size: 4096
    ipv6-edns-size: 4096
    rrl-ratelimit: 0
    tcp-query-count: 0
remote-control:
    control-enable: no
zone:
    name: "example."
    zonefile: "{self.folder}/zone"
    provide-xfr: 0.0.0.0/0 NOKEY
    provide-xfr: ::0/0 NOKEY
""",
            encoding="ascii",
        )
        return self.start_nsd(SERVER, config, "server").until("nsd started")

    def start_bind_server(self) -> Program:
        """BIND at every address of its host."""
        (self.folder / "zone").write_text(zone_text(), encoding="ascii")
        config = self.folder / "named.conf"
        config.write_text(
            f"""options {{
    directory "{self.folder}";
    managed-keys-directory "{self.folder}";
    pid-file none;
    lock-file none;
    session-keyfile none;
    listen-on {{ any; }};
    listen-on-v6 {{ any; }};
    recursion no;
    allow-transfer {{ any; }};
    notify no;
    dnssec-validation no;
    empty-zones-enable no;
    max-udp-size 4096;
    edns-udp-size 4096;
    nocookie-udp-size 4096;
    minimal-responses yes;
    rrset-order {{ order fixed; }};
}};
controls {{ }};
zone "example." {{
    type primary;
    file "{self.folder}/zone";
    notify no;
}};
""",
            encoding="ascii",
        )
        return self.start_named(SERVER, config, name="server")

    def start_front(self, *options: str, front: str = "reference", ready: str = "event=ready") -> Program:
        """A front at the server's interface, once it serves."""
        argv = [programs.own("reprise-proxy"), "stateless", "--front", front, "--interface", SERVER_IF]
        argv += ["--stats", str(self.stats), *options]
        return self.start(SERVER, argv, "front").until(ready)

    def statistics(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self.stats.read_text())
        return loaded

    def finish(self, front: Program) -> dict[str, Any]:
        """Ends a front in order; its last statistics."""
        assert front.stop() == 0, front.text()
        return self.statistics()

    def dig(self, name: str, kind: str = "TXT", *options: str, server: str = SERVICE4) -> str:
        """All that dig says of an answer over TCP."""
        argv = [programs.packaged("dig"), f"@{server}", name, kind, "+tcp", "+nocookie", "+tries=1"]
        return self.output(CLIENT, *argv, "+time=3", "+nostats", "+nocmd", *options)

    def connect(self, server: str = SERVICE4, port: int = 53, timeout: float = 5.0) -> socket.socket:
        """A connection from the client's host."""
        with self.inside(CLIENT):
            return socket.create_connection((server, port), timeout=timeout)

    def listening(self, port: int = 53) -> None:
        """Waits until the server takes connections."""

        def answers() -> bool:
            try:
                self.connect(port=port).close()
            except OSError:
                return False
            return True

        wait_for(answers, "the server taking connections")
