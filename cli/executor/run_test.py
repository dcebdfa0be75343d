"""The `reprise` command as a user meets it: whole runs with the real programs, and one-line errors."""

import json
import os
import re
import signal
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import RepriseError
from cli.executor import preflight
from cli.executor.run import Folder, finish, table
from cli.plan.planned import Check
from tests.command import run as command
from tests.slow import slow

QUICK = programs.ROOT / "experiments/quickstart.toml"
LENIENT = ("replay.late_ms=1000", "replay.max_lateness_s=20", "replay.timeout_s=30")  # of a busy machine
LIMIT_S = 60.0


def given(*settings: str) -> list[str]:
    return [word for one in settings for word in ("--set", one)]


SHORT = given("synth.duration=1", "synth.rate=400", "synth.clients=50", *LENIENT)


def process(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """As a user starts it, with a fresh interpreter and whole plots."""
    argv = [sys.executable, "-m", "cli", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(programs.ROOT)}
    return subprocess.run(
        argv, cwd=cwd, env=environment, capture_output=True, text=True, check=False, timeout=LIMIT_S
    )


def results(folder: Path) -> Path:
    found = list((folder / "results").iterdir())
    assert len(found) == 1
    return found[0]


def read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stderr.splitlines() if "error:" in line]


@pytest.mark.netns
@pytest.mark.parametrize("kind", ["nsd", "bind", *(slow(one) for one in ("knot", "pdns"))])
def test_the_quickstart_is_clean_and_accounts_for_every_query(tmp_path: Path, kind: str) -> None:
    start = process if kind == "nsd" else command
    done = start("run", str(QUICK), *SHORT, "--set", f"server.kind={kind}", cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    folder = results(tmp_path)
    assert re.fullmatch(r"quickstart-\d{8}T\d{6}Z-[0-9a-f]{4}", folder.name)
    summary = read(folder / "summary.json")
    assert summary["clean"] is True
    queries = summary["queries"]
    ends = ("answered", "timed_out", "send_failed", "connection_failed", "skipped", "lost")
    assert queries["read"] == sum(queries[end] for end in ends) > 0
    assert queries["answered"] == queries["read"]
    assert (folder / "report.html").stat().st_size > 1000
    manifest = read(folder / "manifest.json")
    assert {"title", "server.kind", "synth.duration"} <= set(manifest["given"])  # by the file and by --set
    assert not {"server.port", "replay.transport"} & set(manifest["given"])
    assert "Settings that have their defaults" in (folder / "report.html").read_text()
    assert {one["id"] for one in manifest["processes"]} == {
        "server", "conditions-server", "sampler", "watch-server", "distributor-client1", "controller",
    }  # fmt: skip
    counts = summary["server_counts"]
    assert counts == {
        "queries": queries["sent"],
        "tcp_queries": summary["transport"]["tcp"],
        "answers": queries["answered"],
    }
    assert (folder / "plots" / "server-counts.svg").is_file()
    assert "report.html" in done.stdout


@pytest.mark.netns
def test_rules_of_an_experiment_change_what_is_played(tmp_path: Path) -> None:
    """A given trace, so that nothing else wants the mutator; rules in a file and in the experiment."""
    made = command("trace", "synth", "--rate", "200", "--duration", "1", "-o", "t.pcap", cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    experiment = tmp_path / "mine.toml"
    experiment.write_text(
        "trace = 't.pcap'\n[mutate]\nrules = 'rules.toml'\n[[mutate.rule]]\nkind = 'duplicate'\ncopies = 2\n"
        "[replay]\nlate_ms = 1000\nmax_lateness_s = 20\n"
        "[server]\n[server.root_like]\n"
    )
    (tmp_path / "rules.toml").write_text('[[rule]]\nkind = "transport"\nto = "tcp"\n')
    done = command("run", str(experiment), cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    (folder,) = (tmp_path / "results").iterdir()
    summary = read(folder / "summary.json")
    assert [one["kind"] for one in summary["rules"]] == ["transport", "duplicate"]
    seen = summary["rules"][0]["seen"]
    assert summary["queries"]["answered"] == summary["queries"]["read"] == 2 * seen > 300
    assert {name for name, count in summary["transport"].items() if count} == {"tcp"}
    assert not (folder / "trace.rps").exists()


@pytest.mark.netns
def test_several_clients_share_the_queries(tmp_path: Path) -> None:
    arguments = ("--set", "topology.clients=2", "--set", "topology.queriers=1")
    done = command("run", str(QUICK), *SHORT, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    assert {path.name for path in results(tmp_path).glob("*.rq")} == {
        "queries-client1-0.rq", "queries-client2-0.rq"}  # fmt: skip


def test_a_run_that_was_killed_after_its_error_says_one_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Folder(tmp_path / "run.partial", tmp_path / "run")
    folder.partial.mkdir()
    manifest = {"error": "the run was interrupted", "hint": "nothing had been replayed, run it again"}
    (folder.partial / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    assert finish(folder, -signal.SIGKILL) == 1
    assert capsys.readouterr().err.splitlines() == [
        "reprise: error: the run was interrupted; nothing had been replayed, run it again"
    ]


def snapped(plain: bytes, size: int) -> bytes:
    """The pcap file (little-endian) as a capture with so small a snap length would have it."""
    out, at = plain[:24], 24
    while at < len(plain):
        time, captured, wire = plain[at : at + 8], *struct.unpack("<II", plain[at + 8 : at + 16])
        kept = min(size, captured)
        out += time + struct.pack("<II", kept, wire) + plain[at + 16 : at + 16 + kept]
        at += 16 + captured
    return out


@pytest.mark.netns
def test_a_snapped_capture_says_what_it_lost(tmp_path: Path) -> None:
    """In the table and the report; in the error where nothing is left to play."""
    arguments = ("--rate", "100", "--duration", "1", "--tcp-share", "0", "-o", "t.pcap")
    made = command("trace", "synth", *arguments, cwd=tmp_path)
    assert made.returncode == 0, made.stderr
    plain = (tmp_path / "t.pcap").read_bytes()
    for size, status in ((70, 0), (38, 2)):  # some of the queries; none
        (tmp_path / "cut.pcap").write_bytes(snapped(plain, size))
        done = command("run", str(QUICK), *given("trace=cut.pcap", *LENIENT), cwd=tmp_path)
        assert done.returncode == status, done.stderr
        lost = r"cut_packet \d+ \(\d+\.\d %\): packets captured only in part; capture whole packets"
        assert re.search(lost, done.stderr if status else done.stdout)
        if status == 0:
            (folder,) = (tmp_path / "results").iterdir()
            assert re.search(lost, (folder / "report.html").read_text(encoding="utf-8"))


def test_the_plan_is_printed_and_stable_but_for_the_run(tmp_path: Path) -> None:
    first, second = (command("plan", str(QUICK), cwd=tmp_path) for _ in range(2))
    assert first.returncode == 0, first.stderr

    def without_run(text: str) -> str:
        return re.sub(r"quickstart-\d{8}T\d{6}Z-[0-9a-f]{4}", "RUN", text)

    assert without_run(first.stdout) == without_run(second.stdout)
    assert json.loads(first.stdout)["main"] == "controller"


def test_the_table_at_the_end() -> None:
    summary = {
        "clean": False,
        "unclean_because": ["a", "b"],
        "trace": "synthetic: profile root, seed 1",
        "queries": {"read": 1200, "answered": 1196, "skipped": 3, "lost": 1},
        "skipped": {"update": 2, "transport": 1},
        "rcode": {"NOERROR": 1190, "REFUSED": 6},
        "front": {
            "kind": "bpf",
            "queries": 1180,
            "entries_peak": 7,
            "promoted": {"long": 9, "split": 1},
            "not_promoted": {},
        },
        "warnings": ["mind this"],
        "timing_error_us": {"abs_p50": 5.04, "abs_p99": None},
        "trace_notes": ["cut_packet 5 (50.0 %): so"],
    }
    assert table(summary).splitlines() == [
        "trace                          synthetic: profile root, seed 1",
        "read                           1,200",
        "answered                       1,196",
        "skipped                        3 (2 UPDATE, 1 over QUIC or HTTPS)",
        "lost                           1",
        "rcodes                         NOERROR 1,190 (99.5 %), REFUSED 6 (0.5 %)",
        "timing error, |p50|            5.0 µs",
        "timing error, |p99|            –",
        "latency, median                –",
        "latency, p99                   –",
        "front                          bpf",
        "front: queries                 1,180",
        "front: connections promoted    10 (long 9, split 1)",
        "front: most queries in flight  7",
        "warning                        mind this",
        "of the trace                   cut_packet 5 (50.0 %): so",
        "clean                          no: a; b",
    ]
    deaf = table({**summary, "clean": True, "server_faults": ["it did not answer 63.0 % of the queries"]})
    said = "yes, but of the server: it did not answer 63.0 % of the queries"
    assert deaf.splitlines()[-1].split(None, 1) == ["clean", said]


@pytest.mark.netns
@pytest.mark.parametrize("transport", ["tcp", "tls"])
def test_every_query_goes_over_connections_seen_at_both_ends(tmp_path: Path, transport: str) -> None:
    settings = [f"replay.transport={transport}", "replay.queries_per_connection=2", "sample.clients=true"]
    settings.append("synth.duration=2")  # the sockets are counted once a second
    done = command("run", str(QUICK), *SHORT, *given(*settings), cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    summary = read(results(tmp_path) / "summary.json")
    queries, counts = summary["queries"], summary["connections"]
    sent = summary["transport"][transport]
    assert sent == queries["sent"] == queries["answered"] == queries["read"], (queries, counts)
    assert counts["opened"] + counts["reused_queries"] == sent, (queries, counts)
    assert counts["opened"] >= sent / 2, (queries, counts)
    assert counts["failures"] == {}
    assert summary["connect_us_by_transport"][transport]["count"] == counts["opened"]
    assert summary["sockets"]["server"]["peak_established"] > 0
    assert summary["sockets"]["clients"]["peak_established"] > 0
    assert f"connections  {counts['opened']:,} opened" in re.sub(" {2,}", "  ", done.stdout)


ZONE = "$TTL 60\n@ SOA ns h 1 1 1 1 1\n@ NS ns\nns A 192.0.2.1\n"


@pytest.mark.netns
def test_a_zone_that_does_not_fit_and_transports_that_are_not_played_are_told(tmp_path: Path) -> None:
    """All that comes back is REFUSED; and the names of all files hold bytes that are not text."""
    rows = [
        f"{1 + n / 100:.2f}\t192.0.2.{n}\t{'https' if n % 5 == 0 else 'udp'}\twww.other.example\tA"
        for n in range(1, 51)
    ]
    trace = tmp_path / os.fsdecode(b"tr\xff.tsv")
    trace.write_text("\n".join(["#reprise-text 1", "time\tsource\ttransport\tname\ttype", *rows, ""]))
    zone = tmp_path / os.fsdecode(b"z\xff.zone")
    zone.write_text(ZONE)
    output = tmp_path / os.fsdecode(b"re\xff")
    experiment = tmp_path / "mine.toml"
    experiment.write_text("[server]\norigin = 'example.org.'\n")
    words = given(f"trace={trace.name}", f"server.zone={zone.name}", *LENIENT)
    done = command("run", str(experiment), *words, "-o", output.name, cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    (folder,) = output.iterdir()
    names = {path.name for path in folder.iterdir()}
    assert {"plan.json", "manifest.json", "controller.json", "summary.json", "report.html"} <= names
    summary = read(folder / "summary.json")
    assert (summary["rcode"], summary["skipped"]) == ({"REFUSED": 40}, {"transport": 10})
    table_at_the_end = re.sub(" {2,}", "  ", done.stdout)
    assert "skipped  10 (10 over QUIC or HTTPS)\n" in table_at_the_end
    assert "rcodes  REFUSED 40 (100.0 %)\n" in table_at_the_end
    assert "warning  100.0 % of the answers are REFUSED: the zone may not fit the trace" in table_at_the_end
    assert "warning  10 queries over QUIC or HTTPS were not played" in table_at_the_end


@pytest.mark.netns
def test_no_secret_stands_in_the_results(tmp_path: Path) -> None:
    secret = "00112233445566778899aabbccddeeff" * 2
    (tmp_path / "secret.key").write_text(secret)
    experiment = tmp_path / "mine.toml"
    rule = "[[mutate.rule]]\nkind = 'anonymize'\nkey = '@secret.key'\n"
    experiment.write_text(f"[synth]\nduration = 0.2\nrate = 200\n{rule}[server]\n[server.root_like]\n")
    done = command("run", str(experiment), "--set", "replay.transport=tls", "-o", "out", cwd=tmp_path)
    assert done.returncode == 0, done.stderr + done.stdout
    (folder,) = (tmp_path / "out").iterdir()
    contents = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    assert len(contents) > 10
    for each in (secret.encode(), bytes.fromhex(secret), b"PRIVATE KEY"):
        assert not any(each in content for content in contents)
    assert str(tmp_path / "secret.key") in (folder / "plan.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("exit 1", "the check of own ended with exit status 1"),
        ("echo no; echo memory >&2; exit 3", "the check of own ended with exit status 3: memory"),
        ("kill -s KILL $$", "the check of own ended with signal SIGKILL"),
    ],
)
def test_a_check_that_ends_otherwise_is_no_consent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, words: str
) -> None:
    own_program(tmp_path, monkeypatch, line)
    with pytest.raises(RepriseError) as caught:
        preflight._carry_out(Check(("reprise-controller", "--check")), (), "/tmp")
    assert caught.value.what == words


def test_a_check_that_takes_too_long_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_program(tmp_path, monkeypatch, "exec sleep 100")
    monkeypatch.setattr(preflight, "_LIMIT_S", 0.1)
    assert preflight._carry_out(Check(("reprise-controller", "--check")), (), "/tmp") == ""
    assert capsys.readouterr().err.startswith("reprise: warning: own did not check its options and files")


def own_program(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    program = folder / "own"
    program.write_text(f"#!/bin/sh\n{line}\n")
    program.chmod(0o755)
    monkeypatch.setattr(programs, "own", lambda _: str(program))
