"""Experiments with server.kind = "hierarchy", end to end: real resolvers, real servers, both data paths."""

import csv
import json
import os
import re
import signal
import subprocess
from collections import Counter
from pathlib import Path

import dns.flags
import dns.message
import dns.rcode
import pytest

from cli import programs
from cli.servers import nftables
from cli.zones import signer
from cli.zones import world as cli_world
from cli.zones.world_model import Settings
from tests import command, packets
from tests.bed import below, wait_for
from tests.desk import words_of
from tests.hierarchy_bed import (
    BIG,
    MANY,
    RECORDS,
    ROOT,
    ROOT6,
    SLD,
    SLD6,
    SOA,
    TLD,
    TLD6,
    Ask,
    Result,
    finish,
    play,
    settings_of,
    start,
    write_trace,
    write_world,
)
from tests.slow import slow

pytestmark = pytest.mark.netns

ASKS = [
    Ask("www.example.com.", edns="-"),
    Ask("www.example.com."),
    Ask("alias.example.com."),
    Ask("x.w.example.com."),
    Ask("nothing.example.com."),
    Ask("example.com.", "NS"),
    Ask("com.", "NS"),
    Ask("nothing."),
    Ask(BIG, "TXT", edns="4096"),
    Ask(BIG, "TXT", transport="tcp"),
    Ask("www.example.com.", transport="tcp"),
]

NONE = {"nothing.example.com.", "nothing."}
RCODES = [dns.rcode.NXDOMAIN if ask.name in NONE else dns.rcode.NOERROR for ask in ASKS]


def told(message: dns.message.Message) -> tuple[object, ...]:
    """What an answer says to a client: all but id and TTLs, which depend on the moment."""
    sections = (message.answer, message.authority)
    return (
        message.rcode(),
        message.question[0].to_text(),
        *(sorted(f"{one.name} {one.rdtype} {item}" for one in part for item in one) for part in sections),
    )


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_world(tmp_path_factory.mktemp("world") / "zones")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.tsv", ASKS)


WAYS: list[dict[str, object]] = [
    {"data_path": "tun", "form": "colored"},
    {"data_path": "nft", "form": "paper"},
    {"data_path": "nft", "form": "separate", "engine": "nsd", "instances": 2},
    {"data_path": "tun", "form": "paper"},
    {"data_path": "tun", "form": "colored", "engine": "nsd"},
]


def asked_each_second(result: Result) -> list[int]:
    """What the resolver had asked upstream, from before the replay on."""
    assert result.folder is not None
    with (result.folder / "resolver-server.csv").open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["process"] == "upstream"]
    asked = [int(row["udp_queries"]) + int(row["tcp_queries"]) for row in rows]
    assert asked == sorted(asked)
    return asked


@pytest.mark.parametrize(
    ("resolver", "ways"),
    [
        ("bind", WAYS[:3]),
        slow("unbound", WAYS),
        slow("knot-resolver", WAYS),
        slow("pdns-recursor", WAYS),
    ],
)
def test_clients_are_told_the_same_by_every_way(
    tmp_path: Path, world: Path, trace: Path, resolver: str, ways: list[dict[str, object]]
) -> None:
    said = []
    for way in ways:
        keys = {f"hierarchy__{key}": value for key, value in way.items()}
        result = play(tmp_path, world, trace, hierarchy__resolver=resolver, **keys)
        assert result.status == 0, result.said
        summary = result.summary
        assert summary["clean"] and summary["leaked_packets"] == 0
        assert summary["resolver"]["unmapped_packets"] == 0
        assert summary["resolver"]["upstream_queries"] >= 3
        assert 0 <= summary["resolver"]["cache_hit_share"] < 1
        counted = result.json("resolver-server.json")
        asked = asked_each_second(result)[-1]
        assert asked <= counted["udp_queries"] + counted["tcp_queries"]
        assert asked > 0 or way["data_path"] == "tun"  # a proxy tells once a second, and the replay is short
        said.append([told(one) for one in result.answers()])
    for other in said[1:]:
        assert other == said[0]
    assert [one[0] for one in said[0]] == RCODES


def test_a_cold_cache_walks_from_the_root_down(tmp_path: Path, world: Path) -> None:
    """To names with more records of a type, and more types, than BIND serves by itself (100)."""
    asks = [Ask("www.example.com."), Ask(MANY, edns="4096"), Ask(MANY, f"TYPE{65_280 + RECORDS}")]
    trace = write_trace(tmp_path / "few.tsv", asks)
    result = play(tmp_path, world, trace, sample__capture=True, hierarchy__resolver="unbound")
    assert result.status == 0, result.said
    assert result.folder is not None
    seen = packets.read(result.folder / "capture-meta.pcap")
    asked = list(dict.fromkeys(one.source for one in seen if one.is_query))
    levels = [{ROOT, ROOT6}, {TLD, TLD6}, {SLD, SLD6}]
    found = [next(n for n, level in enumerate(levels) if source in level) for source in asked]
    assert list(dict.fromkeys(found)) == [0, 1, 2]  # perhaps an upper one again
    assert [len(one.answer[0]) for one in result.answers()] == [1, RECORDS, 1]


def test_several_resolvers_and_instances_at_once(tmp_path: Path, world: Path, trace: Path) -> None:
    resolvers = ["bind", "unbound", "bind"]
    result = play(
        tmp_path, world, trace, hierarchy__resolver=resolvers, hierarchy__instances=2, topology__clients=3
    )
    assert result.status == 0, result.said
    assert len(result.answers()) == len(ASKS)
    assert result.folder is not None
    for host in ("server", "server2", "server3"):
        assert result.json(f"resolver-{host}.json")["udp_queries"] >= 3
    during, outside = result.summary["cpu_s"], result.summary["cpu_outside_s"]
    assert during["proxy"] > 0
    for role in ("server", "meta"):
        assert during[role] + outside[role] > 0  # few queries may cost less than the kernel's tick


def test_resolvers_are_asked_over_tls(tmp_path: Path, world: Path, trace: Path) -> None:
    resolvers = ["bind", "unbound", "knot-resolver"]
    tls = {"replay__transport": "tls", "topology__clients": 3}
    result = play(tmp_path, world, trace, hierarchy__resolver=resolvers, **tls)
    assert result.status == 0, result.said
    assert [one.rcode() for one in result.answers()] == RCODES
    assert result.summary["transport"]["tls"] == len(ASKS)
    assert result.summary["leaked_packets"] == 0
    refused = play(tmp_path, world, trace, hierarchy__resolver="pdns-recursor", **tls)
    assert refused.status == 2
    assert "PowerDNS Recursor serves no DNS over TLS; use another server or transport" in refused.said


@pytest.mark.parametrize(
    "resolver",
    ["bind", *(slow(one) for one in ("unbound", "knot-resolver"))],
)
def test_a_warm_cache_asks_nobody(tmp_path: Path, world: Path, trace: Path, resolver: str) -> None:
    """What the resolver asks for itself has ended before the replay begins. Rules change what it is asked."""
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nkind = "name"\nprefix = "x"\n', encoding="ascii")
    warm = {"hierarchy__cache": "warm", "mutate__rules": rules}
    result = play(tmp_path, world, trace, hierarchy__resolver=resolver, **warm)
    assert result.status == 0, result.said
    assert result.summary["resolver"]["upstream_queries"] <= 1  # it may ask for itself at any time
    # unbound now and then puts an answer together again from records in its cache, and counts a recursion
    assert result.summary["resolver"]["cache_hit_share"] >= (0.8 if resolver == "unbound" else 0.9)


@pytest.mark.parametrize("data_path", ["nft", slow("tun")])
def test_an_address_without_zones_is_counted_and_named(tmp_path: Path, world: Path, data_path: str) -> None:
    trace = write_trace(tmp_path / "lost.tsv", [Ask("www.example.com."), Ask("www.elsewhere.com.")])
    result = play(
        tmp_path, world, trace, hierarchy__data_path=data_path, hierarchy__resolver="unbound",
        replay__timeout_s=1,
    )  # fmt: skip
    found = result.summary["resolver"]
    assert found["unmapped_packets"] > 0
    assert [one["address"] for one in found["unmapped"]] == ["203.0.115.9"]
    assert found["data_path"]["lost_share"] == 0
    assert result.summary["leaked_packets"] == 0
    assert "203.0.115.9" in result.said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "rcode"),
    [("colored", dns.rcode.NOERROR), ("paper", dns.rcode.SERVFAIL), ("separate", dns.rcode.SERVFAIL)],
)
def test_a_question_that_no_delegation_leads_to(tmp_path: Path, form: str, rcode: int) -> None:
    """A forwarder sends it to an address without the zone: only a colored view answers, out of another's."""
    other = f"other.com. {SOA}\nother.com. 3600 IN NS ns.other.com.\nns.other.com. 3600 IN A 203.0.116.1\n"
    zones = write_world(tmp_path / "zones", {"other.com.": other})
    table = json.loads((zones / "zones.json").read_text())
    table["zones"][-1]["addresses"] = ["203.0.116.1"]
    (zones / "zones.json").write_text(json.dumps(table))
    lines = tmp_path / "forward.conf"
    lines.write_text(f'forward-zone:\n    name: "other.com"\n    forward-addr: {SLD}\n')
    trace = write_trace(tmp_path / "one.tsv", [Ask("ns.other.com."), Ask("www.example.com.")])
    result = play(
        tmp_path, zones, trace, hierarchy__form=form, hierarchy__resolver="unbound",
        hierarchy__resolver_config=lines, hierarchy__max_servfail_percent=100,
    )  # fmt: skip
    assert result.status == 0, result.said
    assert [one.rcode() for one in result.answers()] == [rcode, dns.rcode.NOERROR]


@pytest.mark.parametrize(("data_path", "mode"), [slow("tun", "ports"), ("nft", "addresses")])
def test_the_guard_catches_a_leak(tmp_path: Path, world: Path, data_path: str, mode: str) -> None:
    """A resolver that forwards over TLS to the outside goes past the data path; the guard stands there, also
    where the way out is that to the client.
    """
    lines = tmp_path / "forward.conf"
    lines.write_text(
        'forward-zone:\n    name: "example.com"\n    forward-tls-upstream: yes\n'
        "    forward-addr: 9.9.9.9@853#dns.example\n",
        encoding="ascii",
    )
    trace = write_trace(tmp_path / "leak.tsv", [Ask("www.example.com.")])
    result = play(
        tmp_path, world, trace, hierarchy__data_path=data_path, hierarchy__resolver="unbound",
        hierarchy__resolver_config=lines, replay__timeout_s=1, replay__source_mode=mode,
    )  # fmt: skip
    assert result.status == 1
    assert result.summary["leaked_packets"] > 0
    assert not result.summary["clean"]
    reasons = " ".join(result.summary["unclean_because"])
    assert "packets of server to ports 53, 853 or 443 tried to leave the experiment" in reasons
    assert "dns_ports" in reasons


@pytest.mark.slow
def test_a_guard_that_was_removed_is_an_unclean_run(tmp_path: Path, world: Path) -> None:
    asks = [Ask(f"n{number}.w.example.com.") for number in range(150)]
    trace = write_trace(tmp_path / "long.tsv", asks, gap_s=0.02)
    process = start(tmp_path, settings_of(world, trace, hierarchy__data_path="tun"))
    wait_for(lambda: b"sent " in (tmp_path / "said").read_bytes(), "queries", 60)
    meta = _process_of(process.pid, "reprise-sampler", "meta1.csv")
    nft = ["nft", "delete", "table", "netdev", nftables.GUARD]
    subprocess.run([programs.packaged("nsenter"), "-t", str(meta), "-n", *nft], check=True)
    result = finish(tmp_path, process)
    assert result.summary["unclean_because"] == ["the guard of meta1 could not be read"]
    assert result.status == 1


def test_a_killed_proxy_is_started_again(tmp_path: Path, world: Path) -> None:
    asks = [Ask(f"n{number}.w.example.com.") for number in range(150)]
    trace = write_trace(tmp_path / "long.tsv", asks, gap_s=0.02)
    settings = settings_of(world, trace, hierarchy__data_path="tun", replay__timeout_s=20)
    process = start(tmp_path, settings)
    wait_for(lambda: _rewritten(tmp_path) > 20, "packets through the proxy", 60)
    os.kill(_process_of(process.pid, "reprise-proxy", "proxy-server-"), signal.SIGKILL)
    result = finish(tmp_path, process)
    assert result.status == 1
    reasons = " ".join(result.summary["unclean_because"])
    assert "proxy-server died during the run (signal SIGKILL)" in reasons
    assert "was started again" in reasons
    assert result.summary["queries"]["answered"] >= len(asks) - 5
    assert result.summary["resolver"]["upstream_queries"] > 100


@pytest.mark.parametrize(
    ("device", "data_path"), [("reprise0", "tun"), slow("meta1", "tun"), slow("meta1", "nft")]
)
def test_a_data_path_that_breaks_is_the_first_reason(
    tmp_path: Path, world: Path, device: str, data_path: str
) -> None:
    """A device of the resolver's host goes down in the middle: what is asked then comes to nobody."""
    asks = [Ask(f"n{number}.w.example.com.") for number in range(200)]
    trace = write_trace(tmp_path / "long.tsv", asks, gap_s=0.015)
    settings = settings_of(world, trace, hierarchy__data_path=data_path, replay__timeout_s=1)
    process = start(tmp_path, settings)
    wait_for(lambda: b"sent " in (tmp_path / "said").read_bytes(), "queries", 60)
    resolver = _process_of(process.pid, "reprise-sampler", "server.csv")
    ip = [programs.packaged("ip"), "link", "set", "dev", device, "down"]
    subprocess.run([programs.packaged("nsenter"), "-t", str(resolver), "-n", *ip], check=True)
    result = finish(tmp_path, process)
    assert result.status == 1
    reasons = result.summary["unclean_because"]
    assert reasons[0] == f"link {device} of server was taken down during the replay"
    assert f"the run is not clean: {reasons[0]}; " in result.said
    ends, path = result.summary["queries"], result.summary["resolver"]["data_path"]
    assert ends["answered"] - result.summary["rcode"].get("SERVFAIL", 0) < len(asks)
    if (device, data_path) == ("meta1", "tun"):
        assert path["lost_share"] > 0.01
        assert any(reason.startswith("the data path is broken: ") for reason in reasons)
        assert re.search(r"^lost on the data path +[\d.]+ %$", result.said, re.MULTILINE)
    else:  # the resolver cannot send at all
        assert any("answers were SERVFAIL" in reason for reason in reasons)
        assert re.search(r"^SERVFAIL, of the answers +[\d.]+ %$", result.said, re.MULTILINE)


def _rewritten(folder: Path) -> int:
    """Datagrams that the resolver's proxy has handled so far, by its statistics file."""
    try:
        path = next((folder / "results").glob("*/proxy-server-0.json"))
        return int(json.loads(path.read_text())["packets"]["rewritten"])
    except (StopIteration, ValueError, OSError):
        return 0


def _process_of(run: int, program: str, file: str) -> int:
    """A program below a run's command, by what stands in its command line."""
    for pid in below(run):
        words = words_of(pid)
        if f"/{program} " in words and file in words:
            return pid
    raise AssertionError(f"{program} does not run")


def test_other_names_sources_and_times_are_no_fault(tmp_path: Path) -> None:
    """Folders may have any names. Answers go to the trace's own addresses, out of which nothing else may
    come. Times other than the trace's are warned of.
    """
    folder = tmp_path / 'it\'s a "$HOME"; `exit 1` \\n'
    folder.mkdir()
    zones = write_world(folder / "zones")
    trace = write_trace(folder / "trace.tsv", ASKS)
    others = {"replay__source_mode": "addresses", "replay__speed": 2}
    result = play(folder, zones, trace, hierarchy__data_path="tun", **others)
    assert result.status == 0, result.said
    assert result.json("zones/plan.json")["zones"] == 3
    assert result.summary["queries"]["answered"] == len(ASKS)
    assert result.summary["leaked_packets"] == 0
    assert "warning: the trace's times are changed and TTLs are not" in result.said
    assert any("TTLs" in one for one in result.summary["warnings"])


@pytest.mark.parametrize(
    ("resolver", "lines", "wrong"),
    [
        ("bind", "max-cache-size 8m; recursive-clients 900;\n", "no-such-option 1;\n"),
        slow("unbound", "", "server:\n    no-such-option: 1\n"),  # good lines: see the guard's tests
        slow("knot-resolver", "", "no_such_thing.call()\n"),
        slow("knot-resolver", "policy.add(policy.all(policy.QTRACE))\n", "no_such_thing.call()\n"),
    ],
)  # fmt: skip
def test_a_resolver_takes_the_users_lines(
    tmp_path: Path, world: Path, resolver: str, lines: str, wrong: str
) -> None:
    trace = write_trace(tmp_path / "one.tsv", [Ask("www.example.com.")])
    own = tmp_path / "own.conf"
    keys: dict[str, object] = {"hierarchy__resolver": resolver, "hierarchy__resolver_config": own}
    if lines:
        own.write_text(lines)
        result = play(tmp_path, world, trace, **keys)
        assert result.status == 0, result.said
    own.write_text(wrong)
    result = play(tmp_path, world, trace, **keys)
    assert result.status == 1
    assert "correct hierarchy.resolver_config, see " in result.said
    assert re.search(r"hierarchy\.resolver_config:[12]: .*no.such", result.said), result.said


def test_bad_zones_are_told_and_may_be_left_out(tmp_path: Path) -> None:
    bad = {"broken.com.": "broken.com. 3600 IN SOA only two\n"}
    zones = write_world(tmp_path / "zones", bad)
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com.")])
    result = play(tmp_path, zones, trace)
    assert result.status == 1
    assert result.folder is None
    assert "broken.com" in result.said
    assert "skip_bad" in result.said or "--skip-bad" in result.said
    # Of ten queries upstream, one that is under way when both ends are read is over 1 %.
    result = play(tmp_path, zones, trace, hierarchy__skip_bad=True, hierarchy__max_lost_percent=100)
    assert result.status == 0, result.said
    assert [one["file"] for one in result.json("zones/plan.json")["failed"]] == ["broken.com.zone"]
    assert "warning: the zone plan has 1 zones that do not load: broken.com" in result.said
    assert any("broken.com" in one for one in result.summary["warnings"])


@pytest.fixture(scope="module")
def old_world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Signed for one month, years ago."""
    zones = tmp_path_factory.mktemp("old") / "zones"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signer, "VALID", ("-s", "20180101000000", "-e", "20180201000000"))
        cli_world.write(cli_world.make(Settings(zones=8, signed=True)), zones)
    return zones


def test_expired_signatures_are_told_before_the_run(tmp_path: Path, old_world: Path) -> None:
    trace = write_trace(tmp_path / "one.tsv", [Ask(".", "SOA", do="1")])
    result = play(tmp_path, old_world, trace)
    assert result.status == 1
    assert result.folder is None
    assert "have signatures that are no longer valid: . (until 2018-02-01 00:00 UTC)" in result.said


@pytest.mark.parametrize(
    ("how", "resolver", "rcode"),
    [
        ("accept", "bind", dns.rcode.NOERROR),
        slow("accept", "unbound", dns.rcode.NOERROR),
        slow("keep", "unbound", dns.rcode.SERVFAIL),
    ],
)
def test_expired_signatures_may_be_taken(
    tmp_path: Path, old_world: Path, how: str, resolver: str, rcode: int
) -> None:
    trace = write_trace(tmp_path / "one.tsv", [Ask(".", "SOA", do="1")])
    keys = {"hierarchy__expired_signatures": how, "hierarchy__resolver": resolver}
    result = play(tmp_path, old_world, trace, **keys, hierarchy__max_servfail_percent=100)
    assert result.status == 0, result.said
    (answer,) = result.answers()
    assert answer.rcode() == rcode
    assert bool(answer.flags & dns.flags.AD) == (how == "accept")


def test_round_trips_make_answers_wait(tmp_path: Path, world: Path) -> None:
    trace = write_trace(tmp_path / "one.tsv", [Ask("www.example.com.")])
    result = play(tmp_path, world, trace, hierarchy__resolver="unbound", hierarchy__rtt__rtt_ms=30)
    assert result.status == 0, result.said
    assert result.summary["latency_us"]["median"] >= 3 * 30_000  # root, com, example.com


@pytest.mark.parametrize(
    ("engine", "form"), [("bind", "colored"), ("bind", "paper"), ("bind", "separate"), ("nsd", "colored")]
)
def test_planned_configurations_are_whole(tmp_path: Path, world: Path, engine: str, form: str) -> None:
    """The servers' and the kernel's own checkers take what `reprise zones plan` writes, for two instances."""
    out = tmp_path / "plan"
    options = ["--engine", engine, "--form", form, "--instances", "2", "--meta4", "10.9.0.0/16"]
    done = command.run("zones", "plan", str(world), "-o", str(out), *options, cwd=programs.ROOT)
    assert done.returncode == 0, done.stderr
    checkers = {
        "named-*.conf": [programs.packaged("named-checkconf"), "-z"],
        "nsd-*.conf": [programs.packaged("nsd-checkconf")],
        "nft-*.nft": [programs.packaged("nft"), "-c", "-f"],
    }
    checked = Counter[str]()
    for pattern, checker in checkers.items():
        for path in sorted(out.glob(pattern)):
            done = subprocess.run([*checker, str(path)], capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{path}: {done.stdout}{done.stderr}"
            checked[pattern] += 1
    assert checked["named-*.conf"] == (2 if engine == "bind" else 0)
    assert checked["nsd-*.conf"] == (0 if engine == "bind" else 3)
    assert checked["nft-*.nft"] == 3
    assert "addr replace 10.9.0." in (out / "meta-1.ip").read_text()


@pytest.mark.parametrize("data_path", ["nft", slow("tun")])
def test_faults_upstream_are_no_fault_of_the_data_path(world: Path, tmp_path: Path, data_path: str) -> None:
    """Each query is for a name of its own; the resolver asks again for what is lost, in both directions."""
    trace = write_trace(tmp_path / "t.tsv", [Ask(f"n{number}.w.example.com.") for number in range(200)])
    fault = "fault=[{at = 0.3, for = 1.5, target = 'upstream', loss = 0.3}]"
    tmp_path.chmod(0o755)
    settings = [*settings_of(world, trace, hierarchy__data_path=data_path), fault]
    result = finish(tmp_path, start(tmp_path, settings))
    assert result.status == 0, result.said
    summary = result.summary
    assert summary["clean"], summary["unclean_because"]
    (found,) = summary["faults"]
    assert found["packets"] > 20
    assert summary["queries"]["answered"] > 150
    assert summary["resolver"]["data_path"]["lost_share"] < 0.01
