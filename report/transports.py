"""The transports of queries, a line each, in the order of their values in files and on the wire, see
core/wire/query.hh. Uses Python's own library alone.
"""

from typing import NamedTuple


class Transport(NamedTuple):
    """`port`: where servers listen by themselves. `stream`: over connections. `tls`: [tls] says how.
    `served`: servers of ours can listen for it. `played`: queriers can send it.
    """

    name: str
    title: str
    port: int = 53
    stream: bool = True
    tls: bool = False
    served: bool = True
    played: bool = True


TRANSPORTS = {
    one.name: one
    for one in (
        Transport("udp", "UDP", stream=False),
        Transport("tcp", "TCP"),
        Transport("tls", "TLS", 853, tls=True),
        Transport("quic", "QUIC", 853, tls=True, served=False, played=False),
        Transport("https", "HTTPS", 443, tls=True, served=False, played=False),
        Transport("stateless-tcp", "TCP", served=False),
    )
}
SERVED = [one for one in TRANSPORTS.values() if one.served]
UNPLAYED = " or ".join(one.title for one in TRANSPORTS.values() if not one.played)
PORTS = sorted({one.port for one in SERVED})
