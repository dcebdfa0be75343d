"""The kernel's counters: which of them make a run unclean, and which do not matter.

Every counter that a run records is in TABLE, once; code and docs/formats.md follow from it.
"""

import fnmatch
import re
from dataclasses import dataclass

FATAL, WARNING, IGNORED = "not clean", "a warning", "ignored"
SERVERS = "a warning of the server under test, else not clean"
UNDELIVERED = "Ip InReceives - InDelivers"
REPLIES = "Udp RcvbufErrors"  # which queriers count too
MISDIRECTED = "Ip InAddrErrors"  # as are answers in source mode packet, for the stack


@dataclass(frozen=True)
class Counter:
    """A counter, or several by `*`, as the kernel names it without the version of IP. One that grew by no
    more than `tolerance` packets does not matter. `why`: what it counts, which is the reason for its verdict.
    """

    key: str
    verdict: str
    tolerance: int
    why: str


TABLE = (
    Counter(UNDELIVERED, FATAL, 2, "came and were neither delivered nor forwarded nor counted by a line below: dropped by a firewall, its limits, a full connection table, or reverse path filtering. Packets that come while the counters are read may be in only one of the two. Packets that the data path of a hierarchy drops by design are subtracted, and so are multicast packets, which only group members get. A warning where they cannot be queries or answers: to a real host's own addresses, which its guard counts, and on the controller's host where that is no other host too"),
    Counter("Ip InHdrErrors", FATAL, 0, "had a damaged header or too many hops"),
    Counter("Ip InAddrErrors", FATAL, 0, "were sent to an address that is not the host's. What queriers took from the interface in source mode `packet` is subtracted"),
    Counter("Ip InNoRoutes", FATAL, 2, "came and had no route onward. Neighbor discovery may meet an address that is not ready yet"),
    Counter("Ip InTooBigErrors", FATAL, 0, "were too large for the next link"),
    Counter("Ip InTruncatedPkts", FATAL, 0, "were shorter than their header says"),
    Counter("Ip InDiscards", FATAL, 0, "were dropped on arrival for lack of memory"),
    Counter("Ip OutDiscards", FATAL, 0, "could not be sent (no memory, or a firewall). What the host's guard dropped is subtracted; the guard counts it itself"),
    Counter("Ip ReasmFails", FATAL, 0, "were fragments that could not be put together"),
    Counter("Ip FragFails", WARNING, 0, "were too large for the link and may not be fragmented; their sender gets an ICMP error"),
    Counter("Ip InUnknownProtos", WARNING, 0, "had a protocol that nothing on the host accepts, so not DNS"),
    Counter("Ip OutNoRoutes", IGNORED, 0, "had no route out: in namespaces they are leaks, on real hosts any program may send them"),
    Counter("Ip *", IGNORED, 0, "count what went well, or are parts of others"),
    Counter("Udp InCsumErrors", FATAL, 0, "had a wrong checksum"),
    Counter("Udp RcvbufErrors", SERVERS, 0, "found the receive buffer of their socket full. Replies that queriers count themselves are subtracted"),
    Counter("Udp MemErrors", SERVERS, 0, "found no memory left for sockets"),
    Counter("Udp SndbufErrors", WARNING, 0, "found the send buffer full. Programs that can wait send them again; later losses are counted at a queue"),
    Counter("Udp NoPorts", IGNORED, 0, "came to a port that is not open: late answers, or queries that then have no answer"),
    Counter("Udp *", IGNORED, 0, "count what went well, or are sums of others"),
    Counter("UdpLite *", IGNORED, 0, "not used for DNS"),
    Counter("Tcp InCsumErrors", FATAL, 0, "had a wrong checksum"),
    Counter("Tcp *", IGNORED, 0, "TCP sends again what it loses, and latencies and connections show it; `InErrs` also counts a SYN for an open connection"),
    Counter("*TcpExt *", IGNORED, 0, "the same; `ListenDrops` is in `server.csv`"),
    Counter("Icmp*", IGNORED, 0, "report packets that are counted where they were lost"),
    Counter("rx dropped", FATAL, 0, "found the kernel's queue of the interface full"),
    Counter("rx errors", FATAL, 0, "were damaged on the link"),
    Counter("rx missed_errors", FATAL, 0, "found the interface's own queue full"),
    Counter("rx otherhost", FATAL, 0, "were sent to another host's MAC address. Counted only on a link with two ends (veth): in a LAN, switches may flood"),
    Counter("rx *", IGNORED, 0, "count what went well, or are parts of `errors`"),
    Counter("tx dropped", FATAL, 0, "were dropped on sending"),
    Counter("tx errors", FATAL, 0, "could not be put on the link"),
    Counter("tx carrier_changes", FATAL, 0, "the link was down for a while"),
    Counter("tx *", IGNORED, 0, "count what went well, or are parts of `errors`"),
    Counter("qdisc drops", FATAL, 0, "found the queue full; `clsact` is no queue, and the front `bpf` itself counts what it drops there"),
    Counter("qdisc *", IGNORED, 0, "count what went well, or how long it waited"),
    Counter("softnet dropped", WARNING, 0, "of the machine: the interfaces count these packets again, and so name the host; what is left was other traffic"),
    Counter("softnet *", IGNORED, 0, "count work, not losses"),
)  # fmt: skip


def key_of(name: str) -> str:
    """The key of a counter of /proc/net/snmp, snmp6 or netstat: `Udp6RcvbufErrors` is "Udp RcvbufErrors"."""
    return re.sub(r"^(MPTcpExt|TcpExt|UdpLite|IcmpMsg|Ip|Icmp|Tcp|Udp)(6|(?<=Ip)Ext)?", r"\1 ", name)


def counter(key: str) -> Counter | None:
    """The first line of the table that has the key; None for counters that only this kernel has."""
    return next((one for one in TABLE if fnmatch.fnmatchcase(key, one.key)), None)


def errors(side: str) -> tuple[str, ...]:
    """The counters of packets lost at an interface on its `side`, rx or tx."""
    found = (one.key.split() for one in TABLE if one.verdict == FATAL)
    return tuple(name for first, name, *_ in found if first == side and name != "carrier_changes")
