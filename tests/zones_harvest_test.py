"""`reprise zones harvest`, with an emulated hierarchy in a namespace for the Internet."""

import contextlib
import json
import os
import pwd
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import programs
from cli.errors import RepriseError
from cli.servers import meta_servers
from cli.servers.kinds import KINDS
from cli.servers.meta_servers import MetaSite
from cli.zones import harvest_resolver
from cli.zones import world as cli_world
from cli.zones.world_model import Settings
from tests import command, worlds
from tests.hierarchy_bed import SOA, ZONES, Ask, play, write_trace, write_world
from tests.zones_build_test import build, check, made, told

pytestmark = pytest.mark.netns
_HOST = "internet"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[worlds.Ground]:
    """A host where BIND answers at every name server's address as that server would."""
    cli_world.write(cli_world.make(Settings(zones=12)), tmp_path / "world")
    with _internet(tmp_path) as made_ground:
        yield made_ground


@contextlib.contextmanager
def _internet(tmp_path: Path) -> Iterator[worlds.Ground]:
    folder = made(tmp_path / "ground")
    data = worlds.load(tmp_path / "world")
    views = []
    for number, (addresses, zones) in enumerate(worlds.groups(data)):
        lines = "".join(worlds.bind_zone(data.folder, one, f"v{number}", f"v{number}") for one in zones)
        match = " ".join(f"{one};" for one in addresses)
        views.append(f'view "v{number}" {{ match-destinations {{ {match} }};\n{lines}}};\n')
    (folder / "views-1.conf").write_text("".join(views), encoding="ascii")
    versions = (KINDS["bind"].version(),)
    site = MetaSite(str(folder), str(folder), "", 4096, False, 4096, ("any", "any"), versions=versions)
    config = folder / "named.conf"
    config.write_text(meta_servers.named(site, 1), encoding="ascii")
    with worlds.Ground(folder) as made_ground:
        made_ground.addresses(_HOST, sorted(data.at))
        made_ground.start_named(_HOST, config, name="truth", ready="all zones loaded")
        yield made_ground


def _harvest(ground: worlds.Ground, *words: str) -> subprocess.CompletedProcess[str]:
    with ground.inside(_HOST):
        return command.run("zones", "harvest", *words, cwd=ground.folder)


def test_what_a_trace_asks_is_harvested_and_rebuilt(tmp_path: Path, ground: worlds.Ground) -> None:
    world, out = tmp_path / "world", tmp_path / "harvest"
    names = (world / "names.txt").read_text().split()
    asks = [Ask(f"{name.rstrip('.')}.") for name in names[::4]] + [Ask(f"nothing.{names[3].rstrip('.')}.")]
    trace = write_trace(tmp_path / "trace.tsv", asks)
    words = (str(trace), "-o", str(out), "--yes", "--rate", "500")
    done = _harvest(ground, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert " questions answered, 0 unanswered; next: reprise zones build " in done.stdout

    build(tmp_path / "rebuilt", out / "upstream-1.dnstap")
    assert check(tmp_path / "rebuilt", out / "upstream-1.dnstap")["share_as_recorded"] == 1
    truth, rebuilt = (play(made(tmp_path / each), tmp_path / each2, trace) for each, each2 in _RUNS)
    assert truth.status == rebuilt.status == 0, truth.said + rebuilt.said
    assert [told(one) for one in rebuilt.answers()] == [told(one) for one in truth.answers()]

    again = _harvest(ground, *words)
    assert again.returncode == 0, again.stderr
    assert "questions have been answered" in again.stdout
    assert not (out / "upstream-2.dnstap").exists()

    notes = (out / "asked.tsv").read_text().splitlines(keepends=True)
    (out / "asked.tsv").write_text("".join(notes[:-7]) + "cut.off\tNS")
    resumed = _harvest(ground, *words)
    assert resumed.returncode == 0, resumed.stderr
    assert ": 7 questions answered, 0 unanswered" in resumed.stdout
    assert sorted((out / "asked.tsv").read_text().splitlines(keepends=True)) == sorted(notes)


def test_addresses_for_special_purposes_are_asked_where_that_is_allowed(tmp_path: Path) -> None:
    inside, zone = "10.9.8.7", "inner.com."
    glue = f"{zone} 3600 IN NS ns.{zone}\nns.{zone} 3600 IN A {inside}\n"
    world = write_world(tmp_path / "world", {"com.": ZONES["com."] + glue, zone: f"{zone} {SOA}\n{glue}"})
    listed = json.loads((world / "zones.json").read_text())
    listed["zones"][-1]["addresses"] = [inside]
    (world / "zones.json").write_text(json.dumps(listed))
    trace = write_trace(tmp_path / "trace.tsv", [Ask(zone, "NS"), Ask("www.example.com.")])
    with _internet(tmp_path) as internet:
        for number, more in enumerate(([], ["--allow", "10.9.8.0/24"]), 1):
            out = tmp_path / "harvest"
            done = _harvest(internet, str(trace), "-o", str(out), "--yes", "--rate", "500", *more)
            assert done.returncode == 0, done.stdout + done.stderr
            report = build(tmp_path / f"rebuilt{number}", out / f"upstream-{number}.dnstap")
            heard = {one["name"]: one["answered"] for one in report["zones"]}
            assert inside not in report["silent"]
            assert heard.get(zone, 0) == len(more) // 2


def test_strangers_do_not_say_where_it_ends(tmp_path: Path, ground: worlds.Ground) -> None:
    names = (tmp_path / "world/names.txt").read_text().split()
    trace = write_trace(tmp_path / "trace.tsv", [Ask(f"{names[3].rstrip('.')}.")])
    words = (str(trace), "-o", str(tmp_path / "harvest"), "--yes", "--rate", "500")
    done = _harvest(ground, *words, "--limit", "20")
    assert done.returncode == 0, done.stderr
    assert ": 20 questions answered, 0 unanswered" in done.stdout
    assert "questions over --limit or --depth were not asked (they came up " in done.stderr
    slow = _harvest(ground, *words, "--rate", "1", "--duration-s", "0.5")
    assert slow.returncode == 0, slow.stderr
    assert "warning: ended at --duration-s 0.5 with " in slow.stderr


def test_the_resolver_ends_with_a_harvest_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time, pathlib; from cli.zones import harvest_resolver\n"
        "with harvest_resolver.started(pathlib.Path(sys.argv[1])) as one:\n"
        "    print(one.process.pid, flush=True)\n"
        "    time.sleep(600)"
    )
    argv = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=programs.ROOT) as harvest:
        assert harvest.stdout is not None
        resolver = os.pidfd_open(int(harvest.stdout.readline()))
        harvest.kill()
        try:
            assert select.select([resolver], [], [], 30)[0], "named goes on"
        finally:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(resolver, signal.SIGKILL)
            os.close(resolver)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up rights")
def test_the_resolver_is_not_root(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with harvest_resolver.started(closed) as resolver:
        status = Path(f"/proc/{resolver.process.pid}/status").read_text()
        assert resolver.stop()
        (capture,) = closed.glob("upstream-*.dnstap")
        assert capture.stat().st_size > 0  # it could write
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert set(map(int, fields["Uid"].split())) == {pwd.getpwnam("bind").pw_uid}
    assert {int(fields[one], 16) for one in ("CapBnd", "CapEff", "CapPrm")} == {0}
    assert capture.stat().st_uid == 0


def test_a_resolver_that_does_not_start_leaves_no_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "copied", lambda _name, _folder: "/bin/false")
    with pytest.raises(RepriseError, match="named ended: "), harvest_resolver.started(tmp_path):
        pass
    assert not list(tmp_path.glob("upstream-*"))


_RUNS = (("first", "world"), ("second", "rebuilt"))


def test_nothing_is_asked_without_consent(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com.")])
    done = command.run("zones", "harvest", str(trace), "-o", str(tmp_path / "harvest"), cwd=tmp_path)
    assert done.returncode == 2
    assert "confirmation required: this asks a resolver 9 questions at first" in done.stderr
    assert not (tmp_path / "harvest").exists()


def test_the_rate_is_bounded(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com.")])
    words = ("zones", "harvest", str(trace), "-o", str(tmp_path / "h"), "--yes", "--rate", "5000")
    done = command.run(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert "--rate 5000: out of range" in done.stderr


def test_a_machine_without_a_way_out_is_told(tmp_path: Path) -> None:
    folder = made(tmp_path / "ground")
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com.")])
    with worlds.Ground(folder) as alone:
        done = _harvest(alone, str(trace), "-o", str(tmp_path / "harvest"), "--yes", "--rate", "100")
    assert done.returncode == 1
    assert "no name server could be reached" in done.stderr
    assert not (tmp_path / "harvest/asked.tsv").exists()
