"""Fixtures of the tests that cross components."""

import contextlib
import lzma
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import programs
from tests.bed import Bed, MakeBed, synth
from tests.desk import QUERIES, furnish
from tests.testbed_hosts import GROUPS, Testbed, opened

DATA = programs.ROOT.parent / "shared" / "data"
REAL_MINUTE = DATA / "root" / "nsd-live.raw.pcap.xz"
ROOT_ZONE = DATA / "zones" / "root-2020101902-signed.zone.xz"


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    """Two clients, a controller and a server in namespaces of their own."""
    with Bed(tmp_path) as made:
        yield made


@pytest.fixture
def make_bed(tmp_path: Path) -> Iterator[MakeBed]:
    """Beds with one client unless told, by their source mode."""
    with contextlib.ExitStack() as made:

        def make(source_mode: str = "ports", clients: int = 1, peers: tuple[str, ...] = ()) -> Bed:
            return made.enter_context(Bed(tmp_path, clients=clients, source_mode=source_mode, peers=peers))

        yield make


@pytest.fixture(scope="session")
def standing_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Testbed]:
    """Hosts for tests that leave them as they were."""
    with opened(tmp_path_factory.mktemp("standing") / "bed", GROUPS) as made:
        yield made


@pytest.fixture
def hosts(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Testbed]:
    """Tests of the long suite kill agents and fill disks: each has hosts of its own."""
    if request.node.get_closest_marker("slow"):
        with opened(tmp_path / "bed", GROUPS) as made:
            yield made
    else:
        yield request.getfixturevalue("standing_hosts")


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A minute at a root server, and the root zone."""
    if not DATA.is_dir():
        pytest.skip("shared data is absent")
    folder = tmp_path_factory.mktemp("root")
    folder.chmod(0o755)
    trace, zone = folder / "minute.pcap", folder / "root.zone"
    trace.write_bytes(lzma.decompress(REAL_MINUTE.read_bytes()))
    zone.write_bytes(lzma.decompress(ROOT_ZONE.read_bytes()))
    return trace, zone


@pytest.fixture(scope="session")
def desk_trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A second of queries, over UDP and TCP, IPv4 and IPv6."""
    folder = tmp_path_factory.mktemp("trace")
    shares = ("--queries", str(QUERIES), "--rate", "400", "--clients", "20", "--tcp-share", "0.05")
    return synth(folder / "trace.pcap", *shares)


@pytest.fixture
def desk(tmp_path: Path, desk_trace: Path) -> Path:
    """A folder with a good experiment, trace and zone."""
    return furnish(tmp_path, desk_trace)
