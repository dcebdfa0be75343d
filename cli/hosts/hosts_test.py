"""What each machine gets of a plan, and how machines are reached."""

import contextlib
import dataclasses
import fcntl
import gzip
import hashlib
import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import Literal

import pytest
import yaml  # type: ignore[import-untyped]

from cli import linux, programs
from cli.errors import SIGNALS, RepriseError, UsageError
from cli.executor import run as local
from cli.executor.sandbox import STOP
from cli.experiment.schema import Hierarchy, World
from cli.hosts import changes, inputs, inventory, leftovers, results, run, share, source
from cli.hosts.inventory import Target
from cli.plan import network
from cli.plan.guards_test import PLAIN, WORLD, planned
from cli.plan.placement_test import OFFICE


def test_a_client_gets_its_own_key_and_no_servers_files() -> None:
    plan = planned(PLAIN, OFFICE)
    part = share.part(plan, ["client1"])
    paths = {one.path for one in part.files}
    assert "@run@/guard-client1.nft" in paths
    assert not {one for one in paths if "nsd.conf" in one or "guard-server" in one}
    assert part.prepare == ()
    named, whole = share._needs(plan, {"client1"})
    assert {one for one in named if one.endswith(".key")} == {"@run@/tls/client1.key"}
    assert not whole
    assert share._needs(plan, {"server"})[1]


@pytest.mark.parametrize(
    ("text", "refused"),
    [("x TXT $INCLUDE\n$GENERATE 1-2 h$ A 192.0.2.1\n", False), (' ; one\n$include "part" b.\n', True)],
)
@pytest.mark.parametrize("packed", [False, True])
def test_hosts_get_no_zone_that_includes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, refused: bool, packed: bool
) -> None:
    zone = tmp_path / "zone"
    zone.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    server = dataclasses.replace(PLAIN.server, zone=str(zone))
    targets = [Target("n", {}, (network.CONTROLLER,))]
    copied: list[Path] = []
    monkeypatch.setattr(inputs, "_listed", lambda _: set())
    monkeypatch.setattr(inputs, "_copy", lambda _target, path, _sum: copied.append(path))
    with pytest.raises(UsageError, match=r"has \$INCLUDE lines") if refused else contextlib.nullcontext():
        inputs.carry(dataclasses.replace(PLAIN, server=server), targets)
    assert copied == ([] if refused else [zone])


def test_signals_mean_what_they_did_when_a_run_is_over() -> None:
    before = [signal.getsignal(one) for one in SIGNALS]
    with run._wishes() as life:
        os.kill(os.getpid(), signal.SIGINT)
        assert os.read(life, 2) == STOP
    assert [signal.getsignal(one) for one in SIGNALS] == before


def test_what_a_host_refuses_is_told_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "echo reprise: error: the run has not ended there\\; run it later >&2; exit 1"
    monkeypatch.setattr(Target, "call", lambda *_args, **_values: ["sh", "-c", said])
    with pytest.raises(RepriseError, match="n: the run has not ended there") as caught:
        Target("n", {}).ask(dict, "sums")
    assert caught.value.hint == "run it later"


@pytest.mark.parametrize("good", [1, 3, 4])
def test_a_copy_that_was_damaged_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, good: int
) -> None:
    tries: list[list[str]] = []

    def copy(_target: Target, _run: str, _to: Path, names: list[str]) -> None:
        tries.append(names)
        (tmp_path / names[0]).write_text("good" if len(tries) == good else "bad")

    monkeypatch.setattr(results, "_copy", copy)
    monkeypatch.setattr(Target, "ask", lambda *_, **__: {"a": hashlib.sha256(b"good").hexdigest()})
    with pytest.raises(RepriseError, match="1 result files") if good > 3 else contextlib.nullcontext():
        results.fetch(Target("n", {}), "r", tmp_path)
    assert len(tries) == min(good, 3)


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_signal_ends_the_copying_of_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], interrupted: bool
) -> None:
    def fetch(*_: object) -> None:
        if interrupted:
            threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGTERM)).start()
        done = subprocess.run(["sleep", "60" if interrupted else "0"], check=False)
        if done.returncode != 0:
            raise RepriseError("n cannot be reached: ssh failed", "")

    monkeypatch.setattr(results, "fetch", fetch)
    monkeypatch.setattr(Target, "call", lambda *_, **__: ["true"])
    targets = [Target("n", {}, (network.CONTROLLER,))]
    folder = local.Folder(tmp_path / "run.partial", tmp_path / "run")
    with run._wishes() as life:
        uncollected = run._fetch(targets, planned(PLAIN, OFFICE), folder, life)
    assert uncollected == ({"n": "it was interrupted"} if interrupted else {})
    assert ("results of n were not collected" in capsys.readouterr().err) == interrupted


@pytest.mark.parametrize(("cache", "readers"), [("cold", "c"), ("warm", "c 1 2")])
def test_who_fills_caches_has_the_trace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Literal["cold", "warm"], readers: str
) -> None:
    trace = tmp_path / "trace"
    trace.touch()
    emulated = Hierarchy(synth=World(zones=20), cache=cache, resolver=("bind", "bind"))
    experiment = dataclasses.replace(WORLD, trace=str(trace), hierarchy=emulated)
    hosts = ("controller", "client1", "client2", "client3", "server", "meta1")
    targets = [Target(host.removeprefix("client")[:1], {}, (host,)) for host in hosts]
    copied: list[str] = []
    monkeypatch.setattr(inputs, "_listed", lambda _: set())
    monkeypatch.setattr(inputs, "_copy", lambda target, _path, _sum: copied.append(target.name))
    there = inputs.carry(experiment, targets)
    assert copied == readers.split()
    assert there.trace == str(changes.place_of(changes.named_sum(trace)) / "trace")


def test_an_empty_path_names_no_file_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Target, "call", lambda *_, **__: pytest.fail("something is copied"))
    empty = dataclasses.replace(PLAIN, server=dataclasses.replace(PLAIN.server, config=""))
    assert inputs.carry(empty, [Target("n", {}, (network.CONTROLLER,))]) == empty


def test_hosts_get_the_names_that_a_trace_is_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = tmp_path / "list"
    names.write_text("a.example\n")
    copied: list[Path] = []
    monkeypatch.setattr(inputs, "_listed", lambda _: set())
    monkeypatch.setattr(inputs, "_copy", lambda _target, path, _sum: copied.append(path))
    made = dataclasses.replace(PLAIN, trace=None, synth={"names": str(names)})
    there = inputs.carry(made, [Target("n", {}, (network.CONTROLLER,))])
    assert copied == [names]
    assert there.synth is not None
    assert there.synth["names"] != str(names)


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"ansible_connection": "local"}, ["true"]),
        ({"ansible_connection": "local", "ansible_become": True}, ["env", "SSH_CONNECTION=", "true"]),
        ({"ansible_become": True}, ["n", 'sudo -n -- env SSH_CONNECTION="$SSH_CONNECTION" true']),
        (
            {"ansible_host": "a", "ansible_port": 22, "ansible_user": "u"},
            ["-p", "22", "-l", "u", "-a", "-x", "a", "true"],
        ),
        ({"ansible_ssh_common_args": "-F 'a b'"}, ["-F", "a b", "-a", "-x", "n", "true"]),
    ],
)
def test_the_way_to_a_machine(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, object], words: list[str]
) -> None:
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    assert Target("n", variables).command("true")[-len(words) :] == words


def test_a_local_host_has_the_same_programs_as_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPRISE_PROGRAMS", "/elsewhere")
    here = Target("n", {"ansible_connection": "local"})
    begin = here.call("agent")[:-5]  # up to Python
    assert begin[0] == "env"
    assert "REPRISE_PROGRAMS" not in subprocess.check_output([*begin, "env"], text=True)


def test_no_host_gets_at_the_operators_keys_and_screen(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host *\n  ForwardAgent yes\n  ForwardX11 yes\n")
    command = Target("n", {"ansible_ssh_common_args": f"-F {config} -A"}).command("true")
    said = subprocess.check_output([command[0], "-G", *command[1:-1]], text=True)
    assert {"forwardagent no", "forwardx11 no"} <= set(said.splitlines())


def test_an_interface_is_named_or_found() -> None:
    assert Target("n", {"reprise_interface": "eno1"}).interface({}) == "eno1"
    assert Target("n", {"reprise_address": "10.1.1.1"}).interface({"10.1.1.1": "eno2"}) == "eno2"
    for variables, message in (
        ({}, "has neither reprise_interface nor reprise_address"),
        ({"reprise_address": "here"}, "is not an IP address"),
        ({"reprise_address": "10.1.1.2"}, "has no interface with"),
    ):
        with pytest.raises(Exception, match=message):
            Target("n", variables).interface({"10.1.1.1": "eno2"})


def test_the_journal_is_undone_from_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "STATE", tmp_path / "state")
    monkeypatch.setattr(changes, "RUNTIME", tmp_path / "run")
    changes.begin_journal("r")
    (tmp_path / "run/r").mkdir(parents=True)
    log = tmp_path / "log"
    with changes._journaled("r") as journal:
        changes._note(journal, [["sh", "-c", f"echo 1 >> {log}"], ["sh", "-c", f"echo 2 >> {log}"]])
        changes._note(journal, [["sh", "-c", f"test -e {tmp_path}/may && echo 3 >> {log}"]])
    with (tmp_path / "state/undo/r.jsonl").open("a") as journal:
        journal.write('[["sh", "-c", "echo cut')  # the machine stopped while this was written
    assert changes.teardown() == ["r"]
    assert log.read_text() == "1\n2\n"
    assert (tmp_path / "run/r").exists()  # what is needed to try again
    (tmp_path / "may").touch()
    assert changes.teardown() == ["r"]
    assert log.read_text() == "1\n2\n3\n"
    assert changes.teardown() == []
    assert not (tmp_path / "run/r").exists()
    with pytest.raises(RepriseError, match="the run has ended"), changes._journaled("r"):
        pass


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 101\n", "#!/bin/sh\nexit 0\n"])
def test_daemons_start_again_where_an_installation_by_ansible_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    """By the note that the role `common` puts into the journal; an administrator's own policy stays."""
    monkeypatch.setattr(changes, "STATE", tmp_path / "state")
    monkeypatch.setattr(changes, "RUNTIME", tmp_path / "run")
    policy = tmp_path / "policy-rc.d"
    policy.write_text(text)
    role = (programs.ROOT / "playbooks/roles/common/vars/main.yml").read_text()
    words = yaml.safe_load(role)["common_start_daemons"]
    changes.begin_journal("policy-rc.d")
    with changes._journaled("policy-rc.d") as journal:
        changes._note(journal, [[word.replace("/usr/sbin/policy-rc.d", str(policy)) for word in words]])
    assert changes.teardown() == ["policy-rc.d"]
    assert policy.exists() == ("101" not in text)
    assert not list((tmp_path / "state").glob("runs/*"))


def test_a_repair_waits_for_who_only_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "STATE", tmp_path / "state")
    monkeypatch.setattr(changes, "RUNTIME", tmp_path / "run")
    changes.begin_journal("r")
    with changes._lock() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        threading.Timer(0.3, lambda: fcntl.flock(lock, fcntl.LOCK_UN)).start()
        assert changes.repair("r") == 0
    assert not list((tmp_path / "state/undo").iterdir())


def test_what_a_killed_process_left_unfinished_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changes, "STATE", tmp_path)
    folder = changes.results("r") / "logs"
    folder.mkdir(parents=True)
    for name in ("front.json", "front.json.part", "logs/a.log", "logs/.0f.part"):
        (folder.parent / name).touch()
    assert list(changes.sums("r")) == ["front.json", "logs/a.log"]
    assert list(changes.sums("r", ["front*", "*.part"])) == ["front.json"]


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize("left", ['{"load": "no answer"}', "{}"])  # {}: it could not be removed there before
def test_a_collected_run_is_whole_only_with_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, left: str
) -> None:
    run = "r-20260101T000000Z-0000"
    partial = tmp_path / f"{run}.partial"
    partial.mkdir()
    (partial / "manifest.json").write_text(f'{{"uncollected": {left}}}')
    monkeypatch.setattr(results, "fetch", lambda *_: None)
    monkeypatch.setattr(Target, "call", lambda *_, **__: ["true"])
    monkeypatch.setattr(inventory, "read", lambda *_: {"clients": [Target("load", {})]})
    monkeypatch.setattr(local, "report", lambda _: "no records" if status else "")
    with pytest.raises(RepriseError, match="no records") if status else contextlib.nullcontext():
        results.collect("load", run, tmp_path, ["hosts"])
    assert (tmp_path / run).is_dir() == (status == 0)


def test_one_source_has_one_checksum_and_its_archive_is_the_same(tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"

    def called(root: Path, function: str, *words: str) -> str:
        argv = ["/usr/bin/python3", "-P", "-m", "cli.call", f"cli.hosts.source.{function}", *words]
        return subprocess.check_output(argv, cwd="/", env={"PYTHONPATH": str(root)}, text=True)

    assert called(programs.ROOT, "write", f"archive={archive}") == ""
    there = tmp_path / "there"
    there.mkdir()
    subprocess.run(["tar", "-C", there, "-xzf", archive], check=True)
    here, other = (called(root, "checksum") for root in (programs.ROOT, there))
    assert here == other == source.checksum() + "\n"


def test_a_repository_is_not_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "ROOT", tmp_path)
    (tmp_path / "LICENSE").touch()
    (tmp_path / ".git").mkdir()
    with pytest.raises(RepriseError, match="is a repository"):
        source.remove()
    assert (tmp_path / "LICENSE").exists()
    (tmp_path / ".git").rmdir()
    source.remove()
    assert not (tmp_path / "LICENSE").exists()


def test_the_clock_says_how_far_it_may_be_off() -> None:
    said = linux.clock()
    assert set(said) == {"synchronized", "estimated_error_us", "maximum_error_us"}
    assert (said["estimated_error_us"] is None) == (not said["synchronized"])


@pytest.mark.skipif(not (programs.ROOT / ".git").exists(), reason="this is no repository")
def test_all_of_the_repository_is_deployed() -> None:
    git = ["git", "-c", f"safe.directory={programs.ROOT}", "-C", str(programs.ROOT), "ls-files"]
    listed = subprocess.run(git, capture_output=True, text=True, check=True).stdout.splitlines()
    wanted = {name for name in listed if not any(part.startswith(".") for part in name.split("/"))}
    assert wanted <= {str(path.relative_to(programs.ROOT)) for path in source.files()}


@pytest.mark.parametrize(("mode", "word"), [(1, "xdpdrv"), (2, "xdpgeneric"), (3, "xdpoffload")])
def test_an_xdp_program_is_found_and_removed_in_its_mode(
    monkeypatch: pytest.MonkeyPatch, mode: int, word: str
) -> None:
    link = {"ifname": "exp0", "xdp": {"mode": mode, "prog": {"id": 115, "name": "sink_xdp"}}}
    monkeypatch.setattr(leftovers, "read", lambda *argv: [link] if "link" in argv else [])
    (found,) = leftovers.found("exp0")
    assert found.what == "exp0 has an XDP program"
    assert found.hint == f"remove it: ip link set dev exp0 {word} off"
