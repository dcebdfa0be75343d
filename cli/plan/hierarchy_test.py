"""Hierarchies as values: rules of the keys, plans, rulesets, configurations, maps, counters."""

import dataclasses
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

from cli import call, programs
from cli.errors import RepriseError, UsageError
from cli.executor import machine, outcome
from cli.executor.words import in_terms
from cli.experiment import rules
from cli.experiment.experiment import load
from cli.experiment.schema import Experiment, Generate, Hierarchy, Replay, Server, Topology, World
from cli.plan import guards
from cli.plan.hierarchy_hosts import link_addresses, upstream
from cli.plan.plan import make
from cli.plan.planned import Refused
from cli.servers import bind, meta_servers, nftables
from cli.servers.counted import of_proxy
from cli.servers.kind import Service, Site
from cli.servers.kinds import KINDS
from cli.servers.meta_servers import MetaSite
from cli.servers.nftables import Pair
from cli.zones import zone_plan, zones
from tests.facts import FACTS

BASE = Experiment(
    name="x", trace="/t.pcap", server=Server(kind="hierarchy"), hierarchy=Hierarchy(synth=World(zones=20))
)
MINIMAL = "trace='t'\n[server]\nkind='hierarchy'\n[hierarchy]\nzones='z'\n"
MAP = """#reprise-map 1
resolver\t1\t198.19.254.1\tfd00:198:19:fe::1
resolver\t2\t198.19.254.2\t-
meta\t1\t1\t1\t198.18.128.1\tfd00:198:18::1
meta\t1\t2\t1\t198.18.128.2\tfd00:198:18::2
meta\t2\t1\t2\t198.18.128.3\tfd00:198:18::3
meta\t2\t2\t2\t198.18.128.4\tfd00:198:18::4
oqda\t198.41.0.4\t1
oqda\t2001:db8::1\t2
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "x.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_resolvers_are_one_or_a_list(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL)
    one = load(path, ["hierarchy.resolver=unbound"]).emulated
    two = load(path, ["hierarchy.resolver=['bind','unbound']", "topology.clients=2"]).emulated
    assert one is not None and one.resolvers == ("unbound",)
    assert two is not None and two.resolvers == ("bind", "unbound")


def test_signatures_that_nobody_looks_at_may_have_expired(tmp_path: Path) -> None:
    path = written(tmp_path, MINIMAL)
    accepted = ["hierarchy.resolver=knot-resolver", "hierarchy.expired_signatures=accept"]
    with pytest.raises(UsageError, match="exclude each other") as caught:
        load(path, accepted)
    assert "hierarchy.validate = false" in caught.value.hint
    load(path, [*accepted, "hierarchy.validate=false"])


def test_only_a_trace_has_times_that_can_be_changed() -> None:
    paced = Replay(rate=10, limit=5)
    told = make(dataclasses.replace(BASE, replay=paced), FACTS).warnings
    assert any("the trace's times are changed" in one for one in told)
    generated = dataclasses.replace(BASE, trace=None, generate=Generate(name="example.com"), replay=paced)
    assert not any("times are changed" in one for one in make(generated, FACTS).warnings)


def test_there_is_a_plan_for_the_107_nodes_of_codns() -> None:
    experiment = dataclasses.replace(
        BASE,
        hierarchy=Hierarchy(synth=World(), resolver=("bind",) * 107),
        topology=Topology(clients=107),
        replay=Replay(hedge_ms=200, peers=("198.19.255.54",)),
    )
    rules.check(experiment)
    ends = [
        end
        for link in make(experiment, FACTS).network.links
        for end in (*link.a_addresses, *link.b_addresses)
    ]
    assert len(set(ends)) == len(ends)


def test_links_do_not_overlap() -> None:
    found = [
        address
        for resolver in range(1, 9)
        for instance in range(1, 9)
        for pair in link_addresses(resolver, instance, 8)
        for address in pair
    ]
    assert len(set(found)) == len(found) == 8 * 8 * 4
    assert upstream(11) == ("198.19.254.11", "fd00:198:19:fe::b")


def address_map(folder: Path) -> zone_plan.AddressMap:
    path = folder / "map.tsv"
    path.write_text(MAP, encoding="ascii")
    return zone_plan.read_map(path)


def test_a_map_is_read(tmp_path: Path) -> None:
    found = address_map(tmp_path)
    assert found.instances == (1, 2)
    assert found.toward(2) == {
        "198.41.0.4": Pair("198.18.128.2", "fd00:198:18::2"),
        "2001:db8::1": Pair("198.18.128.4", "fd00:198:18::4"),
    }
    assert found.resolvers[2] == Pair("198.19.254.2", "")


@pytest.mark.parametrize("text", ["", "#reprise-map 2\n", "#reprise-map 1\noqda\t1\n"])
def test_a_broken_map_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "map.tsv"
    path.write_text(text, encoding="ascii")
    with pytest.raises(RepriseError, match=r"not an? (address map|line of an address map)"):
        zone_plan.read_map(path)


def test_rulesets_hold_the_map_by_family(tmp_path: Path) -> None:
    found = address_map(tmp_path)
    text = nftables.resolver_ruleset(found.toward(1), zones.sink_of("198.18.128.0/17", "fd00:198:18::/48"))
    assert "198.41.0.4 : 198.18.128.1" in text
    assert "2001:db8::1 : fd00:198:18::3" in text
    assert "198.41.0.4 : fd00" not in text
    assert "ip daddr set 198.18.255.255 accept" in text
    back = nftables.meta_ruleset(
        list(found.resolvers.values()),
        [[Pair("198.18.128.1", "fd00:198:18::1")], [Pair("198.18.128.2", "")]],
        Pair("198.18.255.255", "fd00:198:18::f"),
    )
    assert "198.18.128.1 : goto to4r1" in back
    assert "198.18.128.2 : goto to4r2" in back
    assert "ip daddr set 198.19.254.2" in back
    assert "to6r2" not in back  # the second resolver has no IPv6


def test_addresses_and_routes_are_batches(tmp_path: Path) -> None:
    found = address_map(tmp_path)
    assert zones.addresses(found, 1).splitlines() == [
        "addr replace 198.18.128.1/32 dev lo", "addr replace fd00:198:18::1/128 dev lo nodad",
        "addr replace 198.18.128.2/32 dev lo", "addr replace fd00:198:18::2/128 dev lo nodad",
    ]  # fmt: skip
    hops = [(1, 2, "198.19.253.6", "fd00:198:19:fd::6")]
    assert zones.routes(found, 1, hops).splitlines() == [
        "route replace 198.18.128.3/32 via 198.19.253.6",
        "route replace fd00:198:18::3/128 via fd00:198:19:fd::6",
    ]


def test_guards_let_only_answers_out_to_clients() -> None:
    text = nftables.guard_ruleset(nftables.Guarded(clients=["data1"], ports=[53]))
    assert 'oifname { "data1" } udp sport { 53 } @th,80,1 1 accept' in text
    assert "dport { 53, 443, 853 } counter name dns_ports drop" in text
    assert "icmp type != echo-request counter name errors drop" in text  # what pings outside is told
    assert "sport" not in nftables.guard_ruleset(nftables.Guarded(["data1"], ["fd00::/64"]))


def test_what_guards_counted_names_host_and_counter(tmp_path: Path) -> None:
    def counted(dns: int) -> str:
        return json.dumps(
            {"nftables": [{"metainfo": {}}, *(
                {"counter": {"table": table, "name": name, "packets": packets}}
                for table, name, packets in (
                    ("of another", "elsewhere", 9), (nftables.GUARD, "dns_ports", dns),
                    (nftables.GUARD, "elsewhere", 0), (nftables.GUARD, "errors", 7),
                    (nftables.GUARD, "frames", 0),
                ))]}
        )  # fmt: skip

    (tmp_path / "guard-server.json").write_text(counted(3))
    (tmp_path / "guard-meta1.json").write_text(counted(0))
    counted_here = guards.figures(guards.of(BASE, make(BASE, FACTS).network, None))
    reasons, (found,) = outcome.read(counted_here, tmp_path)
    assert (found.host, found.packets) == ("server", 3)
    assert "to ports 53, 853 or 443" in found.what
    assert "guard's counter dns_ports" in found.what
    assert reasons == []
    unread = ["the guard of meta1 could not be read"]
    for damaged in ("cut", "{}", "[]", counted(0).replace("elsewhere", "other"), None):
        (tmp_path / "guard-meta1.json").unlink()
        if damaged is not None:
            (tmp_path / "guard-meta1.json").write_text(damaged)
        assert outcome.read(counted_here, tmp_path) == (unread, [found])
        (tmp_path / "guard-meta1.json").touch()


SITE = Site(
    "/r", (), ("192.0.2.1", "2001:db8::1"), "u", 9000,
    upstream=upstream(1), hints="/p/hints", anchors="/p/key", bind_anchors="/p/anchors",
)  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "validating", "plain"),
    [
        ("bind", 'include "/p/anchors"', "dnssec-validation no"),
        ("unbound", "validator iterator", 'module-config: "iterator"'),
        ("knot-resolver", "trust_anchors.add_file", "NO_MINIMIZE', true"),
        ("pdns-recursor", "readTrustAnchorsFromFile", "qname-minimization=no"),
    ],
)
def test_resolvers_follow_the_keys(kind: str, validating: str, plain: str) -> None:
    server, resolver = Server(kind="hierarchy"), KINDS[kind].resolver
    assert resolver is not None
    text = resolver(server, Hierarchy(), dataclasses.replace(SITE, extra="EXTRA"))
    assert validating in text
    assert "/p/hints" in text
    assert "198.19.254.1" in text and "fd00:198:19:fe::1" in text
    assert text.partition("\nlocal settings")[0].rstrip().endswith("EXTRA")  # which are written down then
    other = resolver(server, Hierarchy(validate=False, qname_minimization=False), SITE)
    assert validating not in other
    assert plain in other
    if KINDS[kind].over_tls:
        served = resolver(
            server, Hierarchy(), dataclasses.replace(SITE, tls=Service(853, "/r/key", "/r/pem"))
        )
        assert all(word in served and word not in text for word in ("853", "/r/key", "/r/pem"))


def test_lines_of_the_users_own_join_nameds_options() -> None:
    lines = """// a comment; options { no }
max-cache-size 8m; recursive-clients 7;  # ours is 100000
options { prefetch 0; forwarders { 192.0.2.1; }; };
logging { channel "a;b" { null; }; };
"""
    text = bind.resolver(Server(kind="hierarchy"), Hierarchy(), dataclasses.replace(SITE, extra=lines))
    options = text.partition("options {")[2].partition("\n};\n")[0]
    for line in ("max-cache-size 8m;", "recursive-clients 7;", "prefetch 0;", "forwarders { 192.0.2.1; };"):
        assert f"    {line}\n" in options + "\n"
    assert "100000" not in text and "comment" not in text
    assert text.endswith('\nlogging { channel "a;b" { null; }; };\n')
    cut = bind.resolver(Server(kind="hierarchy"), Hierarchy(), dataclasses.replace(SITE, extra="zone { x;"))
    assert cut.endswith("zone { x;\n")


def test_meta_servers_answer_alike_each_time() -> None:
    site = MetaSite("/f{}", "/plan", "bind", 1232, True, 20_000, versions=("", ""))
    text = meta_servers.named(site, 2)
    for line in ('directory "/f2"', "rrset-order { order none; }", "answer-cookie no", "max-udp-size 1232",
                 'include "/plan/views-2.conf"'):  # fmt: skip
        assert line in text
    stanza = meta_servers.nsd(site, 1, 7, [Pair("198.18.128.1", ""), Pair("198.18.128.2", "fd00:198:18::2")])
    assert stanza.count("ip-address:") == 3
    assert "round-robin: no" in stanza and "/f1/xfrd-7.state" in stanza


def test_many_slots_become_ready_and_end_together(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.write_text('#!/bin/sh\necho "$3 nsd started" >&2\nexec sleep 300\n')
    server.chmod(0o755)
    listed = tmp_path / "list"
    listed.write_text("".join(f"/with space/{number}\n" for number in range(20)))
    asked = call.words("cli.servers.slots.serve", nsd=server, listed=listed)
    argv = [sys.executable, "-m", "cli.call", *asked]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, cwd=programs.ROOT) as process:
        assert process.stderr is not None
        said = list(itertools.takewhile(lambda line: "event=ready" not in line, process.stderr))
        assert sorted(said) == sorted(f"/with space/{number} nsd started\n" for number in range(20))
        process.terminate()
        assert process.wait(20) == 0


def test_only_key_signing_keys_are_anchors() -> None:
    keys = ". 3600 IN DNSKEY 257 3 13 AAAA BBBB\n. 3600 IN DNSKEY 256 3 13 CCCC\n; a comment\n"
    assert meta_servers.bind_anchors(keys) == 'trust-anchors {\n    . static-key 257 3 13 "AAAABBBB";\n};\n'
    assert meta_servers.bind_anchors("") == "trust-anchors {\n};\n"


def test_the_summary_of_a_plan_names_what_does_not_work() -> None:
    report = {
        "failed": [{"zone": "", "file": "x.zone", "line": 3, "why": "no SOA"}],
        "unroutable": [],
        "unserved": [{"zone": f"{n}.", "why": "no address"} for n in range(9)],
    }
    text = zone_plan.summary(report, 0.0)
    assert "1 zones that do not load:\n    x.zone: no SOA\n" in text
    assert "9 zones that no server has:" in text and "    ...\n" in text
    assert "addresses" not in text
    first, second = zone_plan.warnings(report)
    assert first == "the zone plan has 1 zones that do not load: x.zone: no SOA"
    assert second.startswith(
        "the zone plan has 9 zones that no server has: 0.: no address; "
    ) and second.endswith("...")


TRUSTED = {
    "trusted": [
        {"zone": ".", "file": "root.zone", "from": 1_000, "until": 2_000},
        {"zone": "com.", "file": "com.zone", "from": 500, "until": 3_000},
        {"zone": "net.", "file": "net.zone", "unproven": "it has no signatures"},
    ]
}


@pytest.mark.parametrize(
    ("now", "refused", "state", "zone", "hint"),
    [
        (1_500, ("expired", "early"), "", "", ""),
        (2_001, ("expired",), "that are no longer valid", ". (until 1970-01-01 00:33 UTC)", "BIND"),
        (700, ("expired", "early"), "that are not valid yet", ". (from 1970-01-01 00:16 UTC)", "unbound"),
        (1_500, ("missing",), "although their parent has a DS record", "net.", '"keep"'),
    ],
)
def test_signatures_out_of_date_are_told(
    now: int, refused: tuple[str, ...], state: str, zone: str, hint: str
) -> None:
    if not state:
        zone_plan.check_signatures(TRUSTED, refused, now)
        return
    with pytest.raises(RepriseError) as caught:
        zone_plan.check_signatures(TRUSTED, refused, now)
    assert f"{state}: {zone}" in caught.value.what
    assert "hierarchy.validate = false" in caught.value.hint and hint in caught.value.hint
    assert (state if now != 1_500 else "net.: it has no signatures") in zone_plan.summary(TRUSTED, now)
    assert "net.: it has no signatures" in zone_plan.warnings(TRUSTED)[0]


def test_refused_zones_are_read_off_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "1 zone a.com/IN/c3: loading from master file /w/a.com.zone failed: syntax error\n"
        "1 zone a.com/IN/c3: not loaded due to errors.\n"
        "2 zone b.com/IN: CDS/CDNSKEY consistency checks failed\n2 zone b.com/IN: not loaded due to errors.\n"
        "3 zone c.com/IN/c1: NS 'ns.c.com' has no address records\n3 zone c.com/IN/c1: loaded serial 1\n"
    )
    bind, nsd = (Refused(KINDS[engine].refused, "zone{s} did not load") for engine in ("bind", "nsd"))
    assert machine.refused(bind, log) == (
        "2 zones did not load: a.com (syntax error), b.com (CDS/CDNSKEY consistency checks failed)"
    )
    log.write_text("[x] nsd[2]: error: zone bad.com file bad.zone read with 1 errors\n")
    assert "bad.com" in machine.refused(nsd, log)
    assert machine.refused(nsd, tmp_path / "none") == ""


def test_counters_of_all_proxies_of_a_host_are_added(tmp_path: Path) -> None:
    for turn in range(2):
        path = tmp_path / f"proxy-server-{turn}.json"
        counted = {
            "upstream": {"udp_queries": 5, "udp_dropped": 3, "tcp_connections": turn, "tcp_queries": 7},
            "packets": {"unmapped": 2},
            "unmapped": [{"address": "192.0.2.9", "packets": 2}],
            "counted_until_ns": 2**62 if turn else 1,  # the first has ended, the second is ahead
        }
        path.write_text(json.dumps(counted))
    (tmp_path / "proxy-server2-0.json").write_text("{}")
    found = of_proxy(tmp_path, "proxy-server-")
    assert found == {
        "udp_queries": 10, "udp_dropped": 6, "tcp_connections": 1, "tcp_queries": 14, "unmapped_packets": 4,
        "unmapped": {"192.0.2.9": 4}, "counted_until_ns": 2**62,
    }  # fmt: skip
    path.write_text(json.dumps({**counted, "counted_until_ns": 6}))
    assert of_proxy(tmp_path, "proxy-server-", 300.0, asked=6)["counted_until_ns"] == 6  # at once


def test_of_several_resolvers_the_first_is_waited_for() -> None:
    two = dataclasses.replace(BASE, topology=Topology(clients=2))
    assert two.hierarchy is not None
    emulated = dataclasses.replace(two.hierarchy, resolver=("bind", "unbound"))
    plan = make(dataclasses.replace(two, hierarchy=emulated), FACTS)
    for steps, when in ((plan.begin, "-before"), (plan.finish, "")):
        one, other = (step.apply[0] for step in steps if step.id.startswith("count-"))
        assert not [word for word in one if word.startswith("first=")]
        assert f"first=@results@/resolver-server{when}.json" in other


@pytest.mark.parametrize("kind", ["bind", "unbound", "knot-resolver", "pdns-recursor"])
def test_places_in_a_configuration_are_those_in_the_users_file(
    kind: Literal["bind", "unbound", "knot-resolver", "pdns-recursor"],
) -> None:
    lines = "# first\n\nno-such-thing 1;\n"
    assert BASE.hierarchy is not None
    emulated = dataclasses.replace(BASE.hierarchy, resolver=kind)
    plan = make(dataclasses.replace(BASE, hierarchy=emulated), dataclasses.replace(FACTS, config_lines=lines))
    config = next(one.content or "" for one in plan.files if one.path.endswith("resolver-1.conf"))
    at = config.splitlines().index("    no-such-thing 1;" if kind == "bind" else "no-such-thing 1;") + 1
    said = in_terms(f"resolver-1.conf:{at}: unknown", (), plan.files, lambda text: text)
    assert said == "hierarchy.resolver_config:3: unknown"


@pytest.mark.parametrize(
    ("said", "asked"),
    [({}, "@run@/world/names.txt"), ({"names": "/list"}, "/list"), ({"unique_below": "a.example"}, None)],
)
def test_a_trace_that_is_made_asks_for_the_zones_names_unless_it_says_others(
    said: dict[str, str], asked: str | None
) -> None:
    made = dataclasses.replace(BASE, trace=None, synth={"profile": "recursive", **said})
    argv = next(step.argv for step in make(made, FACTS).prepare if step.id == "synth")
    assert (argv[argv.index("--names") + 1] if "--names" in argv else None) == asked
