"""A host that lies: its answers over ssh write no files of the operator or of other hosts, only its own,
and choose no command line.
"""

import dataclasses
import hashlib
import io
import json
import os
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import call
from cli.errors import RepriseError
from cli.hosts import agent, changes, files, inputs, inventory, results, share
from cli.hosts import run as hosts_run
from cli.hosts.inventory import Target
from cli.hosts.remote import Agent, Greeting, RemoteMachine
from cli.plan import facts, privileges
from cli.plan.guards_test import PLAIN, planned
from cli.plan.placement_test import OFFICE
from cli.plan.planned import Facts

RUN = "site-20261124T141650Z-3b9e"
SSH = """#!/bin/sh
# The hostile host: it answers requests from the files beside this one.
here=$(dirname "$0")
for request; do :; done
case "$request" in
*"changes.sums "*) cat "$here/sums" ;;
*"changes.send "*|*"tar -C"*) cat > "$here/asked"; cat "$here/stream" ;;
*"hosts.unit.main "*) cat "$here/stream" && cat >/dev/null ;;
*) cat "$here/stream" ;;
esac
"""
Host = Callable[[object, bytes], Target]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """A host that answers with these names of results, and with this stream."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "ssh").write_text(SSH)
    (there / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", str(there), prepend=":")

    def made(sums: object, stream: bytes) -> Target:
        (there / "sums").write_text(json.dumps(sums))
        (there / "stream").write_bytes(stream)
        return Target("load", {})

    return made


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """The operator's folder of results, next to a file that nobody may change."""
    (tmp_path / "victim").write_text("mine")
    folder = tmp_path / "results"
    folder.mkdir()
    return folder


def untouched(here: Path) -> bool:
    """Whether nothing was written, neither among the results nor outside."""
    outside = {path.name for path in here.parent.iterdir()} <= {"there", "victim", "results"}
    return outside and not list(here.rglob("*")) and (here.parent / "victim").read_text() == "mine"


def tar(*members: tuple[str, bytes, str, bytes]) -> bytes:
    """An archive of names, types, targets and contents."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, kind, target, content in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.size, info.mode = kind, target, len(content), 0o4755
            archive.addfile(info, io.BytesIO(content))
    return out.getvalue()


SUM = "0" * 64
BAD_NAMES = (
    "/etc/reprise-was-here", "../victim", "logs/../../victim", "", ".", "..", "logs//a.log", "logs/", "a\0b",
    "plan.json", "manifest.json", "manifest.json.part", "summary.json", "report.html", "plots/rate.svg",
    "logs/executor.log", "queries-client2-0.rq", "controller.json", "logs/server.log",
)  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_name_that_is_not_the_hosts_own_is_refused(host: Host, here: Path, name: str) -> None:
    own = share.results(planned(PLAIN, OFFICE), ["client1"])
    stream = tar((name.replace("\0", "") or "x", tarfile.REGTYPE, "", b"evil")) + b"4\nevil"
    with pytest.raises(RepriseError, match="which it may not write"):
        results.fetch(host({name: SUM}, stream), RUN, here, own)
    assert untouched(here)


def test_without_a_plan_a_host_replaces_nothing(host: Host, here: Path) -> None:
    (here / "logs").mkdir()
    for name in ("queries-client2-0.rq", "logs/undo.log"):
        (here / name).write_text("mine")
    good, mine = (hashlib.sha256(text).hexdigest() for text in (b"good", b"mine"))
    names = {"server.csv": good, "queries-client2-0.rq": mine, "logs/undo.log": good}
    for _ in range(2):  # it can be repeated
        results.fetch(host(names, b"4\ngood4\ngood"), RUN, here, results._own(here, "load"))
    assert (here / "server.csv").read_text() == (here / "logs/undo.log").read_text() == "good"
    for name in ("queries-client2-0.rq", "logs"):
        with pytest.raises(RepriseError, match="which it may not write"):
            results.fetch(host({name: good}, b"4\nevil"), RUN, here, results._own(here, "load"))
    assert (here / "queries-client2-0.rq").read_text() == "mine"


def test_hosts_have_their_own_results_and_the_controllers_the_rest() -> None:
    plan = planned(PLAIN, OFFICE)
    client, server, home = (share.results(plan, [one]) for one in ("client1", "server", "controller"))
    for name in (
        "queries-client1-0.rq",
        "answers-client1-3.ra",
        "guard-client1.json",
        "logs/guard-client1.log",
    ):
        assert client(name)
        assert not server(name)
        assert not home(name)
    assert server("server.csv")
    assert server("logs/nsd.conf")
    assert home("controller.json")
    assert home("logs/synth.log")
    assert all(one("logs/undo.log") for one in (client, server, home))


STREAMS = {
    "a link and a file through it": tar(
        ("server.csv", tarfile.SYMTYPE, "../victim", b""), ("server.csv", tarfile.REGTYPE, "", b"evil")
    ),
    "a folder that is a link": tar(
        ("logs", tarfile.SYMTYPE, "..", b""), ("logs/victim", tarfile.REGTYPE, "", b"evil")
    ),
    "a hard link": tar(("server.csv", tarfile.LNKTYPE, "/etc/hostname", b"")),
    "a device": tar(("server.csv", tarfile.CHRTYPE, "", b"")),
    "an absolute name": tar(("/tmp/reprise-was-here", tarfile.REGTYPE, "", b"evil")),
    "more files than asked for": tar(("report.html", tarfile.REGTYPE, "", b"evil")),
    "a size that nothing holds": b"999999999999999999\nevil",
    "a size below 0": b"-4\nevil",
    "a size without end": b"9" * 5_000,
    "too few bytes": b"5\nevil",
    "nothing": b"",
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
def test_a_stream_carries_nothing_but_contents(host: Host, here: Path, stream: bytes) -> None:
    with pytest.raises(RepriseError, match="load"):
        results.fetch(host({"server.csv": SUM}, stream), RUN, here)
    assert untouched(here)


def test_what_stands_in_the_way_is_replaced_and_links_are_not_followed(here: Path) -> None:
    (here / "server.csv").symlink_to("../victim")
    files.receive(io.BytesIO(b"4\ngood"), here, "server.csv")
    assert (here / "server.csv").read_bytes() == b"good"
    assert not (here / "server.csv").is_symlink()
    (here / "logs").symlink_to("..")
    for name in ("logs/victim", "logs/new"):
        with pytest.raises(OSError, match="Not a directory"):
            files.receive(io.BytesIO(b"4\nevil"), here, name)
    assert (here.parent / "victim").read_text() == "mine"
    assert not (here.parent / "new").exists()


def test_a_host_sends_no_file_behind_a_link(here: Path) -> None:
    (here / "a.log").symlink_to("../victim")
    (here / "logs").symlink_to("..")
    for name in ("a.log", "logs/victim"):
        with pytest.raises(OSError, match=r"Too many levels|Not a directory"):
            files.send(here, name, io.BytesIO())


def test_a_run_whose_name_is_a_path_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inventory, "read", lambda *_: {"clients": [Target("load", {})]})
    for name in (
        "../x",
        "/etc/x",
        "x",
        f"{RUN}/../../x",
        f"{RUN}.partial",
        f"{RUN}\n",
        "a b-20261124T141650Z-3b9e",
    ):
        asked = {"host": "load", "run": name, "output": tmp_path / "results", "inventories": ["hosts"]}
        assert call.main(list(call.words("cli.hosts.results.collect", **asked))) == 1
        assert "is not the name of a run" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_other_hosts_get_only_what_the_plan_gives_them() -> None:
    plan = planned(PLAIN, OFFICE)
    made = {
        "@run@/zone": (0o6755, "daemon"),
        "@run@/tls/client1.key": (0o600, plan.user),
        "@run@/tls/client2.key": (0o600, plan.user),
        "@run@/../../etc/cron.d/x": (0o644, ""),
        "@run@//etc/cron.d/x": (0o644, ""),
        "@run@/nsd.conf": (0o644, ""),  # is every machine's own
        "@run@/server1/server.key": (0o600, plan.user),  # no host's here
        "@results@/report.html": (0o644, ""),
        "/etc/cron.d/x": (0o644, ""),
    }
    assert share.wanted(plan, ["client1"], made) == [("@run@/tls/client1.key", 0o600, plan.user)]
    assert share.wanted(plan, ["server"], made) == [("@run@/zone", 0o644, "")]


def test_prepared_files_are_put_where_they_belong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "RUNTIME", tmp_path)
    top = changes.runtime(RUN)
    top.mkdir()
    (top / "plan").symlink_to("/etc")
    for name, error in (
        ("@run@/world/a.zone", None),
        ("@run@/plan/evil", OSError),
        ("@run@/../x", RepriseError),
    ):
        stream = json.dumps([(name, 0o640, "")]).encode() + b"\n4\ngood"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stream)))
        if error is None:
            changes.put(RUN)
        else:
            with pytest.raises(error):
                changes.put(RUN)
    assert (top / "world/a.zone").read_bytes() == b"good"
    assert (top / "world/a.zone").stat().st_mode & 0o7777 == 0o640
    assert not (tmp_path / "x").exists()
    assert not Path("/etc/evil").exists()


def test_a_file_of_a_user_who_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = json.dumps([("@run@/zone", 0o640, "no-such-user")]).encode() + b"\n4\ngood"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stream)))
    with pytest.raises(RepriseError, match="there is no user no-such-user"):
        changes.put(RUN)


# --- command lines ----------------------------------------------------------------------------------------

HONEST = Facts(
    run=RUN,
    cores=4,
    descriptors=1024,
    python="/opt/reprise/.venv/bin/python",
    source_root="/opt/reprise",
    programs={
        "reprise-controller": "/opt/reprise/build/release/bin/reprise-controller",
        "nsd": "/usr/sbin/nsd",
        "nsd-checkzone": "/usr/sbin/nsd-checkzone",
        "ip": "/usr/bin/ip",
        "sysctl": "/usr/sbin/sysctl",
        "setpriv": "/usr/bin/setpriv",
        "unshare": "/usr/bin/unshare",
    },
    users={"nsd": "nsd"},
    user="nobody",
)


def checked(**said: object) -> Facts:
    return facts.checked(dataclasses.replace(HONEST, **said), PLAIN, RUN, "/opt/reprise")  # type: ignore[arg-type]


def test_facts_of_a_host_choose_no_programs() -> None:
    evil = {
        **HONEST.programs,
        "reprise-controller": "/tmp/evil",
        "reprise-querier": "/tmp/evil",
        "sh": "/tmp/evil",
    }
    found = checked(
        run="x", python="/tmp/evil", source_root="/tmp", programs=evil, user_group=0, config_lines="evil"
    )
    assert "evil" not in json.dumps(dataclasses.asdict(found))
    assert (found.run, found.source_root, found.python) == (
        RUN,
        "/opt/reprise",
        "/opt/reprise/.venv/bin/python",
    )
    assert found.programs["reprise-querier"] == "/opt/reprise/build/release/bin/reprise-querier"
    assert found.programs["nsd"] == "/usr/sbin/nsd"
    assert found.user_group != 0


def test_programs_of_a_package_are_found_where_the_root_is_a_link() -> None:
    for real in ("/opt/reprise", "/srv/reprise-0.1"):
        programs = {**HONEST.programs, "reprise-controller": f"{real}/bin/reprise-controller"}
        found = checked(programs=programs, source_root=real)
        assert found.programs["reprise-sampler"] == "/opt/reprise/bin/reprise-sampler"


@pytest.mark.parametrize(
    "said",
    [
        {"programs": {**HONEST.programs, "nsd": "/tmp/nsd"}},
        {"programs": {**HONEST.programs, "nsd": "/usr/sbin/../../tmp/nsd"}},
        {"programs": {**HONEST.programs, "nsd": "/usr/bin/env"}},
        {"programs": {}},
        {"user": "root"},
        {"users": {"nsd": "root"}},
        {"users": {"nsd": ""}},
        {"origin": '."; include "/etc/x'},
    ],
)
def test_facts_that_cannot_be_are_refused(said: dict[str, object]) -> None:
    with pytest.raises(RepriseError, match="the controller's host"):
        checked(**said)


def test_a_user_that_the_operator_s_machine_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pwd.getpwnam", {}.__getitem__)
    with pytest.raises(RepriseError, match="there is no user nobody"):
        checked()


def test_a_plan_that_makes_programs_root_is_refused_where_they_need_not_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = planned(PLAIN, OFFICE)
    as_root = dataclasses.replace(plan, user="")
    monkeypatch.setattr(privileges, "user", lambda: "nobody")
    agent._want_user(dataclasses.replace(plan, user="nobody"))
    with pytest.raises(RepriseError, match="the plan runs programs as root"):
        agent._want_user(as_root)
    monkeypatch.setattr(privileges, "user", lambda: "")
    agent._want_user(as_root)


def test_a_host_opens_no_guard_and_names_no_rules() -> None:
    for address in ("0.0.0.0/0", "::/0", "x"):
        with pytest.raises(RepriseError, match="is reached from"):
            hosts_run._single("load", address)
    with pytest.raises(RepriseError, match="reports the interface name"):
        Target("load", {"reprise_address": "10.1.1.1"}).interface({"10.1.1.1": 'eth0" accept; x'})


WRONG = ([1], {"x": 1})
ASKED: list[Callable[[RemoteMachine], object]] = [
    lambda there: there.prepare(),
    lambda there: there.start("server"),
    lambda there: there.begin(),
    lambda there: there.poll("server"),
    lambda there: there.said("server"),
]


def test_agents_answers_of_a_wrong_form_are_errors(host: Host, here: Path) -> None:
    answers = [None, *(WRONG * len(ASKED))]
    stream = b"".join(json.dumps({"ok": one}).encode() + b"\n" for one in answers)
    speaker = Agent(dataclasses.replace(host({}, stream), hosts=("server",)), RUN)
    there = RemoteMachine(speaker, planned(PLAIN, OFFICE), here)
    for ask in ASKED:
        for _ in WRONG:
            with pytest.raises(RepriseError, match="load reports a wrong"):
                ask(there)
    speaker.close()


@pytest.mark.parametrize("wrong", [[1], [[]], 5, {"server.csv": 5}, {"server.csv": None}])
def test_answers_of_commands_of_a_wrong_form_are_errors(host: Host, here: Path, wrong: object) -> None:
    plan = planned(PLAIN, OFFICE)
    target = dataclasses.replace(host(wrong, json.dumps(wrong).encode()), hosts=("client1",))
    asks: list[Callable[[], object]] = [
        lambda: results.fetch(target, RUN, here),
        lambda: share.send(plan, target, target),
        lambda: inputs._listed(target),
        lambda: inventory.checked("load", wrong, Greeting),
    ]
    for ask in asks:
        with pytest.raises(RepriseError, match="load reports a wrong"):
            ask()


def test_a_name_of_any_bytes_is_no_wrong_answer(host: Host, here: Path) -> None:
    name = os.fsdecode(b"logs/\xff.log")
    results.fetch(host({name: hashlib.sha256(b"good").hexdigest()}, b"4\ngood"), RUN, here)
    assert (here / name).read_bytes() == b"good"


@pytest.mark.parametrize(
    "answer", [b"[]\n", b"null\n", b"{}\n", b"[" * 100_000 + b"\n", b"\x1b[2Jnonsense\n"]
)
def test_an_agents_answer_that_makes_no_sense_is_an_error(host: Host, answer: bytes) -> None:
    speaker = Agent(host({}, answer), RUN)
    with pytest.raises(RepriseError, match="load cannot be reached: its answer makes no sense"):
        speaker.receive()
    speaker.close()
