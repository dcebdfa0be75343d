"""What servers run with, of real processes and as the servers' own tools show it."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest

from cli import programs
from cli.errors import RepriseError
from cli.experiment.schema import Hierarchy, Server
from cli.servers import conditions, kind
from cli.servers.kind import Site, Title
from cli.servers.kinds import KINDS
from tests.bed import wait_for

THREADS = "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); time.sleep(60)"
SERVER = Server(kind="nsd", edns_size=1400, tcp_idle_timeout_s=7.0, rrl=9)


def shown(kind: str, text: str, folder: Path) -> dict[str, float | str]:
    own = KINDS[kind]
    (folder / own.config_file).write_text(text)
    return conditions.of_settings(own.conditions, own.shown(str(folder / own.config_file)))


def site(folder: Path, extra: str) -> Site:
    return Site(str(folder), ((".", str(folder / "zone")),), ("127.0.0.1",), "", 20_000, extra=extra)


def test_limits_threads_and_cores_are_the_kernels(tmp_path: Path) -> None:
    """Also of the processes below; the lowest limit counts."""
    shell = f"'{sys.executable}' -c '{THREADS}' & ulimit -n 77; echo ready; read line; kill $!"
    child = subprocess.Popen(
        ["taskset", "-c", "0", "sh", "-c", shell], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdin is not None and child.stdout is not None
    try:
        child.stdout.readline()
        conditions.write(child.pid, tmp_path / "out.json")
    finally:
        child.communicate(b"\n", timeout=10)
    told = json.loads((tmp_path / "out.json").read_text())
    assert told.pop("threads") in {2, 3}  # the second of Python may be about to start
    assert told == {"schema": 1, "cores": 1, "descriptors of a process": 77, "processes": 2}


def test_a_server_that_has_ended_has_none(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
        assert conditions.of_process(child.pid) == {}
    with pytest.raises(RepriseError, match="cannot write"):
        conditions.write(child.pid, tmp_path / "no" / "folder.json")


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("nsd", "server:\n    tcp-timeout: 11\n"),
        ("bind", "options { tcp-idle-timeout 110; };\n"),
        ("knot", "server:\n    tcp-idle-timeout: 11\n"),
        ("pdns", "tcp-idle-timeout=11\n"),
    ],
)
def test_authoritative_servers_show_what_they_were_given_and_what_users_add(
    kind: str, more: str, tmp_path: Path
) -> None:
    own = KINDS[kind]
    assert own.authoritative is not None
    told = shown(kind, own.authoritative(SERVER, site(tmp_path, "")), tmp_path)
    assert (told[Title.IDLE], told[Title.UDP_SIZE]) == (7, 1400)
    assert told.get(Title.RATE_LIMIT, 9) == 9
    assert shown(kind, own.authoritative(SERVER, site(tmp_path, more)), tmp_path)[Title.IDLE] == 11


@pytest.mark.parametrize(
    ("kind", "text", "title", "value"),
    [
        ("pdns", "tcp-idle-timeout=10\n# tcp-idle-timeout=3 was too short\n", Title.IDLE, 10),
        ("pdns-recursor", "max-tcp-clients=1000\n# max-tcp-clients=5\n", Title.CONNECTIONS, 1000),
        ("bind", "options { max-cache-size 256m; };\n", Title.CACHE, 268.435456),
        ("bind", "options { edns-udp-size 1400; };\nserver 192.0.2.1 { edns-udp-size 512; };\n",
         Title.EDNS_SIZE, 1400),
    ],
)  # fmt: skip
def test_comments_and_other_blocks_are_no_settings(
    kind: str, text: str, title: str, value: float, tmp_path: Path
) -> None:
    assert shown(kind, text, tmp_path)[title] == value


def test_defaults_are_those_of_the_program_that_is_started(tmp_path: Path) -> None:
    (tmp_path / "named").write_text("#!/bin/sh\nprintf 'options {\\n\\ttcp-clients 77;\\n};\\n'\n")
    (tmp_path / "named").chmod(0o755)
    (tmp_path / "named.conf").write_text("options { };\n")
    own = KINDS["bind"]
    said = own.shown(str(tmp_path / "named.conf"), str(tmp_path / "named"))
    assert conditions.of_settings(own.conditions, said) == {Title.CONNECTIONS: 77}


def test_a_server_that_does_not_say_in_time_leaves_nobody_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "_ASK_S", 0.2)
    own = dataclasses.replace(KINDS["nsd"], shows="sleep 54.321; true")
    assert own.shown("") == ""
    looked = ["pgrep", "-f", "^sleep 54.321$"]
    wait_for(lambda: subprocess.run(looked, check=False, capture_output=True).stdout == b"", "its end")


@pytest.mark.parametrize("kind", ["bind", "unbound", "pdns-recursor"])
def test_resolvers_show_theirs(kind: str, tmp_path: Path) -> None:
    own = KINDS[kind]
    assert own.resolver is not None
    ends = dataclasses.replace(site(tmp_path, ""), upstream=("127.0.0.2", "::1"), hints="/hints")
    text = own.resolver(SERVER, Hierarchy(resolver="bind", validate=False, qname_minimization=False), ends)
    told = shown(kind, text, tmp_path)
    assert (told[Title.IDLE], told[Title.EDNS_SIZE]) == (7, 1400)
    assert told[Title.MINIMIZATION] in {"no", "disabled", "off"}
    assert len(told) == len(own.conditions) - (kind == "bind")  # of which one is a rate limit


def test_defaults_of_a_server_are_shown_too(tmp_path: Path) -> None:
    told = shown("bind", "options { };\n", tmp_path)
    assert (told[Title.IDLE], told[Title.CACHE], Title.RATE_LIMIT in told) == (30, "90%", False)
    assert shown("nsd", "server:\n", tmp_path)[Title.UDP_SIZE] == 1232


def test_knot_resolver_writes_down_what_is_in_effect(tmp_path: Path) -> None:
    own = KINDS["knot-resolver"]
    assert own.resolver is not None
    (tmp_path / "hints").write_text(". 60 IN NS a.\na. 60 IN A 127.0.0.1\n")
    ends = Site(
        str(tmp_path), (), (), "", 20_000,
        extra="net.tcp_pipeline(33)", upstream=("127.0.0.2", "::1"), hints=str(tmp_path / "hints"),
    )  # fmt: skip
    emulated = Hierarchy(resolver="knot-resolver", validate=False, qname_minimization=False)
    text = own.resolver(SERVER, emulated, ends)
    config = tmp_path / own.config_file
    config.write_text(text)
    argv = own.argv(programs.packaged("kresd"), str(config), str(tmp_path), 1, "")
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        wait_for(lambda: (tmp_path / "settings").is_file() or child.poll() is not None, "its settings")
        child.kill()
    told = shown("knot-resolver", text, tmp_path)
    assert (told[Title.IDLE], told[Title.UDP_SIZE], told[Title.EDNS_SIZE], told[Title.MINIMIZATION]) == (
        7,
        1400,
        1400,
        "no",
    )
    assert told[Title.CACHE] == 256 * 1.048576
    assert told["queries under way on a TCP connection"] == 33
