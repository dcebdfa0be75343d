"""The mutator in front of a replay: what each rule does is seen in a capture at the server."""

import ipaddress
import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dns.edns
import dns.flags
import dns.message
import dns.opcode
import dns.rdatatype
import numpy as np
import pytest

from cli import programs
from cli.plan import network
from report.rqfile import TRANSPORTS
from tests.bed import MakeBed, progress, wait_for
from tests.slow import slow
from tests.streams import BASE, SECOND, Capture, Flow, Play, start_nsd

pytestmark = pytest.mark.netns

HEADER = "#reprise-text 1\ntime\tsource\tport\ttransport\tid\tflags\tname\ttype\tedns\tdo\n"
EACH = 10  # sources of a group, and queries of each


@dataclass(frozen=True)
class Seen:
    """One query as the server's host saw it."""

    time: int
    source: str
    port: int
    tcp: bool
    wire: bytes

    @property
    def message(self) -> dns.message.Message:
        return dns.message.from_wire(self.wire)

    @property
    def name(self) -> str:
        return self.message.question[0].name.to_text()


def row(time_ns: int, source: str, port: int, ident: int, name: str, **more: str) -> str:
    """A row of the text form."""
    columns = {"transport": "udp", "flags": "rd", "type": "A", "edns": "-", "do": "-"} | more
    return (
        f"{time_ns // SECOND}.{time_ns % SECOND:09}\t{source}\t{port}\t{columns['transport']}\t{ident}\t"
        f"{columns['flags']}\t{name}\t{columns['type']}\t{columns['edns']}\t{columns['do']}\n"
    )


def group_rows(groups: int, gap_ns: int) -> Iterator[str]:
    """EACH sources in each group of addresses 203.0.GROUP.0/24, each with EACH queries; every second query
    has EDNS with a size of 4096 and DO. Names are q.N.com with N the query's number in its group.
    """
    time = BASE
    for turn in range(EACH):
        for source in range(EACH):
            for group in range(groups):
                number = turn * EACH + source
                edns = {"edns": "4096", "do": "1"} if number % 2 else {}
                address = f"203.0.{group}.{source + 1}"
                yield row(time, address, 2000 + turn, number, f"q.{number}.com.", **edns)
                time += gap_ns


def mutate(*words: str | Path) -> None:
    argv = [programs.own("reprise-mutator"), "mutate", *map(str, words)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr.decode()


def seen_by_server(capture: Capture) -> list[Seen]:
    """UDP and TCP queries in order of time; of TCP connections the client's messages, at the SYN's time."""
    found = [
        Seen(one.time, one.source, one.source_port, False, one.payload)
        for one in capture.packets()
        if one.is_query and one.destination_port == 53
    ]
    found += [
        Seen(flow.packets[0].time, *flow.client, True, wire)
        for flow in capture.flows()
        for wire in flow.queries()
    ]
    return sorted(found, key=lambda one: one.time)


# --- one replay, a rule for each group of sources ---------------------------------------------------------

Check = Callable[[list[Seen]], bool]


def _all(check: Callable[[Seen], bool]) -> Check:
    return lambda found: len(found) == EACH * EACH and all(check(one) for one in found)


def _options(one: Seen) -> dict[int, bytes]:
    return {int(option.otype): option.to_wire() or b"" for option in one.message.options}


def _rich_edns(one: Seen) -> bool:
    options = _options(one)
    return (
        one.message.payload == 4000
        and options[3] == b""
        and len(options[10]) == 8
        and options[8] == bytes.fromhex("00011800c00002")
        and len(one.wire) % 128 == 0
    )


def _half_types(found: list[Seen]) -> bool:
    types = Counter(dns.rdatatype.to_text(one.message.question[0].rdtype) for one in found)
    return set(types) == {"A", "AAAA"} and abs(types["A"] - 50) <= 8


def _every_name_once(found: list[Seen]) -> bool:
    names = {one.name for one in found}
    return len(names) == len(found) == 100 and all(name.startswith("u") for name in names)


def _mixed_case(found: list[Seen]) -> bool:
    names = "".join(one.name for one in found)
    upper = sum(char.isupper() for char in names)
    return len(found) == 100 and 0.4 < upper / sum(char.isalpha() for char in names) < 0.6


def _copies(found: list[Seen]) -> bool:
    """Three times the sources; every name from three of them."""
    per_name = Counter(one.name for one in found)
    return (
        len(found) == 3 * EACH * EACH
        and set(per_name.values()) == {3}
        and len({one.source for one in found}) == 3 * EACH
    )


def _within(prefix: str) -> Check:
    net = ipaddress.ip_network(prefix)

    def check(found: list[Seen]) -> bool:
        sources = {one.source for one in found}
        return (
            len(found) == EACH * EACH
            and len(sources) == EACH
            and all(ipaddress.ip_address(one) in net for one in sources)
        )

    return check


def _anonymous(found: list[Seen]) -> bool:
    """The sources share a /28 as before, but another one."""
    nets = {str(ipaddress.ip_network(f"{one.source}/28", strict=False)) for one in found}
    return len(found) == 100 and len(nets) == 1 and nets != {"203.0.14.0/28"}


KEY = bytes(range(32)).hex()

# Options of the rule (its group is added as where.source), and what the group's queries must be.
RULES: list[tuple[tuple[str, str], Check]] = [
    (("--transport", "tcp"), _all(lambda one: one.tcp)),
    (("--transport", "stateless-tcp"), _all(lambda one: one.tcp)),
    (("--edns", "do=on"), _all(lambda one: bool(one.message.ednsflags & dns.flags.DO))),
    (("--edns", "size=4000,nsid=on,cookie=random,ecs=192.0.2.0/24,padding=128"), _all(_rich_edns)),
    (("--edns", "off"), _all(lambda one: one.message.edns == -1)),
    (
        ("--header", "set=-rd,cd"),
        _all(lambda one: one.message.flags & (dns.flags.RD | dns.flags.CD) == dns.flags.CD),
    ),
    (("--header", "opcode=STATUS"), _all(lambda one: one.message.opcode() == dns.opcode.STATUS)),
    (("--name", "unique=u"), _every_name_once),
    (("--name", "suffix=example."), _all(lambda one: one.name.endswith(".com.example."))),
    (("--name", "prefix=www"), _all(lambda one: one.name.startswith("www.q."))),
    (("--name", "zone=com.,org."), _all(lambda one: one.name.endswith(".org."))),
    (("--name", "case=0x20"), _mixed_case),
    (("--name", "fixed=fixed.test."), _all(lambda one: one.name == "fixed.test.")),
    (("--type", "A:50,AAAA:50"), _half_types),
    (("--anonymize", f"key={KEY}"), _anonymous),
    (("--remap", "203.1.0.0/16"), _within("203.1.0.0/16")),
    (("--drop", "share=30"), lambda found: len(found) == 70),
    (("--duplicate", "copies=3,prefix=203.2.0.0/16"), _copies),
]


def test_every_rule_is_seen_at_the_server(make_bed: MakeBed, tmp_path: Path) -> None:
    trace = tmp_path / "groups.tsv"
    trace.write_text(HEADER + "".join(group_rows(len(RULES), 500_000)))
    words: list[str] = []
    for group, ((option, value), _) in enumerate(RULES):
        words += [option, f"{value},where.source=203.0.{group}.0/24"]
    mutate(trace, "-o", tmp_path / "changed.rps", *words, "--report", tmp_path / "report.json")
    bed = make_bed("addresses")
    start_nsd(bed)
    capture = Capture(bed)
    Play(bed, tmp_path / "changed.rps", "--source-mode", "addresses").ends()
    found = seen_by_server(capture)
    by_group: dict[int, list[Seen]] = {}
    moved = {14: "anonymous", 15: "203.1.", 17: "203.2."}
    for one in found:
        parts = one.source.split(".")
        if one.source.startswith("203.0."):
            group = int(parts[2])
        else:
            group = next((at for at, start in moved.items() if one.source.startswith(start)), 14)
        by_group.setdefault(group, []).append(one)
    wrong = [RULES[group][0] for group in range(len(RULES)) if not RULES[group][1](by_group.get(group, []))]
    assert not wrong
    report = json.loads((tmp_path / "report.json").read_text())
    assert [rule["matched"] for rule in report["rules"]] == [100] * 16 + [30, 100]


def test_the_command_line_wins_over_a_rule_file(tmp_path: Path) -> None:
    trace = tmp_path / "groups.tsv"
    trace.write_text(HEADER + "".join(group_rows(4, 500_000)))
    rules = tmp_path / "rules.toml"

    def changed(head: str, *words: str) -> bytes:
        rules.write_text(f'{head}\n[[rule]]\nkind = "drop"\nshare = 50\n')
        mutate(trace, "-o", tmp_path / "out.rps", *words, "--rules", rules)
        return (tmp_path / "out.rps").read_bytes()

    assert changed("seed = 1") == changed("", "--seed", "1") != changed("", "--seed", "2")
    assert changed("seed = 1", "--seed", "2") == changed("", "--seed", "2")


# --- times ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "usual_ms", "even"),
    [
        (("--speed", "2"), 2.0, True),
        slow(("--gap", "5"), 5.0, True),
        slow(("--profile", "0:500,1:500"), 2.0, True),
        (("--poisson", "250"), 4.0 * np.log(2), False),
        slow(("--jitter", "3000"), 4.0, False),
    ],
)
def test_times_are_the_rules(
    make_bed: MakeBed, tmp_path: Path, rule: tuple[str, str], usual_ms: float, even: bool
) -> None:
    """Six hundred queries, 4 ms apart: the median gap when they are due, whether the gaps are alike, and that
    the server sees most of them as far apart.
    """
    trace = tmp_path / "even.tsv"
    rows = (row(BASE + i * 4_000_000, "203.0.0.1", 2000 + i, i, f"{i}.com.") for i in range(600))
    trace.write_text(HEADER + "".join(rows))
    changed = tmp_path / "changed.rps"
    mutate(trace, "-o", changed, *rule)
    bed = make_bed("addresses")
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, changed, "--source-mode", "addresses")
    play.answers_all()
    due = np.array(play.records()["due_ns"], dtype=np.int64)
    first, median, third = np.percentile(np.diff(due) / 1e6, [25, 50, 75])
    assert median == pytest.approx(usual_ms, rel=0.01 if even else 0.3)
    assert (third - first < 0.01 * usual_ms) == even
    seen = np.array([one.time for one in seen_by_server(capture)], dtype=np.int64)
    assert len(seen) == len(due) == 600
    late = seen - due - np.min(seen - due)  # against the one that was least late
    assert np.median(late) < 0.25 * (due[-1] - due[0])  # at twice the speed, or half of it, it is a half


def test_an_attack_is_laid_over(make_bed: MakeBed, tmp_path: Path) -> None:
    trace = tmp_path / "calm.tsv"
    rows = (row(BASE + i * 10_000_000, "203.0.0.1", 2000 + i, i, f"{i}.com.") for i in range(200))
    trace.write_text(HEADER + "".join(rows))
    attack = "rate=1000,at=0.5,for=1,sources=50,prefix=203.9.0.0/24,name=victim.example.,poisson=off"
    mutate(trace, "-o", tmp_path / "attacked.rps", "--attack", attack)
    bed = make_bed("addresses")
    start_nsd(bed)
    capture = Capture(bed)
    play = Play(bed, tmp_path / "attacked.rps", "--source-mode", "addresses")
    play.answers_all()
    found = seen_by_server(capture)
    flood = [one for one in found if one.source.startswith("203.9.")]
    assert len(found) - len(flood) == 200
    assert len(flood) == pytest.approx(1000, abs=1)
    assert len({one.source for one in flood}) == 50
    due_s = np.sort(play.records()["due_ns"] - play.records()["due_ns"].min()) / SECOND
    during = (due_s >= 0.5) & (due_s <= 1.5)
    assert during.sum() == pytest.approx(1100, abs=3)  # with those of the trace
    assert all(one.name.endswith(".victim.example.") for one in flood)
    assert len({one.name for one in flood}) > 990


# --- connections ------------------------------------------------------------------------------------------


def _idle_s(flow: Flow) -> float:
    """From the client's last query to its FIN."""
    end = flow.end()
    assert end is not None
    assert flow.from_client(end)
    return (end.time - flow.sent()[-1].time) / SECOND


def test_sources_keep_connections_as_their_class_says(make_bed: MakeBed, tmp_path: Path) -> None:
    """Two sources of class 1 s, one without a class: it keeps its connection to the end."""
    trace = tmp_path / "t.tsv"
    rows = [row(BASE + i * 1_000_000, f"203.0.{i}.1", 2000, i, f"{i}.com.") for i in range(3)]
    rows.append(row(BASE + 3 * SECOND, "203.0.9.1", 2000, 9, "last.com."))
    trace.write_text(HEADER + "".join(rows))
    words = ("--transport", "tcp", "--class", "idle=1,rtt=20,where.source=203.0.0.0/23")
    mutate(trace, "-o", tmp_path / "changed.tsv", *words)
    assert [line.split("\t")[17:19] for line in (tmp_path / "changed.tsv").read_text().splitlines()[2:]] == [
        ["20", "1"], ["20", "1"], ["-", "-"], ["-", "-"],
    ]  # fmt: skip
    bed = make_bed("addresses")
    start_nsd(bed)
    capture = Capture(bed)
    Play(bed, tmp_path / "changed.tsv", "--source-mode", "addresses").answers_all()
    flows = {flow.client[0]: flow for flow in capture.flows()}
    assert len(flows) == 4
    for source in ("203.0.0.1", "203.0.1.1"):
        assert 0.9 < _idle_s(flows[source]) < 2.5  # on a busy machine too
    assert _idle_s(flows["203.0.2.1"]) > 2.5


# --- live -------------------------------------------------------------------------------------------------


def test_the_mutator_runs_live_in_front_of_a_replay(make_bed: MakeBed, tmp_path: Path) -> None:
    """mutate - | controller -: queries are played while the trace's end has not been written yet."""
    bed = make_bed()
    start_nsd(bed)
    capture = Capture(bed)
    bed.start_distributor(1, queriers=1)
    fifo = tmp_path / "played"
    os.mkfifo(fifo)
    log = (tmp_path / "mutator.log").open("wb")
    mutator = subprocess.Popen(
        [programs.own("reprise-mutator"), "mutate", "-", "-o", fifo, "--to", "stream", "--edns", "do=on"],
        stdin=subprocess.PIPE, stderr=log,
    )  # fmt: skip
    assert mutator.stdin is not None
    controller = bed.start_controller(
        fifo, extra=("--window-s", "0.1", "--max-lateness-s", "60", "--late-ms", "0")
    )  # it begins with a whole window, and the end of the trace is late
    rows = [row(BASE + i * 1_000_000, f"203.0.0.{i % 9 + 1}", 2000, i, f"{i}.com.") for i in range(300)]
    mutator.stdin.write((HEADER + "".join(rows[:200])).encode())
    mutator.stdin.flush()
    wait_for(lambda: progress(controller)["answered"] >= 200, "200 answers before the end of the trace")
    mutator.stdin.write("".join(rows[200:]).encode())
    mutator.stdin.close()
    assert mutator.wait(30) == 0, (tmp_path / "mutator.log").read_text()
    assert controller.wait(60) == 0, controller.text()
    assert bed.account()["queries"]["answered"] == 300
    found = seen_by_server(capture)
    assert len(found) == 300
    assert all(one.message.ednsflags & dns.flags.DO for one in found)


# --- the real minute --------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [("--transport", "tcp"), ("--edns", "do=on")])
def test_the_real_minute_changed(
    make_bed: MakeBed, real: tuple[Path, Path], tmp_path: Path, rule: tuple[str, str]
) -> None:
    """Its first seconds, all over TCP and all with DO, played and seen at the server."""
    trace, _ = real
    until = ("--keep", "where.until=4")
    mutate(trace, "-o", tmp_path / "plain.tsv", *until)
    mutate(trace, "-o", tmp_path / "changed.rps", *until, *rule)
    plain = [line.split("\t") for line in (tmp_path / "plain.tsv").read_text().splitlines()[2:]]
    count = sum(line[7] != "close" for line in plain)
    assert count > 500
    bed = make_bed("mapped")
    start_nsd(bed)
    capture = Capture(bed)
    prefixes = tuple(word for one in network.source_prefixes(1, 1) for word in ("--source-prefix", one))
    play = Play(bed, tmp_path / "changed.rps", "--source-mode", "mapped", distributor=prefixes)
    queries = play.ends()
    assert queries["read"] == count
    assert queries["answered"] > 0.9 * count
    records = play.records()
    if rule[0] == "--transport":
        assert set(records["transport"].tolist()) == {TRANSPORTS.index("tcp")}
        assert not any(one.is_query and one.destination_port == 53 for one in capture.packets())
    else:
        found = [one for one in seen_by_server(capture) if len(one.wire) > 12]
        assert len(found) > 0.9 * count
        assert all(one.message.ednsflags & dns.flags.DO for one in found)
