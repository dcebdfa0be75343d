"""Where a front's clients may see something else than with the kernel's TCP, and why.

This is the whole list: the comparison fails on anything else. Kinds are those of stateless_views.Verdict.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """One documented difference; `cases` is a pattern of "row: name"."""

    front: str
    kinds: tuple[str, ...]
    cases: str
    what: str
    reason: str
    servers: tuple[str, ...] = ("bind", "nsd")
    always: bool = True  # false: it depends on timing whether a case shows it

    def fits(self, front: str, server: str, row: str, name: str, kind: str) -> bool:
        return (
            front == self.front
            and kind in self.kinds
            and server in self.servers
            and re.fullmatch(self.cases, f"{row}: {name}") is not None
        )


DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        "bpf",
        ("closed", "reset"),
        r"(2|20) pipelined in segments: .*|one after the other on a connection: .*|k?dig \+keepopen: .*",
        "the first query of a connection is answered, then the connection is closed",
        "one query, one segment, FIN; clients ask what is left on a new connection (RFC 7766, 6.2.4)",
    ),
    Difference(
        "bpf",
        ("lost",),
        r"dnsperf -m tcp: .*",
        "dnsperf counts queries as lost that it has sent on a connection which was being closed",
        "the same; it opens a new connection, but does not send them again",
        always=False,
    ),
    Difference(
        "bpf",
        ("fewer records",),
        r"one query, .*|types, .*|half-close, .*|2 pipelined .*|20 pipelined .*",
        "records in the authority and additional sections are left out where the reply would not fit",
        "the server answers over UDP, in at most MSS - 2 bytes, and drops those records rather than truncate",
    ),
    Difference(
        "bpf",
        ("minimal-any",),
        r"types, .* ANY.*",
        "one RRset of the name",
        "BIND's minimal-any, which counts for UDP alone",
        servers=("bind",),
    ),
    Difference(
        "reference",
        ("truncated",),
        r"one query, .*|half-close.*|small receive window: .*|k?dig: .*",
        "replies longer than over UDP are truncated (TC): 512 bytes, or what the client's OPT says",
        "the query goes to the server over UDP as it is; a client that came over TCP asks no more",
    ),
    Difference(
        "reference",
        ("fewer records",),
        r".*",
        "records in the authority and additional sections are left out where the reply would be truncated",
        "the same; BIND and NSD drop those records first",
    ),
    Difference(
        "reference",
        ("minimal-any",),
        r"types, .* ANY.*",
        "one RRset of the name",
        "BIND's minimal-any, which counts for UDP alone",
        servers=("bind",),
    ),
    Difference(
        "reference",
        ("silent",),
        r"(2|20) pipelined in .*",  # on a busy machine segments of one query each are joined
        "the first query of a segment is answered, the others never",
        "the early ACK tells the client that all came; the report's front takes a segment for a query",
    ),
    Difference(
        "reference",
        ("silent",),
        r"split query: .*|query longer than a segment: .*|half-close, then read: split query",
        "a query in pieces is answered only if the client's TCP sends it again in one",
        "a segment is a query; pieces are dropped",
    ),
    Difference(
        "reference",
        ("cut short", "silent"),
        r"small receive window: .*",
        "what the client's window does not take is lost",
        "the front sends all segments at once and none again",
    ),
    Difference(
        "reference",
        ("different", "truncated", "silent"),
        r"AXFR: .*|IXFR: .*|dig: AXFR",
        "no transfer of zones: an error, or the SOA alone",
        "the server's answer over UDP; --axfr-detect 1 relays AXFR",
    ),
    Difference(
        "reference",
        ("options", "different"),
        r"padding: .*|other EDNS options: TCP keepalive|kdig: \+padding.*",
        "no padding, no TCP keepalive option",
        "BIND gives them over TCP alone",
        servers=("bind",),
    ),
    Difference(
        "reference",
        ("different",),
        r"COOKIE: COOKIE with an old server cookie",
        "BADCOOKIE to a server cookie that is not the server's",
        "BIND 9.20 asks for the right one over UDP alone",
        servers=("bind",),
        always=False,
    ),
    Difference(
        "reference",
        ("silent",),
        r"odd queries: (5 bytes|a reply|length 0)",
        "messages that no server answers leave the connection open, where the kernel's is closed or reset",
        "the server only drops the datagram",
    ),
    Difference(
        "reference",
        ("different",),
        r"odd queries: (12 bytes of zeros|no question)",
        "FORMERR to a query without a question, where NSD resets a TCP connection",
        "NSD's answer over UDP",
        servers=("nsd",),
    ),
    Difference(
        "reference",
        ("silent",),
        r"query after keepalive probes: .*",
        "keepalive probes are not answered before a query; the client's kernel ends the connection",
        "nothing is kept of a connection without a query",
    ),
    Difference(
        "reference",
        ("lost",),
        r"dnsperf -m tcp: .*",
        "dnsperf counts queries as lost that share a segment with others",
        "as for pipelined queries",
        always=False,
    ),
)
