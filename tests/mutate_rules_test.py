"""Rules on the beginning of the real minute through the program, their outputs read by tshark and dnspython;
bad rules and their one-line messages; and every example of docs/rules.md.
"""

import ipaddress
import itertools
import json
import re
import subprocess
from collections import Counter, defaultdict
from dataclasses import dataclass
from pathlib import Path

import dns.edns
import dns.message
import pytest

from cli import programs
from tests.wire_view import Seen, view

KEY = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
RULES_PAGE = programs.ROOT / "docs" / "rules.md"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address


@dataclass(frozen=True)
class Done:
    status: int
    stderr: str
    rules: list[dict[str, int]]


def mutate(folder: Path, trace: Path, output: str, *rules: str) -> Done:
    report = folder / "report.json"
    argv = [programs.own("reprise-mutator"), "mutate", str(trace), "-o", str(folder / output)]
    done = subprocess.run(
        [*argv, "--report", str(report), *rules],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    rules_done = json.loads(report.read_text())["rules"] if done.returncode == 0 else []
    counts = [{key: one[key] for key in one.keys() - {"kind", "place"}} for one in rules_done]
    return Done(done.returncode, done.stderr, counts)


def changed(folder: Path, trace: Path, *rules: str) -> tuple[Done, tuple[Seen, ...]]:
    done = mutate(folder, trace, "out.pcap", *rules)
    assert done.status == 0, done.stderr
    return done, view(folder / "out.pcap").queries


Minute = tuple[Path, tuple[Seen, ...]]
PACKETS = "2000"  # of the real minute, over 5 s


@pytest.fixture(scope="session")
def minute(real: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Minute:
    """The real minute's first packets and their queries as tshark sees them."""
    short = tmp_path_factory.mktemp("minute") / "short.pcap"
    argv = [programs.packaged("tshark"), "-r", str(real[0]), "-c", PACKETS, "-w", str(short)]
    subprocess.run(argv, capture_output=True, check=True)
    return short, view(short).queries


def test_all_queries_over_tcp_are_a_connection_each(minute: Minute, tmp_path: Path) -> None:
    trace, before = minute
    done, after = changed(tmp_path, trace, "--transport", "tcp")
    assert {one.transport for one in after} == {"tcp"}
    assert Counter(one.message for one in after) == Counter(one.message for one in before)
    assert done.rules[0]["to_tcp"] == sum(one.transport == "udp" for one in before)
    assert [one.time_ns for one in after] == [one.time_ns for one in before]


def test_a_mix_of_transports_sticks_to_sources(minute: Minute, tmp_path: Path) -> None:
    _, after = changed(tmp_path, minute[0], "--transport", "udp:70,tcp:30")
    by_source = defaultdict(set)
    for one in after:
        by_source[one.source].add(one.transport)
    assert all(len(transports) == 1 for transports in by_source.values())
    over_tcp = sum(transports == {"tcp"} for transports in by_source.values())
    assert 0.25 < over_tcp / len(by_source) < 0.35


def test_keep_and_drop_are_complements(minute: Minute, tmp_path: Path) -> None:
    trace, before = minute
    kept, after = changed(tmp_path, trace, "--keep", "where.type=DS,DNSKEY,where.do=on")
    assert after == tuple(one for one in before if _asks_for(one, {"DS", "DNSKEY"}) and _dnssec_ok(one))
    dropped, rest = changed(tmp_path, trace, "--drop", "where.type=DS,DNSKEY,where.do=on")
    assert len(after) > 20
    assert sorted(after + rest) == list(before)
    assert kept.rules[0]["dropped"] == len(rest)
    assert dropped.rules[0]["dropped"] == len(after)


def _asks_for(one: Seen, types: set[str]) -> bool:
    question = _message(one).question[0]
    return dns.rdatatype.to_text(question.rdtype) in types


def _dnssec_ok(one: Seen) -> bool:
    return bool(_message(one).ednsflags & 0x8000)


def _message(one: Seen) -> dns.message.Message:
    return dns.message.from_wire(bytes.fromhex(one.message), ignore_trailing=True)


def test_a_share_of_queries_is_exact(minute: Minute, tmp_path: Path) -> None:
    trace, before = minute
    done, after = changed(tmp_path, trace, "--keep", "share=12.5")
    assert abs(len(after) - len(before) / 8) <= 1
    assert done.rules[0]["seen"] == len(before)
    _, again = changed(tmp_path, trace, "--keep", "share=12.5")
    assert again == after


def test_a_share_of_sources_takes_all_of_each(minute: Minute, tmp_path: Path) -> None:
    trace, before = minute
    _, after = changed(tmp_path, trace, "--keep", "share=25,by=source")
    sources = {one.source for one in after}
    assert after == tuple(one for one in before if one.source in sources)
    assert 0.2 < len(sources) / len({one.source for one in before}) < 0.3


def test_a_span_of_time_and_a_prefix(minute: Minute, tmp_path: Path) -> None:
    trace, before = minute
    _, after = changed(tmp_path, trace, "--keep", "where.from=2,where.until=5,where.source=::/0")
    start = before[0].time_ns
    assert after == tuple(
        one for one in before if 2_000_000_000 <= one.time_ns - start < 5_000_000_000 and ":" in one.source
    )


def test_anonymized_sources_keep_their_common_prefixes(minute: Minute, tmp_path: Path) -> None:
    trace, before = minute
    done, after = changed(tmp_path, trace, "--anonymize", KEY)
    assert [one.time_ns for one in after] == [one.time_ns for one in before]
    new_of = _new_sources(before, after)
    assert len(set(new_of.values())) == len(new_of)
    for family in (4, 6):
        old = sorted(address for address in new_of if address.version == family)
        for left, right in itertools.pairwise(old):
            assert _common_bits(left, right) == _common_bits(new_of[left], new_of[right])
    assert not {one.source for one in before} & {one.source for one in after}
    assert done.rules[0]["changed"] == len(before)
    assert KEY not in done.stderr


def _new_sources(before: tuple[Seen, ...], after: tuple[Seen, ...]) -> dict[Address, Address]:
    """Queries at the same time from the same port are the same."""
    later = {(one.time_ns, one.source_port): one for one in after}
    new_of: dict[Address, Address] = {}
    for one in before:
        new = ipaddress.ip_address(later[one.time_ns, one.source_port].source)
        assert new_of.setdefault(ipaddress.ip_address(one.source), new) == new
    return new_of


def _common_bits(left: Address, right: Address) -> int:
    return left.max_prefixlen - (int(left) ^ int(right)).bit_length()


def test_client_subnets_are_anonymized_with_the_same_key(minute: Minute, tmp_path: Path) -> None:
    rules = ("--edns", "ecs=192.0.2.0/24", "--anonymize", KEY)
    done, after = changed(tmp_path, minute[0], "--keep", "where.until=2", *rules)
    subnets = {
        (option.address, option.srclen)
        for one in after
        for option in _message(one).options
        if isinstance(option, dns.edns.ECSOption)
    }
    assert subnets == {("2.90.93.0", 24)}  # as Crypto-PAn's other implementations have it
    assert done.rules[2]["ecs"] == len(after)


def test_remapped_sources_are_one_to_one(minute: Minute, tmp_path: Path) -> None:
    trace, before = minute
    done, after = changed(tmp_path, trace, "--remap", "198.18.0.0/15,2001:db8:1::/48")
    new_of = _new_sources(before, after)
    assert len(set(new_of.values())) == len(new_of) == done.rules[0]["sources"]
    four, six = ipaddress.ip_network("198.18.0.0/15"), ipaddress.ip_network("2001:db8:1::/48")
    assert all(new in (four if old.version == 4 else six) for old, new in new_of.items())
    _, moved = changed(tmp_path, trace, "--remap", "198.18.0.0/15")
    assert all(ipaddress.ip_address(one.source) in four for one in moved)
    assert {one.destination for one in moved if one.destination == "192.0.2.53"}


def test_classes_stand_in_the_text_form(minute: Minute, tmp_path: Path) -> None:
    rules = ("--class", "rtt=20:50,80:50,idle=7", "--drop", "spoofed=on", "--transport", "tls")
    assert mutate(tmp_path, minute[0], "out.tsv", *rules).status == 0
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    columns = lines[1].split("\t")
    rows = [dict(zip(columns, line.split("\t"), strict=True)) for line in lines[2:]]
    queries = [row for row in rows if row["id"] != "close"]
    assert {row["transport"] for row in rows} == {"tls"}
    assert {row["idle"] for row in queries} == {"7"}
    classes = defaultdict(set)
    for row in queries:
        classes[row["source"]].add(row["rtt"])
    assert Counter(map(len, classes.values())) == {1: len(classes)}
    assert 0.4 < sum(found == {"20"} for found in classes.values()) / len(classes) < 0.6


def test_rules_of_a_file_and_of_options_are_the_same(minute: Minute, tmp_path: Path) -> None:
    text = (
        '[[rule]]\nkind = "transport"\nto = { udp = 60, tcp = 40 }\n\n'
        '[[rule]]\nkind = "keep"\nshare = 30\nwhere.type = ["A", "AAAA"]\n'
    )
    (tmp_path / "rules.toml").write_text(text)
    options = ("--transport", "udp:60,tcp:40", "--keep", "share=30,where.type=A,AAAA")
    assert mutate(tmp_path, minute[0], "file.rps", "--rules", "rules.toml").status == 0
    assert mutate(tmp_path, minute[0], "options.rps", *options).status == 0
    assert (tmp_path / "file.rps").read_bytes() == (tmp_path / "options.rps").read_bytes()
    assert mutate(tmp_path, minute[0], "seed.rps", "--seed", "2", *options).status == 0
    assert (tmp_path / "seed.rps").read_bytes() != (tmp_path / "options.rps").read_bytes()


# --- the page of all rules --------------------------------------------------------------------------------

_EXAMPLE = re.compile(r"```\n--(?P<kind>\S+) (?P<value>[^\n]*)\n```\n\n```toml\n(?P<toml>.*?)```", re.DOTALL)


def _examples() -> list[tuple[str, str, str]]:
    return [found.groups() for found in _EXAMPLE.finditer(RULES_PAGE.read_text())]  # type: ignore[misc]


@pytest.fixture(scope="session")
def two_seconds(minute: Minute, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("short")
    assert mutate(folder, minute[0], "short.rps", "--keep", "where.until=2").status == 0
    return folder / "short.rps"


def test_every_kind_has_an_example() -> None:
    shown = subprocess.run(
        [programs.own("reprise-mutator"), "mutate", "--help"], capture_output=True, text=True, check=True
    )
    kinds = set(re.findall(r"^ +--([\w-]+) KEY=VALUE", shown.stdout, re.MULTILINE))
    assert kinds
    assert kinds == {kind for kind, _, _ in _examples()}


@pytest.mark.parametrize(("kind", "value", "toml"), _examples())
def test_examples_do_as_written(tmp_path: Path, two_seconds: Path, kind: str, value: str, toml: str) -> None:
    (tmp_path / "secret.key").write_text(KEY + "\n")
    (tmp_path / "rules.toml").write_text(toml)
    by_option = mutate(tmp_path, two_seconds, "option.rps", f"--{kind}={value}")
    assert by_option.status == 0, by_option.stderr
    by_file = mutate(tmp_path, two_seconds, "file.rps", "--rules", "rules.toml")
    assert by_file.status == 0, by_file.stderr
    assert by_option.rules == by_file.rules
    assert (tmp_path / "option.rps").read_bytes() == (tmp_path / "file.rps").read_bytes()


def test_the_first_example_file_does_as_written(tmp_path: Path, two_seconds: Path) -> None:
    first = re.search(r"```toml\n(seed.*?)```", RULES_PAGE.read_text(), re.DOTALL)
    assert first
    (tmp_path / "rules.toml").write_text(first[1])
    assert mutate(tmp_path, two_seconds, "file.rps", "--rules", "rules.toml").status == 0
