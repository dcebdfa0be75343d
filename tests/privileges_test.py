"""What every process of a run may do, read off /proc while it lasts."""

import os
import re
import signal
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli import linux, programs
from cli.plan import privileges
from tests.bed import below, wait_for
from tests.hierarchy_bed import Ask, finish, play, settings_of, start, write_trace, write_world
from tests.slow import slow

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
    """The rights of a process, including those that any of its threads has; None once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
        tasks = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    except OSError:
        return None
    fields = {key: value.split() for key, _, value in (line.partition(":") for line in lines)}
    users = set(fields["Uid"])
    assert len(users) == 1, words
    effective = 0
    for found in re.findall(r"^CapEff:\s*(\w+)$", "\n".join(tasks), re.MULTILINE):
        effective |= int(found, 16)
    bounding = int(fields["CapBnd"][0], 16)
    return Status(tuple(words), users.pop(), effective, bounding, fields["NoNewPrivs"] == ["1"])


def of(name: str, found: list[Status]) -> list[Status]:
    return [one for one in found if any(Path(word).name == name for word in one.words[:3])]


@pytest.mark.parametrize(
    ("resolver", "program"),
    [("bind", "named"), slow("knot-resolver", "kresd")],
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
        assert not command.has_ended(), (tmp_path / "said").read_text()
        found[:] = [one for pid in below(command.pid) if (one := status(pid))]
        played = "sent " in (tmp_path / "said").read_text()
        return played and bool(of("reprise-controller", found)) and len(of("reprise-querier", found)) >= 2

    wait_for(playing, "the controller and a querier", 120)
    rights = {  # those that it had and those that are left
        "reprise-controller": (DAC_READ_SEARCH, 0),
        "reprise-querier": (NET_ADMIN, NET_ADMIN),
        "reprise-proxy": (NET_ADMIN, NET_ADMIN),
    }
    for name, (had, has) in rights.items():
        ones = of(name, found)
        assert ones, name
        for one in ones:
            assert (one.user, one.effective, one.bounding, one.no_new) == (NOBODY, has, had, True), one
    for name in (program, "named"):
        users = {one.user for one in of(name, found)}
        assert users and "0" not in users, name
    os.kill(command.pid, signal.SIGINT)
    result = finish(tmp_path, command)
    assert result.folder is not None, result.said
    owners = {path.stat().st_uid for path in (result.folder, *result.folder.rglob("*"))}
    assert owners == {0}, "the results are given back"


def test_zones_load_where_the_steps_run_as_the_user_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without root, or without nobody: BIND's tools run where TMPDIR can be written and follows no links."""
    monkeypatch.setattr(privileges, "user", lambda: "")
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com."), Ask("a.w.example.com.")])
    result = play(tmp_path, write_world(tmp_path / "zones"), trace, hierarchy__max_lost_percent=100)
    assert result.status == 0, result.said


def test_root_that_may_make_no_namespace_becomes_nobody_else() -> None:
    """Programs that only work on files are started without a network, so that they would not start."""
    code = "from cli.plan import privileges; print(privileges.user())"
    less = (programs.packaged("setpriv"), "--bounding-set", "-sys_admin", "--")
    for before, user in ((), privileges.USER), (less, ""):
        argv = [*before, sys.executable, "-c", code]
        done = subprocess.run(argv, cwd=programs.ROOT, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == (f"{user}\n", "")


@pytest.mark.parametrize("program", ["mutate", "build"])
def test_a_program_that_has_opened_its_input_may_open_no_other(tmp_path: Path, program: str) -> None:
    """It is held up in its work: nobody reads what it writes, or its input has not ended."""
    folder = tmp_path / "closed"
    folder.mkdir(0o700)
    trace = write_trace(folder / "trace.tsv", [Ask(f"n{number}.example.") for number in range(4_000)])
    trace.chmod(0o600)
    (tmp_path / "open").mkdir()
    os.chown(tmp_path / "open", int(NOBODY), int(NOBODY))
    tmp_path.chmod(0o755)
    argv = linux.setpriv(programs.packaged("setpriv"), "nobody", NOBODY, ("dac_read_search",))
    if program == "mutate":
        argv += (programs.own("reprise-mutator"), "mutate", str(trace), "-o", "-", "--to", "text")
        argv += ("--jobs", "2")
    else:
        argv += (programs.own("reprise-zonebuilder"), "build", "-", "-o", str(tmp_path / "open/zones"))
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        if program == "build":
            assert process.stdin is not None
            process.stdin.write(trace.read_bytes())
            process.stdin.flush()

        def given_up() -> bool:
            assert process.poll() is None
            found = status(process.pid)
            if found is None or "/reprise-" not in found.words[0]:
                return False  # setpriv still
            return (found.user, found.effective) == (NOBODY, 0)

        wait_for(given_up, "the right to read every file is given up", 60)
        said, _ = process.communicate(timeout=60)
    assert program == "build" or (process.returncode == 0 and said.count(b"\n") >= 4_000)


# --- a planner that was taken over by a zone ---------------------------------------------------------------

RESULTS, PLAN = "/run/reprise/results", "/run/reprise/plan"


def take_over(folder: Path, monkeypatch: pytest.MonkeyPatch, then: str) -> None:
    """What `reprise-zonebuilder plan` does as its user after planning."""
    for program in programs.BUILT.iterdir():
        (folder / program.name).symlink_to(program)
    planner = folder / "reprise-zonebuilder"
    planner.unlink()
    planner.write_text(f'#!/bin/sh\n{programs.BUILT}/reprise-zonebuilder "$@" || exit\n{then}\ntrue\n')
    planner.chmod(0o755)
    monkeypatch.setenv("REPRISE_PROGRAMS", str(folder))


def test_root_follows_no_link_and_loses_no_file_to_a_program(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("root's own")
    names = ("guard-server.json", "resolver-server.json", "resolver-server.json.part", "server.csv.part")
    plants = [f"ln -s {victim} {RESULTS}/{name}" for name in names]
    plants += [f"ln -sf {victim} {RESULTS}/{name}" for name in ("logs/server.log", "plan.json")]
    plants += [f"mv {RESULTS}/logs {RESULTS}/elsewhere; mkdir {RESULTS}/logs", f"rm -f {RESULTS}/plan.json"]
    take_over(tmp_path_factory.mktemp("programs"), monkeypatch, "\n".join(plants))
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com."), Ask("a.w.example.com.")])
    result = play(tmp_path, write_world(tmp_path / "zones"), trace)
    assert result.folder is not None, result.said
    assert victim.read_text() == "root's own"
    for name in ("logs", "logs/server.log", "plan.json", "resolver-server.json", "server.csv"):
        status = (result.folder / name).lstat()
        assert status.st_uid == 0 and not stat.S_ISLNK(status.st_mode), name
    assert not [path for path in result.folder.rglob("*") if path.is_symlink()]
    assert not (result.folder / "elsewhere").exists()
    reasons = " ".join(result.summary["unclean_because"])
    assert result.status == 1 and "guard-server.json" in reasons, "its guard's counters could not be written"


def test_root_obeys_no_line_that_the_planner_would_not_write(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = f"printf 'meta\\t1\\t1\\t1\\t198.18.128.9 dev lo\\t-\\n' >> {PLAN}/map.tsv"
    take_over(tmp_path_factory.mktemp("programs"), monkeypatch, evil)
    trace = write_trace(tmp_path / "trace.tsv", [Ask("www.example.com.")])
    result = play(tmp_path, write_world(tmp_path / "zones"), trace)
    assert result.folder is None and "is not a line of an address map" in result.said


def test_what_a_run_gives_back_holds_no_links(tmp_path: Path) -> None:
    results, other = tmp_path / "results", tmp_path / "other"
    (results / "logs").mkdir(parents=True)
    results.chmod(0o1775)
    other.write_text("another's")
    for name in ("queries-1.rq", "logs/a.log"):
        (results / name).write_text("ours")
        os.chown(results / name, int(NOBODY), int(NOBODY))
    (results / "linked.rq").symlink_to(other)
    (results / "logs/linked").symlink_to(tmp_path)
    (results / "hard.rq").hardlink_to(other)
    os.mkfifo(results / "queue")
    os.chown(other, int(NOBODY), int(NOBODY))
    privileges.give_back(results)
    left = {str(path.relative_to(results)): path.lstat().st_uid for path in results.rglob("*")}
    assert left == {"queries-1.rq": 0, "logs": 0, "logs/a.log": 0}
    assert other.stat().st_uid == int(NOBODY) and stat.S_IMODE(results.stat().st_mode) == 0o755
