"""What every process of a run may do, read off /proc while it lasts."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.bed import wait_for
from tests.desk import below
from tests.hierarchy_bed import Ask, finish, settings_of, start, write_trace, write_world

pytestmark = [pytest.mark.netns, pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up root")]

NOBODY = "65534"
NET_ADMIN, DAC_READ_SEARCH = 1 << 12, 1 << 2


@dataclass(frozen=True)
class Status:
    """A process: its command line, and lines of its status."""

    words: tuple[str, ...]
    user: str
    effective: int
    bounding: int
    no_new: bool


def status(pid: int) -> Status | None:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return None
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    users = set(fields["Uid"])
    assert len(users) == 1, words
    effective, bounding = (int(fields[key][0], 16) for key in ("CapEff", "CapBnd"))
    return Status(tuple(words), users.pop(), effective, bounding, fields["NoNewPrivs"] == ["1"])


def of(name: str, found: list[Status]) -> list[Status]:
    return [one for one in found if any(Path(word).name == name for word in one.words[:3])]


@pytest.mark.parametrize(
    ("resolver", "program"),
    [("bind", "named"), pytest.param("knot-resolver", "kresd", marks=pytest.mark.slow)],
)
def test_every_process_has_the_rights_it_needs_and_no_more(
    tmp_path: Path, resolver: str, program: str
) -> None:
    """A resolver's whole hierarchy with proxies, in a folder that only root can enter."""
    tmp_path.chmod(0o700)
    zones = write_world(tmp_path / "zones")
    asks = [Ask(f"n{number}.w.example.com.") for number in range(400)]
    trace = write_trace(tmp_path / "trace.tsv", asks, gap_s=0.05)
    trace.chmod(0o600)
    command = start(tmp_path, settings_of(zones, trace, hierarchy__resolver=resolver))
    found: list[Status] = []

    def playing() -> bool:
        assert command.poll() is None, (tmp_path / "said").read_text()
        found[:] = [one for pid in below(command.pid) if (one := status(pid))]
        played = "sent " in (tmp_path / "said").read_text()
        return played and bool(of("reprise-controller", found)) and len(of("reprise-querier", found)) >= 2

    wait_for(playing, "the controller and a querier", 120)
    rights = {
        "reprise-controller": (NOBODY, DAC_READ_SEARCH),
        "reprise-querier": (NOBODY, NET_ADMIN),
        "reprise-proxy": (NOBODY, NET_ADMIN),
    }
    for name, (user, capabilities) in rights.items():
        ones = of(name, found)
        assert ones, name
        for one in ones:
            assert (one.user, one.effective, one.bounding, one.no_new) == (
                user, capabilities, capabilities, True,
            ), one  # fmt: skip
    for name in (program, "named"):
        users = {one.user for one in of(name, found)}
        assert users and "0" not in users, name
    os.kill(command.pid, signal.SIGINT)
    result = finish(tmp_path, command)
    assert result.folder is not None, result.said
    owners = {path.stat().st_uid for path in (result.folder, *result.folder.rglob("*"))}
    assert owners == {0}, "the results are given back"
