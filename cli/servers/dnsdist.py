"""dnsdist: a front that listens where clients ask, and passes queries on to the server behind it.

Every setting that bends a measurement is set here and nowhere else: no bound on waiting connections, idle
time as the server's, patience with the server beyond that of clients, queries of any address, no questions of
its own (whether the server lives is watched by the run). Over UDP it asks by UDP and over TCP and TLS by TCP.
"""

from __future__ import annotations

from cli.servers import kind
from cli.servers.kind import ServerKind, Site

_PATIENCE_S = 60  # with the server, over UDP
_MOST_UDP = 65_535  # of queries under way


def _place(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def config(server: kind.Server, site: Site) -> str:
    """dnsdist.conf; each of its sockets has a thread for UDP."""
    options = f"reusePort=true, tcpListenQueueSize={server.tcp_listen_queue}"
    listen = [f'addLocal("{_place(one, server.port)}", {{{options}}})' for one in site.addresses]
    if site.tls is not None:
        files = f'"{site.tls.certificate}", "{site.tls.key}"'
        tls = f'{{{options}, provider="openssl", minTLSVersion="tls1.2"}}'
        listen += [f'addTLSLocal("{_place(one, site.tls.port)}", {files}, {tls})' for one in site.addresses]
    lines = "\n".join(listen * server.processes)
    return f"""setSecurityPollSuffix("")
setACL({{"0.0.0.0/0", "::/0"}})
setMaxUDPOutstanding({_MOST_UDP})
setUDPTimeout({_PATIENCE_S})
setMaxTCPClientThreads({server.processes})
setMaxTCPQueuedConnections(0)
setTCPRecvTimeout({round(server.tcp_idle_timeout_s)})
{lines}
newServer({{address="{_place(site.behind, server.port)}", name="server"}}):setUp()
{site.extra}"""


KIND = ServerKind(
    "dnsdist",
    program="dnsdist",
    user="_dnsdist",
    tested=("1.7", "1.9"),
    packages=("dnsdist",),
    services=("dnsdist",),
    options=("--supervised", "--disable-syslog", "-C", "{config}"),
    as_user=("-u", "{user}", "-g", "{user}"),
    quoted_as='[string "chunk"]',
    complaints=r"(?i)out of memory|bad_alloc|fatal|marking downstream|failed inside lua",
    reason=r"(?<=Fatal Lua error: ).+",
    checker="dnsdist",
    checks=("--check-config", "-C", "{file}"),
    front=config,
)
