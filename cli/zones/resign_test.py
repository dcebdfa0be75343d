"""Hierarchies signed with keys of our own; dnssec-verify and dnspython check them."""

import argparse
from pathlib import Path

import dns.name
import dns.rdatatype
import dns.zone
import pytest

from cli.errors import UsageError
from cli.zones import resign, world, zone_folder
from cli.zones.options import Policy, policy_of
from cli.zones.world_model import Settings
from tests.slow import slow


@pytest.fixture(scope="module")
def unsigned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "zones"
    world.write(world.make(Settings(zones=12)), folder)
    return folder


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("signed") / "zones"
    world.write(world.make(Settings(zones=20, seed=7, signed=True)), folder)
    return folder


def _zones(folder: Path) -> dict[str, dns.zone.Zone]:
    return {
        one.name: dns.zone.from_file(str(folder / one.file), one.name, relativize=False, check_origin=False)
        for one in zone_folder.read(folder).entries
    }


def _chained(zones: dict[str, dns.zone.Zone]) -> set[str]:
    """Names with a DS record somewhere."""
    return {name.to_text() for zone in zones.values() for name, _ in zone.iterate_rdatasets("DS")}


def _keys(zone: dns.zone.Zone) -> list[tuple[int, int, int]]:
    """Flags, algorithm and size of the key in bytes."""
    found = zone.get_rdataset(zone.origin or "", "DNSKEY")
    return sorted((one.flags, int(one.algorithm), len(one.key)) for one in found or ())


@pytest.mark.parametrize(
    ("policy", "keys"),
    [
        slow(Policy(), [(256, 15, 32), (257, 15, 32)]),
        (Policy("ecdsap256sha256", nsec3=True), [(256, 13, 64), (257, 13, 64)]),
        (Policy("rsasha256", ksk_bits=2_048, zsk_bits=1_024), [(256, 8, 132), (257, 8, 260)]),
    ],
)
def test_all_zones_are_signed_and_chained(
    tmp_path: Path, unsigned: Path, policy: Policy, keys: list[tuple[int, int, int]]
) -> None:
    made = resign.resign(unsigned, tmp_path / "made", policy)
    assert made.anchors == (".",)
    assert resign.verify(tmp_path / "made", made) == []
    zones = _zones(tmp_path / "made")
    assert _chained(zones) == set(zones) - {"."}
    for zone in zones.values():
        assert _keys(zone) == keys
        proofs = {rdataset.rdtype for _, rdataset in zone.iterate_rdatasets()}
        assert (dns.rdatatype.NSEC3 in proofs, dns.rdatatype.NSEC in proofs) == (
            policy.nsec3,
            not policy.nsec3,
        )
    anchor = (tmp_path / "made" / resign.ANCHOR).read_text()
    assert anchor.startswith(". 3600 IN DNSKEY 257 3 ")


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path, unsigned: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, seed in zip(folders, (1, 1, 2), strict=True):
        resign.resign(unsigned, folder, Policy(seed=seed))
    first, again, other = ((folder / "root.zone").read_bytes() for folder in folders)
    assert first == again != other


def test_old_keys_and_signatures_go(tmp_path: Path, signed: Path) -> None:
    before = _zones(signed)
    made = resign.resign(signed, tmp_path / "made", Policy(algorithm="ecdsap256sha256"))
    assert resign.verify(tmp_path / "made", made) == []
    for name, zone in _zones(tmp_path / "made").items():
        assert {one[1] for one in _keys(zone)} == {13}
        kept = {dns.rdatatype.A, dns.rdatatype.TXT, dns.rdatatype.NS, dns.rdatatype.MX, dns.rdatatype.CNAME}
        assert _records(zone, kept) == _records(before[name], kept)


def _records(zone: dns.zone.Zone, kinds: set[dns.rdatatype.RdataType]) -> set[str]:
    return {f"{name} {item}" for name, _, item in zone.iterate_rdatas() if item.rdtype in kinds}


def test_unsigned_zones_may_stay_unsigned(tmp_path: Path, signed: Path) -> None:
    before = _zones(signed)
    made = resign.resign(signed, tmp_path / "made", Policy(signed_only=True))
    after = _zones(tmp_path / "made")
    assert 0 < len(made.unsigned) < len(after)
    assert {name for name, zone in after.items() if _keys(zone)} == {
        name for name, zone in before.items() if _keys(zone)
    }
    assert _chained(after) == _chained(before)
    assert resign.verify(tmp_path / "made", made) == []


def test_a_folder_may_be_signed_in_place(tmp_path: Path) -> None:
    world.write(world.make(Settings(zones=8)), tmp_path)
    (tmp_path / "build.json").write_text("{}")
    made = resign.resign(tmp_path, tmp_path, Policy())
    assert resign.verify(tmp_path, made) == []
    assert (tmp_path / "build.json").exists()
    assert not list(tmp_path.glob(".resign*"))


def test_another_folder_is_not_overwritten(tmp_path: Path, unsigned: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(UsageError, match="was not made by"):
        resign.resign(unsigned, tmp_path, Policy())


@pytest.mark.parametrize("bits", [512, 8_192])
def test_sizes_of_keys_are_bounded(bits: int) -> None:
    with pytest.raises(UsageError, match=f"--zsk-bits {bits}: out of range"):
        policy_of(argparse.Namespace(**vars(Policy(zsk_bits=bits))))


def test_what_does_not_verify_is_told(tmp_path: Path, unsigned: Path) -> None:
    made = resign.resign(unsigned, tmp_path, Policy())
    file = tmp_path / "root.zone"
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in lines if " RRSIG NS " not in line))
    (problem,) = resign.verify(tmp_path, made)
    assert problem.startswith(".: ")
