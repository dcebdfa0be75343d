"""Rules on messages, over the real minute: what dnspython and tshark read in the changed captures."""

import json
import subprocess
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.opcode
import dns.rdatatype
import pytest

from cli import programs
from tests import packets

STEP = 9  # dnspython reads every so many of the messages: all would take minutes
Query = tuple[str, bytes]  # source address, message


@dataclass(frozen=True)
class Run:
    """A mutation: its queries over UDP in order, and what the rules counted."""

    path: Path
    queries: list[Query]
    counts: list[dict[str, int]]

    def tshark(self, *fields: str) -> list[Counter[str]]:
        """For each field, how often it has which value in the queries over UDP."""
        argv = [programs.packaged("tshark"), "-n", "-r", str(self.path), "-Y", "dns && udp", "-T", "fields"]
        for field in fields:
            argv += ["-e", field]
        done = subprocess.run(argv, check=True, capture_output=True, text=True)
        rows = [line.split("\t") for line in done.stdout.splitlines()]
        return [Counter(row[at] for row in rows) for at in range(len(fields))]


def mutate(trace: Path, folder: Path, *rules: str) -> Run:
    out, report = folder / "out.pcap", folder / "report.json"
    argv = [programs.own("reprise-mutator"), "mutate", str(trace), "-o", str(out), "--report", str(report)]
    subprocess.run([*argv, *rules], check=True, capture_output=True, timeout=60)
    queries = [(one.source, one.payload) for one in packets.read(out) if one.is_query]
    found = [rule.get("counts", rule) for rule in json.loads(report.read_text())["rules"]]
    return Run(out, queries, found)


@pytest.fixture(scope="module")
def minute(real: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The minute's queries as they are."""
    return mutate(real[0], tmp_path_factory.mktemp("unchanged"))


Change = Callable[..., Run]


@pytest.fixture
def change(minute: Run, tmp_path: Path) -> Change:
    """The minute by some rules; as many queries as before, from the same sources, with the same ids."""

    def made(*rules: str) -> Run:
        run = mutate(minute.path, tmp_path, *rules)
        assert [(one[0], one[1][:2]) for one in run.queries] == [
            (one[0], one[1][:2]) for one in minute.queries
        ]
        return run

    return made


def read(data: bytes) -> dns.message.Message | None:
    try:
        return dns.message.from_wire(data)
    except dns.exception.DNSException:
        return None


def pairs(minute: Run, run: Run) -> list[tuple[dns.message.Message, dns.message.Message, str]]:
    """Some messages before and after, with their source; what was well formed still is."""
    found = []
    for (source, old), (_, new) in list(zip(minute.queries, run.queries, strict=True))[::STEP]:
        before = read(old)
        if before is None or not before.question:
            continue
        after = read(new)
        assert after is not None, (old, new)
        found.append((before, after, source))
    assert len(found) > 1000
    return found


def name_of(message: dns.message.Message) -> dns.name.Name:
    return message.question[0].name


def options(message: dns.message.Message) -> dict[int, bytes]:
    return {int(one.otype): one.to_wire() or b"" for one in message.options}


# --- edns ---------------------------------------------------------------------------------------------------


def test_edns_size_and_do(minute: Run, change: Change) -> None:
    run = change("--edns", "size=1400,do=on,version=0")
    assert all(
        (new.payload, new.edns) == (1400, 0) and new.ednsflags & dns.flags.DO
        for _, new, _ in pairs(minute, run)
    )
    sizes, do = run.tshark("dns.rr.udp_payload_size", "dns.resp.z.do")
    assert sizes["1400"] + run.counts[0]["malformed"] + 2 >= len(run.queries)
    assert set(sizes) <= {"1400", ""}
    assert set(do) <= {"1", "True", ""}


def test_edns_off_is_what_was_without_it(minute: Run, change: Change) -> None:
    run = change("--edns", "off")
    for old, new, _ in pairs(minute, run):
        old.use_edns(False)
        assert new.edns == -1
        assert new == old
    assert set(run.tshark("dns.rr.udp_payload_size")[0]) == {""}


def test_edns_for_a_share_is_exact(minute: Run, change: Change) -> None:
    run = change("--edns", "do=on,share=25,where.edns=off")
    matched = run.counts[0]["matched"]
    without = minute.tshark("dns.rr.udp_payload_size")[0][""]
    assert abs(matched - without / 4) <= 2 + 0.001 * without
    assert run.tshark("dns.rr.udp_payload_size")[0][""] == pytest.approx(without - matched, abs=3)


def test_cookies_are_one_a_source(minute: Run, change: Change) -> None:
    cookies: defaultdict[str, set[bytes]] = defaultdict(set)
    run = change("--edns", "cookie=random,nsid=on", "--edns", "nsid=off,where.edns=on")
    for _, new, source in pairs(minute, run):
        cookies[source].add(options(new)[dns.edns.OptionType.COOKIE])
        assert dns.edns.OptionType.NSID not in options(new)
    assert all(len(found) == 1 for found in cookies.values())
    assert len({next(iter(found)) for found in cookies.values()}) == len(cookies)


def test_subnets_are_drawn_from_those_given(minute: Run, change: Change) -> None:
    run = change("--edns", "ecs=192.0.2.0/24,2001:db8::/33")
    read_again = pairs(minute, run)
    drawn = Counter(
        one.to_text()
        for _, new, _ in read_again
        for one in new.options
        if isinstance(one, dns.edns.ECSOption)
    )
    assert set(drawn) == {"ECS 192.0.2.0/24 scope/0", "ECS 2001:db8::/33 scope/0"}
    assert drawn.total() == len(read_again)


def test_padding_fills_blocks_and_is_last(minute: Run, change: Change) -> None:
    run = change("--edns", "nsid=on,padding=128", "--edns", "padding=128,where.edns=on")
    assert run.counts[1]["changed"] == 0
    for _, new, _ in pairs(minute, run):
        assert new.options[-1].otype == dns.edns.OptionType.PADDING
    odd = sum(len(message) % 128 != 0 for _, message in run.queries)
    assert odd <= run.counts[0]["malformed"]


# --- header, type -------------------------------------------------------------------------------------------


def test_header_flags(minute: Run, change: Change) -> None:
    run = change("--header", "rd,-cd,ad", "--header", "opcode=STATUS,where.type=SOA")
    for old, new, _ in pairs(minute, run):
        wanted = (old.flags | dns.flags.RD | dns.flags.AD) & ~dns.flags.CD & ~0x7800
        assert new.flags & ~0x7800 == wanted
        if old.question[0].rdtype == dns.rdatatype.SOA:
            assert new.opcode() == dns.opcode.STATUS
    desired, disabled = run.tshark("dns.flags.recdesired", "dns.flags.checkdisable")
    assert desired.keys() <= {"1", "True"}
    assert disabled.keys() <= {"0", "False"}


def test_types_follow_their_mix(change: Change) -> None:
    run = change("--type", "A:50,AAAA:30,MX:20")
    (types,) = run.tshark("dns.qry.type")
    total = sum(types[kind] for kind in ("1", "28", "15"))
    assert total + 5 >= types.total()
    for kind, share in (("1", 0.5), ("28", 0.3), ("15", 0.2)):
        assert abs(types[kind] / total - share) <= 0.003  # of which TCP's are not seen here


# --- names --------------------------------------------------------------------------------------------------


def test_names_get_prefixes_suffixes_and_zones(minute: Run, change: Change) -> None:
    suffix = dns.name.from_text("lab.test.")
    run = change("--name", "prefix=pre", "--name", "suffix=lab.test")
    for old, new, _ in pairs(minute, run):
        if len(name_of(old).to_wire() or b"") > 240 or name_of(new) == name_of(old):
            continue
        assert name_of(new) == dns.name.Name([b"pre", *name_of(old).labels[:-1], *suffix.labels])
        assert new.question[0].rdtype == old.question[0].rdtype
    assert run.counts[0]["changed"] > 0.999 * run.counts[0]["seen"]
    moved = change("--name", "zone=com,example.net")
    below = dns.name.from_text("example.net")
    for old, new, _ in pairs(minute, moved):
        if name_of(old).is_subdomain(dns.name.from_text("com")):
            assert name_of(new) == dns.name.Name([*name_of(old).labels[:-2], *below.labels])
        else:
            assert name_of(new) == name_of(old)
    assert moved.counts[0]["changed"] > 100


def test_unique_names(change: Change) -> None:
    run = change("--name", "unique=u")
    (names,) = run.tshark("dns.qry.name")
    unique = {name: count for name, count in names.items() if name.startswith("u0000")}
    assert set(unique.values()) == {1}
    assert len(unique) > 0.999 * len(run.queries)


def test_cases_are_mixed_and_lowered(minute: Run, change: Change) -> None:
    run = change("--name", "case=0x20")
    upper = lower = 0
    for old, new, _ in pairs(minute, run):
        assert name_of(new) == name_of(old)  # without regard to case
        text = b"".join(name_of(new).labels)
        upper += sum(0x41 <= byte <= 0x5A for byte in text)
        lower += sum(0x61 <= byte <= 0x7A for byte in text)
    assert abs(upper / (upper + lower) - 0.5) < 0.02
    lowered = change("--name", "case=lower")
    assert not any(
        0x41 <= byte <= 0x5A
        for _, new, _ in pairs(minute, lowered)
        for label in name_of(new).labels
        for byte in label
    )


# --- all ----------------------------------------------------------------------------------------------------


def test_the_same_seed_makes_the_same_bytes(minute: Run, tmp_path: Path) -> None:
    rules = ("--name", "case=0x20,share=50", "--edns", "cookie=random,by=source,share=30", "--type", "A,AAAA")
    made = []
    for seed in ("5", "5", "6"):
        made.append(mutate(minute.path, tmp_path, "--seed", seed, *rules).path.read_bytes())
    assert made[0] == made[1] != made[2]


def test_malformed_messages_are_kept_or_dropped(minute: Run, tmp_path: Path) -> None:
    kept = mutate(minute.path, tmp_path, "--edns", "nsid=on")
    bad = kept.counts[0]["malformed"]
    assert bad > 0  # names of more than 255 bytes
    assert len(kept.queries) == len(minute.queries)
    before = Counter(message for _, message in minute.queries)
    assert sum((before & Counter(message for _, message in kept.queries)).values()) >= bad
    dropped = mutate(minute.path, tmp_path, "--malformed", "drop", "--edns", "nsid=on")
    assert len(dropped.queries) == len(minute.queries) - bad
    assert dropped.counts[0]["dropped"] == bad


@pytest.mark.parametrize(
    ("rule", "value", "words"),
    (
        ("--edns", "set=off,size=512", "contradicts set=off"),
        ("--edns", "cookie=12", "key cookie"),
        ("--header", "rd,-rd", "there twice"),
        ("--name", "prefix=a,suffix=b", "contradicts prefix"),
        ("--name", "prefix=a..b", "is not a domain name"),
        ("--type", "AAAB", "did you mean AAAA?"),
    ),
)
def test_refusals_are_one_line(rule: str, value: str, words: str, tmp_path: Path) -> None:
    argv = [
        programs.own("reprise-mutator"),
        "mutate",
        "absent.pcap",
        "-o",
        str(tmp_path / "out.pcap"),
        rule,
        value,
    ]
    done = subprocess.run(argv, check=False, capture_output=True, text=True, timeout=20)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
