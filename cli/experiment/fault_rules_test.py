"""What [[fault]] tables may say, and the one-line errors of what they may not."""

from pathlib import Path

import pytest

from cli.errors import UsageError
from cli.experiment.experiment import as_dict, load

HEAD = "schema = 1\ntrace = 't.pcap'\n[server]\nzone = 'z'\n"
RESOLVER = "schema = 1\ntrace = 't.pcap'\n[server]\nkind = 'hierarchy'\n[hierarchy.synth]\n"
LOSS = "[[fault]]\nat = 1\nfor = 2\nloss = 0.5\n"
STALL = "[[fault]]\nat = 2\nfor = 2\ntarget = 'server'\nstall = true\n"
RESTART = "[[fault]]\nat = 3\ntarget = 'server'\nrestart = true\n"


def test_faults_are_a_timetable(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    path.write_text(HEAD + LOSS + LOSS.replace("at = 1", "at = 9") + STALL, encoding="ascii")
    found = load(path, [])
    assert [(one.at, one.for_, one.target) for one in found.fault] == [
        (1, 2, "link"), (9, 2, "link"), (2, 2, "server"),
    ]  # fmt: skip
    assert as_dict(found)["fault"][0]["for"] == 2


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (HEAD + "[[fault]]\nat = 1\nfor = 1\n", "fault 1 does nothing; give it one of loss, drop"),
        (HEAD + LOSS + "rate = '1Mb/s'\n", "fault 1: loss and rate exclude each other; make a"),
        (HEAD + LOSS + "target = 'server'\n", "fault 1: loss and target = \"server\" exclude each other"),
        (HEAD + STALL.replace("target = 'server'\n", ""), "fault 1: stall and target = \"link\" exclude"),
        (HEAD + LOSS.replace("for = 2\n", ""), "fault 1 has no length; set for"),
        (HEAD + RESTART.replace("restart", "for = 1\nreload"), "fault 1: reload takes the time it takes"),
        (HEAD + STALL + "direction = 'queries'\n", "fault 1: stall has no direction"),
        (HEAD + LOSS.replace("loss = 0.5", "drop = 'udp>9'"), "fault 1: drop = 'udp>9' is unknown; use \"fr"),
        (HEAD + LOSS.replace("loss = 0.5", "rate = '1 MB'"), "fault 1: rate = '1 MB' is no rate; write it"),
        (HEAD + LOSS.replace("0.5", "1.5"), "fault 1.loss = 1.5 is out of range; use 1e-06 to 1"),
        (HEAD + LOSS.replace("0.5", "'much'"), "fault 1.loss = 'much' has the wrong type; it must be"),
        (HEAD + LOSS + "lost = 1\n", "unknown key fault 1.lost; did you mean fault 1.loss"),
        (HEAD + LOSS + LOSS, "fault 1 and fault 2 are at link at the same time; let one begin when"),
        (HEAD + STALL + RESTART, "fault 1 and fault 2 are at server at the same time"),
        (HEAD + LOSS + "target = 'upstream'\n", "target = \"upstream\" and server.kind = \"nsd\" exclude"),
        (RESOLVER + RESTART, "fault 1: restart and server.kind = \"hierarchy\" exclude each other"),
        (HEAD.replace("zone = 'z'", "kind = 'address'\naddresses = ['127.0.0.1']") + RESTART,
         "fault 1: [[fault]] and server.kind = \"address\" exclude each other"),
        (HEAD + RESTART + "[socket]\nnagle = false\n", "fault 1: restart and socket.nagle exclude each"),
        (HEAD + LOSS + "servers = [2]\n", "fault 1: there is no server 2; leave servers out"),
        (HEAD + "[replay]\nsource_mode = 'packet'\n" + LOSS, "fault 1: target = \"link\" and replay.source"),
        (HEAD + "front = 'bpf'\n" + LOSS, "fault 1: queries lost on the link and server.front = \"bpf\""),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, text: str, error: str) -> None:
    path = tmp_path / "one.toml"
    path.write_text(text, encoding="ascii")
    with pytest.raises(UsageError) as refused:
        load(path, [])
    assert error in refused.value.line().removeprefix("reprise: error: ")


def test_ways_and_servers_may_fail_together(tmp_path: Path) -> None:
    path = tmp_path / "one.toml"
    answers = LOSS.replace("loss = 0.5", "drop = 'fragments'")
    path.write_text(HEAD + "front = 'bpf'\n" + f"{answers}direction = 'answers'\n" + STALL, encoding="ascii")
    assert len(load(path, []).fault) == 2
    path.write_text(RESOLVER + LOSS + LOSS + "target = 'upstream'\n" + STALL, encoding="ascii")
    assert len(load(path, []).fault) == 3
    several = "[hierarchy]\nresolver = ['bind', 'unbound']\n[hierarchy.synth]"
    two = RESOLVER.replace("[hierarchy.synth]", several)
    path.write_text(f"{two}{STALL}servers = [1]\n{STALL}servers = [2]\n[topology]\nclients = 2\n")
    assert [one.servers for one in load(path, []).fault] == [(1,), (2,)]
