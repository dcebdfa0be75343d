"""The sink over TCP and TLS, and the floor beside it, on the loopback."""

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.tools import NAME
from cli import programs
from cli.plan import certificates
from tests.bed import below, has_ended, wait_for

QUERY = struct.pack("!HHHHHH", 7, 0x0110, 1, 0, 0, 0) + b"\x01a\x00" + struct.pack("!HH", 1, 1)
ASKED = struct.pack("!H", len(QUERY)) + QUERY
ANSWER = ASKED[:4] + b"\x85\x10" + ASKED[6:]


@dataclass
class Sink:
    """A running sink; `seen` is there once it has ended."""

    process: subprocess.Popen[str]
    port: int
    seen: dict[str, Any]

    def connect(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=60)


def free_port() -> int:
    with socket.socket() as some:
        some.bind(("127.0.0.1", 0))
        return int(some.getsockname()[1])


@contextmanager
def sink(*words: str) -> Iterator[Sink]:
    port = free_port()
    argv = [programs.own("reprise-sink"), "tcp", "--port", str(port)]
    argv += words if "--processes" in words else ["--processes", "2", *words]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert f"event=listening port={port}" in process.stderr.readline()
        running = Sink(process, port, {})
        yield running
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
        assert process.returncode == 0
        running.seen |= json.loads(out)


def floor(port: int, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [programs.own("reprise-floor"), "127.0.0.1", "--port", str(port), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)


def receive(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := client.recv(65536)):
        data += part
    return data


@pytest.fixture(scope="module", params=["ecdsa-p256", "rsa-2048"])
def identity(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("identity")
    stems = {str(folder / "server"): ""}
    certificates.write_service(stems, folder / "ca.pem", NAME, ("127.0.0.1",), request.param)
    return folder


def tls_words(identity: Path) -> tuple[str, ...]:
    return ("--cert", str(identity / "server.pem"), "--key", str(identity / "server.key"))


# --- the sink ---------------------------------------------------------------------------------------------


def exchange(client: socket.socket) -> None:
    """One query with its answer."""
    client.sendall(ASKED)
    assert receive(client, len(ANSWER)) == ANSWER


def test_the_sink_answers_whole_queries_in_order() -> None:
    with sink("--processes", "1") as running:
        with running.connect() as client:
            client.sendall(ASKED * 3 + ASKED[:5])
            assert receive(client, 3 * len(ANSWER)) == 3 * ANSWER
            client.sendall(ASKED[5:])
            assert receive(client, len(ANSWER)) == ANSWER
        with running.connect() as after:  # the end of the first comes before its query
            exchange(after)
    ended = {"open", "closed_by_client"}
    assert running.seen["closed_by_client"] >= 1
    assert {key: value for key, value in running.seen.items() if value and key not in ended} == {
        "queries": 5,
        "connections": 2,
        "peak_open": 1,
        "sources": 1,
    }


def test_the_sink_answers_over_ipv6_and_counts_over_all_processes() -> None:
    with (
        sink() as running,
        running.connect() as four,
        socket.create_connection(("::1", running.port), timeout=60) as six,
    ):
        exchange(six)
        exchange(four)
    assert [running.seen[key] for key in ("queries", "connections", "peak_open")] == [2, 2, 2]


@pytest.mark.parametrize("bad", [b"\0\x0bhello world", ANSWER], ids=["too-short", "an-answer"])
def test_the_sink_ends_a_connection_with_what_is_no_query(bad: bytes) -> None:
    with sink("--processes", "1") as running, running.connect() as client:
        client.sendall(bad)
        assert client.recv(10) == b""
    assert (running.seen["failed"], running.seen["queries"]) == (1, 0)


def test_the_sink_keeps_answers_that_the_client_is_slow_to_read() -> None:
    queries = 200_000  # more than both buffers hold
    with sink("--processes", "1") as running, running.connect() as client:
        for _ in range(queries // 100):
            client.sendall(ASKED * 100)
        assert receive(client, queries * len(ANSWER)) == queries * ANSWER
    assert running.seen["queries"] == queries


def test_a_delayed_answer_comes_to_its_own_connection_only() -> None:
    with sink("--delay-ms", "100", "--processes", "1") as running:
        with running.connect() as gone:
            gone.sendall(ASKED)
        with running.connect() as client:
            exchange(client)
    assert running.seen["queries"] == 2


# --- TLS --------------------------------------------------------------------------------------------------


def test_the_sink_speaks_tls_with_alpn_and_its_keys_can_be_kept(identity: Path, tmp_path: Path) -> None:
    context = ssl.create_default_context(cafile=str(identity / "ca.pem"))
    context.set_alpn_protocols(["dot"])
    keys = tmp_path / "keys.txt"
    with (
        sink(*tls_words(identity), "--keylog", str(keys)) as running,
        running.connect() as plain,
        context.wrap_socket(plain, server_hostname=NAME) as client,
    ):
        assert (client.version(), client.selected_alpn_protocol()) == ("TLSv1.3", "dot")
        exchange(client)
    assert (running.seen["handshakes"], running.seen["resumed"], running.seen["queries"]) == (1, 0, 1)
    assert "CLIENT_TRAFFIC_SECRET_0" in keys.read_text()


@pytest.mark.parametrize(
    ("words", "resumed", "early"),
    [([], 0, 0), (["--resume"], 39, 0), (["--resume", "--early-data"], 39, 39)],
    ids=["full", "resumed", "early-data"],
)
def test_handshakes_are_of_the_kind_that_is_asked_for(
    identity: Path, words: list[str], resumed: int, early: int
) -> None:
    trust = ("--ca", str(identity / "ca.pem"), "--name", NAME)
    with sink(*tls_words(identity), "--early-data", "16384", "--processes", "1") as running:
        done = floor(running.port, *trust, "--connections", "40", "--in-flight", "10", *words)
        floor(running.port, *trust, "--connections", "1")  # the ends of the others come before its query
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "connections": 40,
        "answered": 40,
        "resumed": resumed,
        "early_data": early,
    }
    seen = running.seen
    assert (seen["queries"], seen["connections"], seen["handshakes"]) == (41, 41, 41)
    assert (seen["resumed"], seen["early_data"]) == (resumed, early)


def test_a_server_without_tickets_for_early_data_gets_none(identity: Path) -> None:
    trust = ("--ca", str(identity / "ca.pem"), "--name", NAME, "--connections", "5")
    with sink(*tls_words(identity)) as running:
        done = floor(running.port, *trust, "--resume", "--early-data")
    assert done.returncode == 1
    assert "4 of 5 connections failed, the first one:" in done.stderr


def test_the_floor_trusts_nobody_else(identity: Path) -> None:
    with sink(*tls_words(identity)) as running:
        few = (running.port, "--connections", "50", "--ca")
        wrong_name = floor(*few, str(identity / "ca.pem"), "--name", "other.example")
        wrong_authority = floor(*few, str(identity / "server.pem"), "--name", NAME)
    for done in (wrong_name, wrong_authority):
        assert done.returncode == 1
        assert "50 of 50 connections failed, the first one: certificate verify failed" in done.stderr


# --- floor and usage --------------------------------------------------------------------------------------


def test_the_floor_asks_once_a_connection() -> None:
    with sink() as running:
        done = floor(running.port, "--connections", "250", "--in-flight", "20")
    assert json.loads(done.stdout)["answered"] == 250
    assert (running.seen["queries"], running.seen["connections"]) == (250, 250)
    assert running.seen["peak_open"] <= 250


def test_the_floor_says_why_it_fails() -> None:
    done = floor(free_port(), "--connections", "3")
    assert done.returncode == 1
    assert "3 of 3 connections failed, the first one: Connection refused" in done.stderr


@pytest.mark.parametrize(
    ("name", "words", "text"),
    [
        ("floor", ["here"], "here: not an IPv4 address; give the server's"),
        ("floor", ["127.0.0.1", "--early-data"], "--early-data requires --resume"),
        ("floor", ["127.0.0.1", "--ca", "/nowhere"], "--ca /nowhere: no certificate in it; give a PEM file"),
        ("sink", [], "A subcommand is required"),
        ("sink", ["udp"], "INTERFACE is required"),
        ("sink", ["tcp", "--cert", "a.pem"], "--cert requires --key"),
        ("sink", ["tcp", "--cert", "a.pem", "--key", "a.key"], "give PEM files that belong together"),
        ("sink", ["tcp", "--processes", "0"], "--processes"),
        ("sink", ["tcp", "--processes", "65"], "--processes"),
    ],
)
def test_bad_options_are_usage_errors(name: str, words: list[str], text: str) -> None:
    argv = [programs.own(f"reprise-{name}"), *words]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert text in done.stderr


def test_a_sink_whose_process_ends_says_so() -> None:
    port = free_port()
    argv = [programs.own("reprise-sink"), "tcp", "--port", str(port), "--processes", "2"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        children = below(process.pid)
        assert len(children) == 2
        os.kill(children[0], signal.SIGKILL)
        assert process.wait(10) == 1
        assert "a process of the sink ended" in process.stderr.read()
    wait_for(lambda: has_ended(children[1]), "the end of the other one")


def test_a_killed_sink_leaves_no_process() -> None:
    argv = [programs.own("reprise-sink"), "tcp", "--port", str(free_port()), "--processes", "2"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        children = below(process.pid)
        process.kill()
    wait_for(lambda: all(map(has_ended, children)), "their end")
