"""Synthetic hierarchies: what is written loads, resolves, is signed rightly, and is the same for a seed."""

import ipaddress
import subprocess
from pathlib import Path

import dns.message
import dns.rdatatype
import dns.rrset
import pytest

from cli import __main__ as command
from cli import programs
from cli.errors import UsageError
from cli.zones import world
from cli.zones.world_model import LETTERS, Settings, enclosing, is_below, lineage, parent_of


def load(folder: Path, file: world.ZoneFile) -> str:
    """What is wrong with the zone by BIND's tools, "" if nothing."""
    path = str(folder / file.file)
    check = [programs.packaged("named-checkzone"), "-i", "local", "-k", "ignore", file.name, path]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    said = done.stdout if done.returncode or "ignoring" in done.stdout else ""
    if not said and " RRSIG " in file.text:
        verify = [programs.packaged("dnssec-verify"), "-q", "-o", file.name, path]
        signatures = subprocess.run(verify, capture_output=True, text=True, check=False)
        said = signatures.stderr if signatures.returncode else ""
    return said and f"{file.name}: {said}"


@pytest.mark.parametrize("signed", [False, True])
def test_every_zone_loads_and_verifies(tmp_path: Path, signed: bool) -> None:
    made = world.make(Settings(zones=30, seed=3, signed=signed))
    world.write(made, tmp_path)
    wrong = [said for file in made.files if (said := load(tmp_path, file))]
    assert not wrong, wrong[0]
    assert any(" RRSIG " in file.text for file in made.files) == signed


@pytest.mark.parametrize("signed", [False, True])
def test_the_seed_decides_everything(signed: bool) -> None:
    settings = Settings(zones=15, signed=signed)
    assert world.make(settings) == world.make(settings)
    assert world.make(settings) != world.make(Settings(zones=15, seed=2, signed=signed))


def test_addresses_look_public_and_the_roots_are_real() -> None:
    made = world.make(Settings(zones=300))
    root = next(file for file in made.files if file.name == ".")
    assert set(root.addresses or ()) == {one for pair in LETTERS.values() for one in pair}
    for address in {one for file in made.files for one in file.addresses or ()}:
        one = ipaddress.ip_address(address)
        assert one.is_global and not one.is_multicast, address
        assert one not in ipaddress.ip_network("198.18.0.0/15" if one.version == 4 else "fd00::/8")


def test_every_zone_of_a_tree_can_be_reached() -> None:
    """The parent has NS records, and an address for a server below one of its cuts."""
    made = world.make(Settings(zones=200))
    records = {
        file.name: {tuple(line.split(None, 3)) for line in file.text.splitlines()} for file in made.files
    }
    assert len(made.files) == len(records) == 200
    for name in records.keys() - {"."}:
        parent = enclosing(parent_of(name), records)
        servers = {data for owner, _, kind, data in records[parent] if (owner, kind) == (name, "NS")}
        assert servers
        for server in servers:
            home = records[parent if is_below(server, parent) else enclosing(server, records)]
            assert any((owner, kind) == (server, "A") for owner, _, kind, _ in home), server


def test_names_to_ask_mostly_exist_and_some_do_not() -> None:
    made = world.make(Settings(zones=100))
    owners = {line.split()[0] for file in made.files for line in file.text.splitlines()}
    existing = sum(name in owners for name in made.names)
    assert len(set(made.names)) == len(made.names) > 500
    assert 0.5 < existing / len(made.names) < 0.9
    zones = {file.name for file in made.files}
    assert all(zones.intersection(lineage(name)) for name in made.names)


def test_the_big_answer_is_near_4000_bytes() -> None:
    made = world.make(Settings(zones=100))
    line = next(one for file in made.files for one in file.text.splitlines() if one.startswith("big."))
    owner, ttl, kind, data = line.split(None, 3)
    answer = dns.message.make_response(dns.message.make_query(owner, kind, use_edns=0))
    answer.answer.append(dns.rrset.from_text(owner, int(ttl), "IN", kind, data))
    assert 3_600 < len(answer.to_wire(max_size=65_535)) < 3_900


def test_the_command_writes_again_but_not_over_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "world"
    words = ["zones", "synth", "-o", str(out), "--zones"]
    assert command.main([*words, "30"]) == 0
    assert "30 zone files" in capsys.readouterr().out
    assert command.main([*words, "20"]) == 0
    assert len(list(out.glob("*.zone"))) == 20
    (out / "notes").write_text("mine")
    assert command.main([*words, "20"]) == 2
    assert "holds other files than zones; give -o an empty or new folder" in capsys.readouterr().err


def test_too_few_zones_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--zones 7"):
        world.make(Settings(zones=7))
