"""What a harvest asks, and where it ends."""

import ipaddress
from pathlib import Path

import dns.name
import pytest

from cli import programs
from cli.errors import UsageError
from cli.zones import harvest_resolver
from cli.zones.harvest import Worklist
from report.errors import ReportError
from report.questions import distinct


def _name(text: str) -> dns.name.Name:
    return dns.name.from_text(text)


def test_questions_come_once_and_as_rules_change_them(tmp_path: Path) -> None:
    trace, rules = tmp_path / "t.tsv", tmp_path / "rules.toml"
    rows = ("A.example.\tA", "a.example.\tA", "b.example.\tA", "b.example.\tNS")
    lines = "".join(f"{at}\t192.0.2.1\t{row}\n" for at, row in enumerate(rows))
    trace.write_text(f"#reprise-text 1\ntime\tsource\tname\ttype\n{lines}", encoding="ascii")
    rules.write_text('[[rule]]\nkind = "drop"\nwhere.type = "NS"\n', encoding="ascii")
    mutator = programs.own("reprise-mutator")
    asked = [("a.example.", "IN", "A"), ("b.example.", "IN", "A"), ("b.example.", "IN", "NS")]
    assert list(distinct(mutator, [str(trace)])) == asked
    assert list(distinct(mutator, [str(trace), "--rules", str(rules)])) == asked[:2]
    with pytest.raises(ReportError, match="the trace cannot be read"):
        list(distinct(mutator, ["none"]))


def test_a_chain_of_name_servers_ends_at_the_depth() -> None:
    work = Worklist(limit=10_000, depth=3)
    work.add((_name("z0."), "NS"))
    asked = 0
    while work.queue:
        asked += 1
        name, kind = work.queue.popleft()
        if kind == "NS" and name.to_text().startswith("z"):
            work.follow((name, kind), [_name(f"z{int(name.to_text()[1:-1]) + 1}.")])
    assert {name.to_text() for name, _ in work.known} == {"z0.", "z1.", "z2.", "z3.", "."}
    assert work.left_out > 0
    assert asked == len(work.known)


def test_one_answer_does_not_lead_to_any_number_of_questions() -> None:
    work = Worklist(limit=500, depth=8)
    work.add((_name("a."), "NS"))
    work.follow((_name("a."), "NS"), [_name(f"n{number}.b.") for number in range(1_000)])
    assert len(work.known) < 64 * 4 + 10
    work.follow((_name("a."), "NS"), [_name(f"m{number}.{number}.c.") for number in range(1_000)])
    assert len(work.known) == 500


@pytest.mark.parametrize(
    ("address", "allowed", "asked"),
    [
        ("198.41.0.4", [], True),
        ("2001:503:ba3e::2:30", [], True),
        ("10.0.0.1", [], False),
        ("169.254.169.254", [], False),
        ("192.168.1.1", ["10.0.0.0/8"], False),
        ("10.0.0.1", ["10.0.0.0/8"], True),
        ("10.1.0.1", ["10.1.0.0/16"], True),
        ("10.2.0.1", ["10.1.0.0/16"], False),
        ("10.2.0.1", ["0.0.0.0/0"], True),
        ("::1", [], False),
        ("::ffff:10.0.0.1", [], False),
        ("64:ff9b::10.0.0.1", [], False),
        ("fd00::1", [], False),
        ("fd00::1", ["fd00::/8"], True),
        ("2001:db8::1", [], False),
        ("2002:a00:1::1", [], False),
    ],
)
def test_addresses_for_special_purposes_are_left_alone(address: str, allowed: list[str], asked: bool) -> None:
    found = {ipaddress.ip_network(prefix): how for prefix, how in harvest_resolver.prefixes_of(allowed)}
    around = [one for one in found if ipaddress.ip_address(address) in one]
    longest = max(around, key=lambda one: one.prefixlen, default=None)
    assert (longest is None or found[longest]) == asked


def test_all_private_addresses_that_python_knows_are_special() -> None:
    for text in (
        "100.64.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "fe80::1",
        "ff02::1",
    ):
        address = ipaddress.ip_address(text)
        assert any(address in one for one in harvest_resolver.SPECIAL), text


def test_a_bad_prefix_is_told() -> None:
    with pytest.raises(UsageError, match=r"--allow 10\.0\.0\.1/8"):
        harvest_resolver.prefixes_of(["10.0.0.1/8"])
