"""Settings, and names of servers, by `python -m cli.experiment.document`. Do not edit."""

from typing import Annotated, Literal

from pydantic import Field

from cli.experiment.keys import Flag, Mixed, Number, Path, Table, Text, Texts, Whole, doc, span

# fmt: off
Authoritative = Literal['nsd', 'bind', 'knot', 'pdns']
Resolver = Literal['bind', 'unbound', 'knot-resolver', 'pdns-recursor']
Proxy = Literal['dnsdist']
RELOADS = {'nsd': 'NSD', 'bind': 'BIND', 'knot': 'Knot DNS'}
TAKES_EXPIRED = {'bind': 'BIND', 'unbound': 'unbound'}


class ReplaySettings(Table):
    source_mode: Annotated[Literal['ports', 'addresses', 'mapped', 'packet'], doc("what the server sees. `ports`: the client host's address, one socket per source. `addresses`: the trace's source addresses (one client). `mapped`: an address for each source out of the client's prefix (10.0.0.0/8 shared by the clients, fd00:6d61:N::/64). `packet`: the trace's addresses and ports, written and read below the network stack, UDP only (one client, one querier)")] = 'ports'
    transport: Annotated[Literal['trace', 'udp', 'tcp', 'tls', 'stateless-tcp'], doc('how every query travels (`trace`: as in the trace; `stateless-tcp`: a TCP connection of its own for each). A query that had a TCP connection in the trace keeps it: its queries share one connection; all others of a source share another')] = 'trace'
    queries_per_connection: Annotated[Whole, span(0, 1000000, 'close a connection after this many queries; 1 = a new one for each; 0 = no limit')] = 0
    closer: Annotated[Literal['client', 'server'], doc("who closes a connection that is idle, used up or closed in the trace. With `server` the client never does, for studies of the server's idle timeout")] = 'client'
    tcp_fallback: Annotated[Flag, doc("ask again over TCP after a truncated answer over UDP (a trace holds its clients' own retries)")] = False
    tcp_after_timeout: Annotated[Flag, doc('ask again over TCP where no answer over UDP came within `timeout_s`')] = False
    speed: Annotated[Number, span(0.001, 1000000, 'play this many times as fast as the trace')] = 1.0
    rate: Annotated[Number, span(0, 100000000, "queries per second, evenly spaced, whatever the trace's times; 0 = the trace's")] = 0.0
    fast: Annotated[Flag, doc('as fast as the answers and `in_flight` allow')] = False
    loop: Annotated[Whole, span(0, 4611686018427387904, 'play the trace this many times; 0 = until `limit` or `duration_s`')] = 1
    from_: Annotated[Mixed, Field(alias='from', description="begin there: seconds from the trace's first query, seconds since the epoch (from 100000000 on) or RFC 3339 (`2016-10-06T13:55:51.5Z`)")] = ''
    until: Annotated[Mixed, doc('end before that time, given like `replay.from`')] = ''
    limit: Annotated[Whole, span(0, 4611686018427387904, 'send at most this many queries; 0 = all')] = 0
    duration_s: Annotated[Number, span(0, 99999999, "end the replay after this time; 0 = at the trace's end")] = 0.0
    sample_sources: Annotated[Mixed, doc('play a share of the sources (`"10%"`, 0.1) with all their queries: the same sources in every run, and a smaller sample is part of a larger')] = '100%'
    skip_sources: Annotated[Texts, doc('leave out the sources of these prefixes')] = ()
    collapse_retransmits: Annotated[Flag, doc('leave out UDP queries with source, port, ID and question of one played within `timeout_s` before')] = False
    dependent: Annotated[Flag, doc("a source's next query waits for the end of the one before")] = False
    hedge_ms: Annotated[Number, span(0, 3600000, 'a query without an answer for this time also goes to one of `replay.peers`; the first answer wins')] = 0.0
    peers: Annotated[Texts, doc("`ADDR[:PORT]`, taken in turn; over TLS the port is `tls.port`. On the local network, out of 198.19.255.0/24 or fd00:198:19:ff::/64: the server listens there too; where `hierarchy.resolver` lists several, those of each family are the resolvers after the client's own")] = ()
    timeout_s: Annotated[Number, span(0.001, 3600, 'wait at most this long for an answer')] = 5.0
    idle_timeout_s: Annotated[Number, span(0.001, 86400, 'close a TCP or TLS connection that was idle for this time')] = 20.0
    in_flight: Annotated[Whole, span(1, 4194304, 'most queries waiting for an answer, per querier; at the limit sending waits')] = 262144
    max_lateness_s: Annotated[Number, span(0.001, 86400, "the run ends early when a querier falls further behind schedule. Where the trace's time goes back by more (times `speed`), the replay goes on from the time before, and the steps are counted")] = 1.0
    late_ms: Annotated[Number, span(0, 86400000, 'queries sent more than this after their time are counted and make a warning; over 10 % of them make the run unclean; 0 = neither')] = 100.0
    window_s: Annotated[Number, span(0.1, 600, 'seconds to read ahead of the schedule')] = 2.0
    answers: Annotated[Flag, doc('keep the replies (`.ra`) for `reprise compare`')] = False
    all_opcodes: Annotated[Flag, doc('also send UPDATE and NOTIFY (skipped and counted otherwise)')] = False
    ports: Annotated[tuple[Annotated[Whole, Field(ge=1, le=65535)], ...], doc('DNS ports of the trace')] = (53,)
    early_us: Annotated[Mixed, doc('wake up this many µs (0 to 1000) before a query is due; `"auto"` learns it')] = 'auto'
    spin_us: Annotated[Whole, span(0, 30, 'wait busily for at most this many µs before a send')] = 0
    realtime: Annotated[Flag, doc('queriers run before ordinary processes (SCHED_FIFO, needs root): other work on the host no longer delays them. Not for loads that keep a core busy: the server on the same machine would starve')] = False


class TlsSettings(Table):
    port: Annotated[Whole, span(1, 65535, "the server's port for TLS")] = 853
    version: Annotated[Literal['any', '1.2', '1.3'], doc('TLS version')] = 'any'
    name: Annotated[Text | None, doc("name that the server's certificate must have, sent as SNI too. Not given: that of our own server; for a server at an address its address")] = None
    ca: Annotated[Path | None, doc("file of the certificate authorities trusted for the server, PEM. Not given: our own server's, or the system's")] = None
    groups: Annotated[Text | None, doc("groups offered for the key exchange, the preferred one first, with colons between them, by OpenSSL's names (`X25519:P-256`). Not given: OpenSSL's own choice")] = None
    verify: Annotated[Flag, doc('refuse a server whose certificate is not good')] = True
    resume: Annotated[Flag, doc("resume the source's last TLS session")] = False
    early_data: Annotated[Flag, doc('send its first queries with the handshake (0-RTT, TLS 1.3; NSD and BIND do not take them)')] = False


class SocketSettings(Table):
    quickack: Annotated[Flag, doc('clients acknowledge at once an answer that comes while others are awaited on its connection. With false the kernel does so up to 40 ms later, as for any program')] = True
