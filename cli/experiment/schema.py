"""What an experiment may say: each key with its type, its range, its default and its meaning.

Experiments are checked by these classes (pydantic's), and the table in docs/formats.md and the JSON Schema
in docs/experiment.schema.json are made of them by `python -m cli.experiment.document`. What a single key
cannot say, such as keys that exclude each other, is in the modules of rules.
"""

import ipaddress
from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from cli import run_name
from cli.experiment.keys import Flag, Number, Path, Table, Text, Texts, Whole, Zone, doc, form, span
from cli.experiment.settings import (
    RELOADS,
    TAKES_EXPIRED,
    Authoritative,
    Proxy,
    ReplaySettings,
    Resolver,
    SocketSettings,
    TlsSettings,
)
from report.transports import SERVED, TRANSPORTS

SCHEMA = 1
_MOST_MS, _MOST_SEED = 100_000, (1 << 63) - 1


# A key a line.
# fmt: off
class RootLike(Table):
    """a signed root-like zone made on the spot, with the names of Debian's publicsuffix package"""

    seed: Annotated[Whole, span(0, _MOST_SEED, "of what is drawn")] = 1
    ds_share: Annotated[Number, span(0, 1, "share of the delegations that are signed")] = 0.9
    ksk_bits: Annotated[Whole, span(1_024, 4_096, "size of the key that signs the keys")] = 2048
    zsk_bits: Annotated[Whole, span(1_024, 4_096, "size of the key that signs the zone")] = 2048


class Wildcard(Table):
    """a zone made on the spot in which every name has an answer: its apex and `*` have A, AAAA and TXT records"""

    origin: Annotated[Zone, doc("name of the zone")] = "example.com."
    zones: Annotated[Whole, span(1, 100_000, "how many zones: `origin`, and below it `z2`, `z3` and so on, all with the same records")] = 1
    names: Annotated[Whole, span(0, 10_000_000, "further names in each zone, `n1` and so on, with A and AAAA records. With these, or with several zones, a `[synth]` trace without `names` and `unique_below` asks for names of the zones")] = 0


AUTHORITATIVE = ", ".join(f'"{name}"' for name in get_args(Authoritative)[:-1]) + f' or "{get_args(Authoritative)[-1]}"'
Stateless = Literal["reference", "bpf"]  # fronts of our own


class Server(Table):
    """the server under test"""

    kind: Annotated[Literal[Authoritative, "command", "address", "hierarchy"], doc("`command`: a server of yours that `server.command` starts; `address`: a server of yours that is running already, on this machine's loopback or, for runs on many hosts, at any address that the clients reach; `hierarchy`: a resolver with `[hierarchy]` behind it")] = "nsd"
    command: Annotated[Text | None, doc('command line of a `command` server, split into words as a shell does it, without a shell. The program is one of the system\'s or has its whole path, and stays in the foreground; `{port}`, `{zone}` (the zone\'s file) and `{address}` have to be in it, `{address6}` (without it, queries over IPv6 are skipped), `{origin}` and `{folder}` (where it may write) can be. It runs as `nobody`, and may bind ports below 1024. On this machine only')] = None
    zone: Annotated[Path | None, doc("zone file, plain or compressed; wins over `[server.root_like]` and `[server.wildcard]`")] = None
    capture: Annotated[Path | None, doc("capture of a server's answers, of which its zone `server.origin` is built as by `reprise zones build`; wins over `[server.root_like]` and `[server.wildcard]`")] = None
    origin: Annotated[Zone | None, doc("the zone's origin (the owner of its SOA if not given)")] = None
    addresses: Annotated[Texts, doc("where an `address` server listens")] = ()
    pid: Annotated[Whole | None, span(1, 4_194_304, "number of the first process of an `address` server on this machine: CPU, memory and connections of it and of those below it are sampled")] = None
    service: Annotated[Annotated[Text, form(r"[\w@.:\\-]{1,255}", "is not the name of a service", "give it as systemd has it, such as nsd.service")] | None, doc('the same by the name that systemd has for it, such as `"nsd.service"`')] = None
    allow_public: Annotated[Flag, doc("`addresses` may be public ones: ask who runs that server first")] = False
    port: Annotated[Whole, span(1, 65_535, "where the server listens")] = 53
    front: Annotated[Literal["kernel", Stateless, Proxy], doc("what stands before the server. `kernel`: nothing, it answers TCP by the kernel's. `reference` (in user space) and `bpf` (in the kernel) take over the clients' TCP and ask the server by UDP, see [stateless.md](stateless.md). `dnsdist` listens where clients ask, over TLS too, and passes all on to the server, see [servers.md](servers.md#behind-dnsdist). With authoritative servers of ours only")] = "kernel"
    processes: Annotated[Whole, span(1, 1_024, "server processes (NSD), threads (BIND, unbound, PowerDNS Recursor), workers for each of UDP and TCP (Knot DNS) or receiver threads (PowerDNS); not knot-resolver. For TLS, and for TCP where `replay.transport` lets no query come over UDP, each NSD process has a listening socket of its own; else they share one, and one process may get twice as many connections as another")] = 1
    edns_size: Annotated[Whole, span(512, 65_535, "EDNS size offered and used, bytes; BIND and Knot DNS take 4096 at most")] = 4096
    tcp_count: Annotated[Whole, span(0, 1_000_000, "`tcp-count` of each NSD process (above half of it NSD cuts idle timeouts to 200 ms), `tcp-clients` of BIND, `tcp-max-clients` of Knot DNS, `max-tcp-connections` of PowerDNS; 0 = as many connections as a process's descriptors allow (NSD is told twice that, so that the cut never comes); not knot-resolver")] = 0
    tcp_idle_timeout_s: Annotated[Number, span(0.1, 6_553, "the server closes TCP connections that were idle for this time: whole seconds, but tenths of a second up to 120 s (BIND) and thousandths (unbound, knot-resolver); a value that the server would change by over 5 % is refused")] = 20.0
    tcp_listen_queue: Annotated[Whole, span(1, 65_535, "listen queue of BIND and dnsdist; with `command` from 4097 on `somaxconn`. Others have a fixed one (NSD: 256)")] = 4096
    minimal_responses: Annotated[Flag, doc("leave out what a response need not hold; Knot DNS, PowerDNS and resolvers other than BIND do so always")] = False
    rrl: Annotated[Whole, span(0, 1_000_000, "response rate limiting: answers a second to one network, as the server counts them; 0 = off; not PowerDNS")] = 0
    config: Annotated[Path | None, doc("file of lines for the configuration of our own authoritative server; options of BIND replace ours of the same name")] = None
    binary: Annotated[Path | None, doc("program to start in place of the packaged one, of the same kind: another build or release; on this machine only")] = None
    ready_s: Annotated[Number, span(1, 86_400, "the server must answer within this time")] = 60.0
    root_like: RootLike | None = None
    wildcard: Wildcard | None = None


class Front(Table):
    """options of `server.front`"""

    timeout_ms: Annotated[Whole, span(1, 600_000, "not `dnsdist`: an entry for a query without an answer is kept for this time, ms")] = 3_000
    early_ack: Annotated[Flag | None, doc("not `dnsdist`: acknowledge a query before its answer is there; not given: true for `reference`, false for `bpf`")] = None
    axfr_detect: Annotated[Flag | None, doc("not `dnsdist`: zone transfers go over TCP: `reference` relays AXFR over a connection of its own to the server, `bpf` gives AXFR and IXFR to the kernel's TCP; not given: false for `reference`, true for `bpf`")] = None
    loglevel: Annotated[Whole, span(0, 3, "not `dnsdist`: what a front logs: 0: start and end, 1: warnings too, 2: the counts of each second too, 3: a line for each segment too (`reference`)")] = 1
    fin_last: Annotated[Flag, doc("`reference` only: FIN on an answer's last segment; otherwise the client closes")] = False
    promote: Annotated[Flag, doc("`bpf` only: connections beyond one query and a reply of one segment go to the kernel's TCP (Linux 6.9 or newer); false: they are reset and counted")] = True
    entries: Annotated[Whole, span(1, 16_777_216, "`bpf` only: most queries in flight")] = 65_536
    timed: Annotated[Flag, doc("`bpf` only: measure how long its programs run (`in_seconds` and `out_seconds` of `summary.json`), at two looks at the clock for each packet")] = False
    truncate_udp: Annotated[Whole, span(0, 65_535, "not `dnsdist`: truncate longer replies over UDP (set TC), bytes; 0 = off; `reference` takes what fits in a packet")] = 0
    config: Annotated[Path | None, doc("`dnsdist` only: file of lines for its configuration")] = None


class Replay(ReplaySettings):
    """how the trace is played"""

    cpus: Annotated[Text, form(r"(\d+(-\d+)?)(,\d+(-\d+)?)*|", "is not a list of processors", 'write it like "0,2-3"'), doc('processors of the queriers, such as `"1"` or `"0,2-3"`; empty = any')] = ""

    @property
    def shows_trace_addresses(self) -> bool:
        """Whether the server sees the trace's own addresses, and answers them."""
        return self.source_mode in ("addresses", "packet")


class Mutate(Table):
    """change the trace (or the synthesized one) as it is played; `rules` of `summary.json` says what each
    rule did. For `heavy`, `jitter` and a `shift` of some queries the changed trace is written first, as with
    `keep`. A rule of the file that sends queries over TLS needs a `[tls]` table
    """

    rules: Annotated[Path | None, doc("a rule file")] = None
    rule: Annotated[tuple[dict[str, Any], ...], doc('rules written here (`[[mutate.rule]]` with `kind = "edns"` and so on, see [rules.md](rules.md)), applied ' 'after the file\'s; a key of `anonymize` only as `key = "@FILE"`, so that it stands in no result')] = ()
    seed: Annotated[Whole | None, doc("in place of the file's")] = None
    malformed: Annotated[Literal["keep", "drop"] | None, doc("in place of the file's")] = None
    keep: Annotated[bool, doc("write the changed trace before it is played: `trace.rps` in the results, and what was done `mutate.json`")] = False

    @property
    def over_tls(self) -> bool:
        """Whether a rule written here sends queries over TLS; the rule file is not looked into."""
        wanted = [str(one.get("to")) for one in self.rule if one.get("kind") == "transport"]
        return any(one.name in to for one in SERVED if one.tls for to in wanted)


class Tls(TlsSettings):
    """how queries travel over TLS (RFC 7858). A server of ours speaks it where this table is there or
    `replay.transport` is `"tls"`, with a key and a certificate made for the run: name `server.reprise.test`
    and the server's addresses
    """

    key: Annotated[Literal["ecdsa-p256", "rsa-2048"], doc("key of our own server")] = "ecdsa-p256"


class Socket(SocketSettings):
    """what delays segments of TCP, at the clients, the server and the links between them"""

    nagle: Annotated[Flag | None, doc("Nagle's algorithm at the server, set on its listening sockets, whose connections inherit it unless the server sets it itself; not given: as the server has it (NSD leaves it on). An authoritative server of the run without a front")] = None
    offload: Annotated[Flag, doc("false: hosts leave no segmentation to their interfaces, so that what a host sends are segments as on a wire; on this machine only")] = True


class Generate(Table):
    """instead of a trace one query again and again, without `[mutate]`; wants `replay.rate`, `.fast` or
    `source_rate`, and `.limit` or `.duration_s`; wins over `[synth]`
    """

    name: Annotated[Text, form(r"[!-.0-~]{1,255}", "is not a domain name", "give one, such as www.example.com"), doc("the name asked for")] = ""
    type: Annotated[Text, form(r"[A-Za-z0-9]{1,16}", "is not a record type", "use one such as A or TYPE65"), doc("the type asked for")] = "A"
    sources: Annotated[Whole, span(1, 16_000_000, "from so many addresses (10.0.0.1 on) in turn")] = 1
    source_rate: Annotated[Number, span(0, 1e6, "queries a second that each source sends, which makes the rate grow with `sources`; 0 = as `[replay]` says")] = 0
    rd: Annotated[Flag | None, doc("with the flag RD, which resolvers want; not given: true for `server.kind` `hierarchy` and `address`, else false")] = None


class Rtt(Table):
    """distance between the ends of a path, as whole round trips"""

    rtt_ms: Annotated[Number | None, span(0, _MOST_MS, "round trip, ms; where a table is given too, of the addresses it leaves")] = None
    table: Annotated[Path | None, doc("file of lines `PREFIX rtt_ms [jitter_ms [loss_percent]]`; the longest prefix counts, `default` stands for the rest, `#` begins a comment")] = None
    by: Annotated[Literal["source"] | None, doc("a round trip for each client from the trace (its `rtt`); wants `replay.source_mode` `addresses` or `packet`; not in `[hierarchy.rtt]`")] = None
    distribution: Annotated[Annotated[Text, form(r"(normal|uniform|lognormal):\d+(\.\d+)?,\d+(\.\d+)?", "is unknown", "use normal:MEAN,SD, uniform:LOW,HIGH or lognormal:MEDIAN,SIGMA in ms")] | None, doc('drawn once for each address: `"normal:MEAN,SD"`, `"uniform:LOW,HIGH"`, `"lognormal:MEDIAN,SIGMA"` (ms)')] = None
    observed: Annotated[Path | None, doc("file of observed round trips to draw from, one a line")] = None
    jitter_ms: Annotated[Number, span(0, _MOST_MS, "most by which a packet's round trip differs, either way")] = 0.0
    loss_percent: Annotated[Number, span(0, 100, "packets lost")] = 0.0
    seed: Annotated[Whole, span(0, _MOST_SEED, "of what is drawn")] = 1
    realtime: Annotated[Flag, doc("the delay line runs before ordinary processes (SCHED_FIFO, needs root)")] = False


class World(Table):
    """a synthetic hierarchy, as by `reprise zones synth`. A `[synth]` trace of profile `recursive` without
    `names` and `unique_below` asks for its names
    """

    zones: Annotated[Whole, span(1, 1_000_000, "how many zones")] = 100
    seed: Annotated[Whole, span(0, _MOST_SEED, "of what is drawn")] = 1
    signed: Annotated[Flag, doc("with DNSSEC")] = False


class Hierarchy(Table):
    """what stands behind the resolver under test with `server.kind = "hierarchy"`, see
    [hierarchy.md](hierarchy.md)
    """

    zones: Annotated[Path | None, doc("folder of zone files, with or without [zones.json](#zonesjson-schema-1); wins over `[hierarchy.synth]`")] = None
    capture: Annotated[Path | None, doc("capture between resolvers and name servers, of which the zones are built as by `reprise zones build`; wins over `[hierarchy.synth]`")] = None
    dnssec: Annotated[Literal["keep", "strip", "resign"], doc("of zones built from `capture`: records as they were seen, none, or all zones signed with new keys")] = "keep"
    synth: World | None = None
    resolver: Annotated[Resolver | tuple[Resolver, ...], doc(", ".join(f'`"{name}"`' for name in get_args(Resolver)) + ', or a list of them: all under test at once, client n asks resolver n (and round again)')] = "bind"
    engine: Annotated[Literal["bind", "nsd"], doc("what serves the zones: `bind` by views, or `nsd`, one for each slot")] = "bind"
    form: Annotated[Literal["colored", "paper", "separate"], doc("how zones share servers; `paper` is BIND's only")] = "colored"
    data_path: Annotated[Literal["tun", "nft"], doc("`tun`: reprise-proxy, or `nft`: nftables")] = "tun"
    instances: Annotated[Whole, span(1, 16, "meta-DNS-servers that share the zones, each on a host of its own")] = 1
    cache: Annotated[Literal["cold", "warm"], doc("`warm`: every question of the trace is asked once before the replay")] = "cold"
    cold_s: Annotated[Number, span(0, 86400, "of a cold cache: the first seconds, which the plots of the slowest answers show apart from the rest; 0 = none")] = 60.0
    qname_minimization: Annotated[Flag, doc("of the resolver (RFC 9156)")] = True
    validate: Annotated[Flag, doc("DNSSEC with the emulated root's key; without one nothing is validated")] = True
    expired_signatures: Annotated[Literal["refuse", "accept", "keep"], doc(f"zones whose signatures are not valid at the time of the run: `refuse` ends it before it begins, `accept` has the resolver take expired ones ({', '.join(TAKES_EXPIRED.values())}), `keep` changes nothing")] = "refuse"
    resolver_config: Annotated[Path | None, doc("file of lines for the resolver's configuration; options of BIND replace ours of the same name")] = None
    skip_bad: Annotated[Flag, doc("leave out zones that do not load instead of ending")] = False
    edns_size: Annotated[Whole, span(512, 4_096, "of the meta-DNS-server")] = 4096
    minimal_responses: Annotated[Flag, doc("of the meta-DNS-server")] = True
    max_servfail_percent: Annotated[Number, span(0, 100, "a run is not clean where more of the answers are SERVFAIL; 100 allows all, e.g. where the trace asks for names that nobody serves")] = 1.0
    max_unmapped_percent: Annotated[Number, span(0, 100, "the same, where more of what goes upstream has an address that no zone has")] = 1.0
    max_lost_percent: Annotated[Number, span(0, 100, "the same, where more is lost between resolvers and meta-DNS-servers")] = 1.0
    rtt: Annotated[Rtt | None, doc("distance of the name servers from the resolver, by their address; keys as in `[rtt]` without `by`, and only with `data_path` `tun`")] = None

    @property
    def resolvers(self) -> tuple[str, ...]:
        """The resolvers' kinds, in the order of their hosts."""
        return (self.resolver,) if isinstance(self.resolver, str) else self.resolver


class Fault(Table):
    """what goes wrong at a time of the replay, one effect a table; see [faults.md](faults.md)"""

    at: Annotated[Number, span(0, 1e6, "begins so many seconds after the start of the replay")] = 0.0
    for_: Annotated[Number, Field(alias="for", ge=0, le=1e6, description="lasts so many seconds; of `restart`: the server is down for so long")] = 0.0
    target: Annotated[Literal["link", "server", "upstream"], doc("`link`: the way between clients and server; `server`: the processes of the server or the resolvers under test; `upstream`: the way between resolvers and meta-DNS-servers")] = "link"
    direction: Annotated[Literal["both", "queries", "answers"], doc("packets of `link` or `upstream` that are concerned")] = "both"
    servers: Annotated[tuple[Whole, ...], doc("of several resolvers under test the numbers of those concerned, from 1, with their clients; empty = all")] = ()
    loss: Annotated[Number | None, span(0.000_001, 1, "of a way: share of the packets that are lost, drawn for each")] = None
    drop: Annotated[Text | None, doc('of a way: `"udp>N"`: UDP datagrams with more than N bytes are lost, and those in fragments (64 to 1472), `"fragments"`: all fragments are')] = None
    rate: Annotated[Text | None, doc('of a way: what is more than this in a direction is lost, such as `"10Mb/s"`; 60 ms of it may come at once')] = None
    stall: Annotated[Flag, doc("of a server: its processes stand still")] = False
    reload: Annotated[Flag, doc(f"of a server ({', '.join(RELOADS.values())}): it reads its configuration and zones again")] = False
    restart: Annotated[Flag, doc("of a server: it is shut down, and started again")] = False


class Topology(Table):
    """where the processes run"""

    kind: Annotated[Literal["local", "host"], doc("`local`: network namespaces on this machine, or the hosts of an inventory; `host`: this machine's own network, from which a server at an address is reached")] = "local"
    clients: Annotated[Whole, span(1, 200, "client hosts")] = 1
    queriers: Annotated[Whole, span(0, 1_024, "on each client; 0 = the cores shared by the clients")] = 0


class Sample(Table):
    """what is watched"""

    hz: Annotated[Number, span(0.1, 10, "samples a second")] = 1.0
    clients: Annotated[Flag, doc("sample the clients too (`client1.csv` and so on)")] = False
    capture: Annotated[Flag, doc("packet capture at the server; not `address`")] = False
    warmup_s: Annotated[Number, span(0, 86_400, "seconds left out of the timing")] = 0.0


class Repeat(Table):
    """how often the experiment is run, each variant of `[sweep]` in turn"""

    n: Annotated[Whole, span(1, 1_000, "runs of each variant; differences are only told from 4 on")] = 1


class Search(Table):
    """the highest value of a key at which limits hold, see [series.md](series.md#searches)"""

    key: Annotated[Text, doc("key of the experiment, such as `replay.rate`; the higher its value, the harder for the server")]
    least: Annotated[Number, span(0.001, 1e9, "value that the search begins with")]
    most: Annotated[Number, span(0.001, 1e9, "value at which it ends")]
    expect: Annotated[dict[str, Any], doc("limits as in `[expect]`, all of which have to be met")]
    precision: Annotated[Number, span(0.001, 1, "how near the values are in the end, as a share")] = 0.05
    confirm: Annotated[Whole, span(1, 100, "runs that have to meet the limits at the value that is told")] = 3


class Experiment(Table):
    """One experiment as resolved. One of `trace`, `generate` and `synth` is used, the first that is there."""

    name: Annotated[Text, form(run_name.EXPERIMENT.pattern, "cannot name a folder", "use letters, digits, '.', '_' and '-'"), doc("name of the results folder; not given: the file's")]
    schema: Annotated[Whole, doc("version of this table")] = SCHEMA
    title: Annotated[Text, doc("one line for the report")] = ""
    trace: Annotated[Path | None, doc("trace to replay: a capture, the text or the stream form, or another tool's form; wins over `[synth]`")] = None
    synth: Annotated[dict[str, Any] | None, doc("options of `reprise trace synth` without their dashes (`tcp_share = 0.01`)")] = None
    generate: Generate | None = None
    mutate: Mutate | None = None
    server: Server = Field(default_factory=Server)
    front: Front | None = None
    replay: Replay = Field(default_factory=Replay)
    tls: Tls | None = None
    socket: Socket | None = None
    rtt: Annotated[Rtt | None, doc("distance between clients and server, by the client's address; a server of ours only")] = None
    hierarchy: Hierarchy | None = None
    fault: Annotated[tuple[Fault, ...], doc("faults as a timetable, a table (`[[fault]]`) each: keys as below")] = ()
    topology: Topology = Field(default_factory=Topology)
    sample: Sample = Field(default_factory=Sample)
    repeat: Repeat | None = None
    sweep: Annotated[dict[str, Any] | None, doc("lists of values for keys of the experiment (`replay.rate = [1000, 2000]`), of which each combination is a variant; with `mode = \"list\"` the first values of all are one, the second ones the next")] = None
    expect: Annotated[dict[str, Any] | None, doc("limits for figures of `summary.json`, such as `latency_us.p99 = \"<= 10 ms\"`, see [series.md](series.md#limits)")] = None
    search: Search | None = None
    paper: Annotated[dict[str, Any] | None, doc("of the experiments in `experiments/papers`: what `reprise papers` has to know, see [papers.md](papers.md)")] = None

    @property
    def own_server(self) -> bool:
        """Whether we start the server, on a network of our own."""
        return self.server.kind != "address"

    @property
    def rate(self) -> float:
        """Queries a second that the replay is to send; 0 = as the trace has them, or as fast as it can."""
        generated = self.generate.sources * self.generate.source_rate if self.generate else 0
        return self.replay.rate or generated

    @property
    def has_front(self) -> bool:
        """Whether a front of ours answers the clients' TCP, and not the kernel."""
        return self.server.front in get_args(Stateless)

    @property
    def has_proxy(self) -> bool:
        """Whether a packaged front listens in the server's place, and asks the server behind it."""
        return self.server.front in get_args(Proxy)

    @property
    def elsewhere(self) -> bool:
        """Whether the server is a running one on no host of ours, and clients have hosts that reach it."""
        addresses = self.server.addresses if self.server.kind == "address" and self.topology.kind == "local" else ()
        return any(not ipaddress.ip_address(one).is_loopback for one in addresses)

    @property
    def wants_recursion(self) -> bool:
        """Whether generated queries have RD: resolvers refuse others, and authoritative servers do not mind.
        What a server at an address is, nobody knows.
        """
        said = self.generate.rd if self.generate else None
        return self.server.kind in ("hierarchy", "address") if said is None else said

    @property
    def emulated(self) -> Hierarchy | None:
        """The hierarchy behind the server, where that is a resolver."""
        return (self.hierarchy or Hierarchy()) if self.server.kind == "hierarchy" else None

    @property
    def servers(self) -> int:
        """How many servers are under test: the resolvers of a hierarchy, or one."""
        return len(self.emulated.resolvers) if self.emulated else 1

    @property
    def connections_only(self) -> bool:
        """Whether no query comes over UDP."""
        transport = TRANSPORTS.get(self.replay.transport)
        return transport is not None and transport.stream

    @property
    def ports_by_transport(self) -> dict[str, int]:
        """Where the server is asked, over all transports by which queries may come."""
        found = [one for one in SERVED if self.over_tls or not one.tls]
        found = [one for one in found if one.stream or not self.connections_only]
        return {one.name: self.tls_settings.port if one.tls else self.server.port for one in found}

    @property
    def ports(self) -> tuple[int, ...]:
        """The numbers of these, each once."""
        return tuple(dict.fromkeys(self.ports_by_transport.values()))

    @property
    def tls_settings(self) -> Tls:
        return self.tls or Tls()

    @property
    def over_tls(self) -> bool:
        """Whether queries may go over TLS: then our own server serves it too."""
        mutated = self.mutate is not None and self.mutate.over_tls
        transport = TRANSPORTS.get(self.replay.transport)
        return self.tls is not None or (transport is not None and transport.tls) or mutated
