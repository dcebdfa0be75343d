"""Zones rebuilt from what a resolver asked name servers and was told: `reprise zones build` and `check`."""

import ipaddress
import json
import struct
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import pytest

from cli.experiment.addresses import META4, META6
from cli.zones import world as cli_world
from cli.zones.world_model import Settings
from tests import command, halves, hard_worlds
from tests.conftest import DATA
from tests.hierarchy_bed import Ask, play, write_trace, write_world
from tests.slow import slow

pytestmark = pytest.mark.netns

_RESOLVER = {
    4: ipaddress.ip_address("198.19.254.1").packed,
    6: ipaddress.ip_address("fd00:198:19:fe::1").packed,
}
_REAL = pytest.mark.skipif(not DATA.is_dir(), reason="shared data is absent")
_META = tuple(ipaddress.ip_network(one) for one in (META4, META6))
_ANY = {"hierarchy__max_servfail_percent": 100, "hierarchy__max_unmapped_percent": 100}
_FIELDS = {0x0800: (4, 12, 4), 0x86DD: (6, 8, 16)}  # by EtherType: version, place and size of the addresses


def upstream_of(meta: Path, out: Path) -> Path:
    """A capture at the meta-DNS-server as it would be at the resolver: each packet between the name server
    that was asked and the resolver.
    """
    data = bytearray(meta.read_bytes())
    at = 24
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at + 8)
        _rewrite(memoryview(data)[at + 16 : at + 16 + size])
        at += 16 + size
    out.write_bytes(data)
    return out


def _rewrite(frame: memoryview) -> None:
    kind = int.from_bytes(frame[12:14])
    if kind not in _FIELDS:
        return
    version, place, size = _FIELDS[kind]
    source, target = 14 + place, 14 + place + size
    addresses = [ipaddress.ip_address(bytes(frame[one : one + size])) for one in (source, target)]
    if any(addresses[1] in one for one in _META if one.version == version):  # the OQDA asks the meta address
        frame[target : target + size] = addresses[0].packed
        frame[source : source + size] = _RESOLVER[version]
    elif any(addresses[0] in one for one in _META if one.version == version):
        frame[source : source + size] = addresses[1].packed
        frame[target : target + size] = _RESOLVER[version]


def build(out: Path, *captures: Path, dnssec: str = "keep") -> dict[str, Any]:
    """`reprise zones build`; its report."""
    words = ("zones", "build", *map(str, captures), "-o", str(out), "--dnssec", dnssec)
    done = command.run(*words, cwd=out.parent)
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = json.loads((out / "build.json").read_text())
    return report


def check(zones: Path, *captures: Path) -> dict[str, Any]:
    """`reprise zones check`; all its figures."""
    result = zones.parent / "check.json"
    done = command.run(
        "zones", "check", str(zones), *map(str, captures), "--json", str(result), cwd=zones.parent
    )
    assert done.returncode == 0, done.stdout + done.stderr
    loaded: dict[str, Any] = json.loads(result.read_text())
    return loaded


def made(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o755)
    return folder


def told(message: dns.message.Message | None) -> tuple[object, ...]:
    """What a client learns: order and TTLs depend on the moment, signatures on keys."""
    if message is None:
        return ()
    rrsets = [one for one in message.answer if one.rdtype != dns.rdatatype.RRSIG]
    answer = sorted(f"{one.name} {one.rdtype} {item}".lower() for one in rrsets for item in one)
    return message.question[0].to_text(), message.rcode(), answer


def asks_of(world: Path) -> list[Ask]:
    """Every name of the world, names that are not there, and types that are not."""
    names = (world / "names.txt").read_text().split()
    asks = [Ask(f"{name.rstrip('.')}.") for name in names[::3]]
    asks += [Ask(f"nothing.{name.rstrip('.')}.") for name in names[::17]]
    return asks + [Ask(f"{name.rstrip('.')}.", "TXT") for name in names[::11]]


@pytest.mark.parametrize(
    ("seed", "shape", "first", "second", "minimized", "dnssec"),
    [
        slow(1, "tree", "unbound", "bind", True, "keep"),
        (5, "tree", "bind", "unbound", False, "resign"),
        slow(2, "random", "bind", "unbound", True, "keep"),
        slow(3, "random", "unbound", "bind", False, "resign"),
        slow(4, "random", "bind", "knot-resolver", True, "keep"),
    ],
)
def test_another_resolver_is_told_the_same_by_the_rebuilt_world(
    tmp_path: Path, seed: int, shape: str, first: str, second: str, minimized: bool, dnssec: str
) -> None:
    world = tmp_path / "world"
    make, zones = (cli_world.make, 24) if shape == "tree" else (hard_worlds.make, 40)
    cli_world.write(make(Settings(zones=zones, seed=seed)), world)
    trace = write_trace(tmp_path / "trace.tsv", asks_of(world))
    walked = play(
        made(tmp_path / "first"),
        world,
        trace,
        sample__capture=True,
        hierarchy__resolver=first,
        hierarchy__qname_minimization=not minimized,
        **_ANY,
    )
    assert walked.status == 0, walked.said
    assert walked.folder is not None
    capture = upstream_of(walked.folder / "capture-meta.pcap", tmp_path / "upstream.pcap")
    rebuilt = tmp_path / "rebuilt"
    build(rebuilt, capture, dnssec=dnssec)
    again = write_trace(tmp_path / "again.tsv", [replace(one, do="1") for one in asks_of(world)])
    keys = {"hierarchy__resolver": second, "hierarchy__qname_minimization": minimized, **_ANY}
    asked_again = play(made(tmp_path / "second"), rebuilt, again, **keys)
    assert asked_again.status == 0, asked_again.said
    wanted, answers = map(told, walked.replies()), asked_again.replies()
    found = list(zip(map(told, answers), wanted, strict=True))
    if (
        shape == "random"
    ):  # where resolvers are told different things of the same world: lame servers, aliases
        other = play(made(tmp_path / "third"), world, again, **keys)
        assert other.status == 0, other.said
        alike = [told(one) == here for one, (_, here) in zip(other.replies(), found, strict=True)]
        print(f"{sum(alike)} of {len(alike)} questions have one answer")
        found = [one for one, same in zip(found, alike, strict=True) if same]
        assert len(found) > 100
    different = [one for one in found if one[0] != one[1]]
    # Of a random world not all is seen: what a lame server keeps to itself nobody can rebuild.
    assert len(different) <= (0.02 * len(found) if shape == "random" else 0), different
    if dnssec == "resign":
        secure = [one for one in answers if one and one.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)]
        validated = sum(bool(one.flags & dns.flags.AD) for one in secure)
        print(f"{validated} of {len(secure)} answers validated")
        # Zones of a random world may be served where nobody is asked, so that no DS leads to them.
        assert validated >= (0.9 if shape == "random" else 1) * len(secure) > 0


@pytest.mark.slow
def test_five_thousand_zones_seen_by_a_resolver_under_load(tmp_path: Path) -> None:
    """An hour of a resolver's clients in numbers like Rec-17's, 60 times as fast; another resolver answers
    from the rebuilt zones.
    """
    world = tmp_path / "world"
    cli_world.write(cli_world.make(Settings(zones=5_000, seed=17)), world)
    trace = tmp_path / "hour.tsv"
    words = ("--profile", "recursive", "--names", str(world / "names.txt"), "-o", str(trace))
    assert command.run("trace", "synth", *words, cwd=tmp_path).returncode == 0
    keys = {"replay__speed": 60, "topology__queriers": 2, **_ANY}
    walked = play(
        made(tmp_path / "first"), world, trace, sample__capture=True, hierarchy__resolver="unbound", **keys
    )
    assert walked.status == 0, walked.said
    assert walked.folder is not None
    capture = upstream_of(walked.folder / "capture-meta.pcap", tmp_path / "upstream.pcap")
    build(tmp_path / "rebuilt", capture)
    zones = len(list((tmp_path / "rebuilt").glob("*.zone")))
    again = play(made(tmp_path / "second"), tmp_path / "rebuilt", trace, hierarchy__resolver="bind", **keys)
    assert again.status == 0, again.said
    found = list(zip(map(told, again.replies()), map(told, walked.replies()), strict=True))
    different = [one for one in found if one[0] != one[1]]
    print(f"{zones} zones, {len(found) - len(different)} of {len(found)} questions answered alike")
    good = [one for one in walked.replies() if one and one.rcode() in (dns.rcode.NOERROR, dns.rcode.NXDOMAIN)]
    assert len(good) > 0.99 * len(found) > 15_000
    assert zones > 3_000
    assert not different, different[:10]


def test_an_experiment_builds_its_hierarchy_from_a_capture(tmp_path: Path) -> None:
    world = write_world(tmp_path / "world")
    asks = [Ask("www.example.com."), Ask("alias.example.com."), Ask("nothing.example.com."), Ask(".", "NS")]
    trace = write_trace(tmp_path / "trace.tsv", asks)
    walked = play(made(tmp_path / "first"), world, trace, sample__capture=True)
    assert walked.status == 0, walked.said
    assert walked.folder is not None
    capture = upstream_of(walked.folder / "capture-meta.pcap", tmp_path / "upstream.pcap")
    again = play(
        made(tmp_path / "second"),
        None,
        trace,
        hierarchy__capture=capture,
        hierarchy__dnssec="resign",
        hierarchy__resolver="unbound",
    )
    assert again.status == 0, again.said
    assert [told(one) for one in again.answers()] == [told(one) for one in walked.answers()]
    assert again.json("zones/build.json")["counts"]["used"] > 0
    assert again.folder is not None
    assert "Zones built from a capture" in (again.folder / "report.html").read_text(encoding="utf-8")


@_REAL
@pytest.mark.parametrize("name", ["recursor", "zonemaster", "old-bugs"])
def test_real_servers_answers_come_back(tmp_path: Path, name: str) -> None:
    capture = DATA / "upstream" / f"zonemaster-{name}.DERIVED.pcap.xz"
    build(tmp_path / "zones", capture)
    result = check(tmp_path / "zones", capture)
    # Resolvers ask again for aliases; an SOA record at just any name that was asked for makes no zone.
    known = sum(
        result["reasons"].get(one, 0) for one in ("alias_into_another_zone", "server_denies_its_zone")
    )
    assert result["as_recorded"] + known >= 0.98 * result["asked"], result["reasons"]


@_REAL
@pytest.mark.parametrize("name", ["recursor", slow("zonemaster"), slow("old-bugs")])
def test_the_first_half_answers_for_the_second(tmp_path: Path, name: str) -> None:
    first, second = tmp_path / "first.pcap", tmp_path / "second.pcap"
    halves.split(DATA / "upstream" / f"zonemaster-{name}.DERIVED.pcap.xz", first, second)
    seen = halves.Seen()
    for one in halves.exchanges(first):
        seen.add(one)
    build(tmp_path / "zones", first)
    result = check(tmp_path / "zones", second)
    differ = {(one["time"], one["server"], one["question"]): one for one in result["differences"]}
    asked: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for one in halves.exchanges(second):
        if seen.covers(one):
            kind = halves.kind_of(one.response)
            asked[kind] += 1
            unsigned = one.key in differ and differ[one.key]["reason"] == "signature_missing"
            other[kind] += one.key in differ and not (unsigned and not seen.signed(one))
    for kind, count in sorted(asked.items()):
        print(f"{name}: {kind}: {count - other[kind]} of {count} as recorded")
    assert sum(other.values()) <= 0.02 * sum(asked.values()), differ


@_REAL
def test_captures_may_be_added(tmp_path: Path) -> None:
    captures = [DATA / "upstream" / f"zonemaster-{one}.DERIVED.pcap.xz" for one in ("recursor", "old-bugs")]
    build(tmp_path / "together", *captures)
    build(tmp_path / "apart", captures[0])
    words = ("zones", "build", "--add", str(captures[1]), "-o", str(tmp_path / "apart"))
    assert command.run(*words, cwd=tmp_path).returncode == 0
    for file in (tmp_path / "together").iterdir():
        assert file.read_bytes() == (tmp_path / "apart" / file.name).read_bytes(), file


def test_captures_are_added_to_a_rebuilt_folder_only(tmp_path: Path) -> None:
    words = ("zones", "build", "--add", "more.pcap", "-o", str(tmp_path))
    done = command.run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} has no build.json to add to; build it first, without --add" in done.stderr
    (tmp_path / "build.json").write_text('{"captures": [{"path": "-"}]}', encoding="ascii")
    done = command.run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert f"{tmp_path} was built of standard input; build it of files" in done.stderr


@_REAL
def test_the_order_of_captures_makes_no_difference(tmp_path: Path) -> None:
    captures = [DATA / "upstream" / f"zonemaster-{one}.DERIVED.pcap.xz" for one in ("recursor", "old-bugs")]
    build(tmp_path / "a", *captures)
    build(tmp_path / "b", *reversed(captures))
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == sorted(path.name for path in (tmp_path / "b").iterdir())
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file
