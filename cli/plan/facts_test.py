"""What servers are asked for and cannot do, and the names of their zones."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.errors import UsageError
from cli.experiment.schema import Experiment, Hierarchy, Server, Wildcard, World
from cli.plan import facts

PLAIN = Experiment(name="x", trace="/t.pcap", server=Server(zone="/z"))
RESOLVER = Experiment(
    name="x", trace="/t.pcap", server=Server(kind="hierarchy"), hierarchy=Hierarchy(synth=World())
)


@pytest.mark.parametrize(
    ("kind", "asked", "error"),
    [
        (
            "bind",
            {"tcp_idle_timeout_s": 300.0},
            "BIND cannot close connections that were idle for 300 s; 120",
        ),
        ("bind", {"tcp_idle_timeout_s": 3.75}, ""),
        ("bind", {"tcp_listen_queue": 9}, ""),
        ("nsd", {"tcp_idle_timeout_s": 300.0}, ""),
        ("nsd", {"tcp_idle_timeout_s": 0.5}, "NSD cannot close connections that were idle for 0.5 s; 1"),
        ("nsd", {"tcp_idle_timeout_s": 2.5}, "NSD cannot close connections that were idle for 2.5 s; 2"),
        ("nsd", {"tcp_idle_timeout_s": 0.5, "front": "dnsdist"}, "NSD cannot close"),
        ("nsd", {"tcp_listen_queue": 9}, "NSD has no use for server.tcp_listen_queue; leave"),
        ("nsd", {"tcp_listen_queue": 9, "front": "dnsdist"}, ""),
        ("command", {"tcp_idle_timeout_s": 0.5, "front": "dnsdist"}, "dnsdist cannot close"),
        ("bind", {"edns_size": 8192}, "server.edns_size = 8192 is out of range for BIND; use 512 to 4096"),
        ("knot", {"edns_size": 8192}, "server.edns_size = 8192 is out of range for Knot DNS"),
        ("pdns", {"rrl": 5}, "PowerDNS has no use for server.rrl"),
    ],
)
def test_what_a_server_would_not_heed_is_refused(kind: str, asked: dict[str, Any], error: str) -> None:
    _check(replace(PLAIN, server=Server(kind=kind, zone="/z", **asked)), error)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("resolver", "asked", "error"),
    [
        (("bind", "knot-resolver"), {"processes": 2}, "knot-resolver has no use for server.processes"),
        ("knot-resolver", {"tcp_count": 9}, "knot-resolver has no use for server.tcp_count"),
        ("unbound", {"processes": 2, "tcp_idle_timeout_s": 0.25}, ""),
        ("pdns-recursor", {"tcp_idle_timeout_s": 0.25}, "PowerDNS Recursor cannot close"),
    ],
)
def test_nor_is_what_a_resolver_would_not(resolver: Any, asked: dict[str, Any], error: str) -> None:
    emulated = Hierarchy(synth=World(), resolver=resolver)
    _check(replace(RESOLVER, hierarchy=emulated, server=Server(kind="hierarchy", **asked)), error)


def _check(experiment: Experiment, error: str) -> None:
    if not error:
        facts.check_kinds(experiment)
        return
    with pytest.raises(UsageError) as refused:
        facts.check_kinds(experiment)
    what, _, hint = error.partition("; ")
    assert refused.value.what.startswith(what) and hint in refused.value.hint


def test_a_zone_has_its_whole_name() -> None:
    for server, name in (
        (Server(origin="Example.ORG"), "example.org."),
        (Server(origin="."), "."),
        (Server(wildcard=Wildcard(origin="x.")), "x."),
        (Server(), "."),
    ):
        assert facts._origin_of(server) == name


def test_what_git_cannot_read_has_no_commit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(programs, "ROOT", tmp_path)
    assert facts.commit() is None
