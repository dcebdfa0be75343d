"""Releases of servers: read, compared, and what configurations owe them."""

import re
import subprocess
from pathlib import Path

import pytest

from cli import programs
from cli.experiment.schema import Hierarchy, Server
from cli.servers import bind, unbound
from cli.servers.kind import REFUSES, Site, release_in
from cli.servers.kinds import KINDS, REASON


@pytest.mark.parametrize(
    ("said", "release"),
    [
        ("BIND 9.20.30-1~deb13u1-Debian (Stable Release) <id:>", "9.20.30"),
        ("NSD version 4.12.0", "4.12.0"),
        ("Version 1.26.2", "1.26.2"),
        ("Knot Resolver, version 5.7.5", "5.7.5"),
        ("no such option", ""),
        (f"{'9' * 20}.1", ""),
    ],
)
def test_a_release_is_read_off_what_a_server_says(said: str, release: str) -> None:
    assert release_in(said) == release


def test_a_server_may_name_itself_in_any_bytes(tmp_path: Path) -> None:
    program = tmp_path / "own"
    program.write_text("#!/bin/sh\nprintf 'NSD version 4.12.0 of M\\374nchen\\n'\n")
    program.chmod(0o755)
    assert KINDS["nsd"].version(str(program)) == "4.12.0"


@pytest.mark.parametrize(
    ("version", "has_lock"), [("9.18.49", True), ("9.20.0", False), ("10.1", False), ("", False)]
)
def test_bind_is_told_of_a_lock_file_while_it_knows_one(version: str, has_lock: bool) -> None:
    assert ("lock-file none;" in bind.own_folder("/f", version)) is has_lock


def test_only_a_release_that_is_not_tested_gets_a_line() -> None:
    bind = KINDS["bind"]
    assert [bind.untested(one) for one in ("9.18.1", "9.20")] == ["", ""]
    assert bind.untested("").startswith("BIND of an unknown version is not tested")
    assert bind.untested("9.21.3") == "BIND 9.21.3 is not tested; Reprise is tested with 9.18 and 9.20"


def test_a_checker_refuses_before_the_server_starts() -> None:
    def run(checker: str, listed: bool = False) -> int:
        argv = KINDS["bind"].checked(("echo", "started"), "/etc/hostname", listed)
        done = subprocess.run([checker if one == "named-checkconf" else one for one in argv], check=False)
        return done.returncode

    assert (run("true"), run("false")) == (0, REFUSES)
    assert (run("true", listed=True), run("false", listed=True)) == (0, REFUSES)
    assert (run("no-such-checker"), run("no-such-checker", listed=True)) == (127, 127)


@pytest.mark.parametrize(
    ("log", "why"),
    [
        ("named.conf:12: option 'x' is deprecated\nnamed.conf:14: unknown option 'y'",
         "named.conf:14: unknown option 'y'"),
        ("24-Nov-2026 10:00:00.123 could not listen on UDP socket: permission denied\n"
         "24-Nov-2026 10:00:00.124 loading configuration: failure\n"
         "24-Nov-2026 10:00:00.124 exiting (due to fatal error)",
         "could not listen on UDP socket: permission denied"),
        ("24-Nov-2026 10:00:00.123 using built-in root key\n"
         "24-Nov-2026 10:00:00.124 loading configuration: file not found\n"
         "24-Nov-2026 10:00:00.124 exiting (due to fatal error)",
         "loading configuration: file not found"),
    ],
)  # fmt: skip
def test_why_a_server_did_not_start(log: str, why: str) -> None:
    found = re.search(REASON, log)
    assert found and found[0].strip() == why


@pytest.mark.parametrize(
    ("version", "has_limits"), [("9.18.24", False), ("9.18.28", True), ("9.20.1", True), ("", True)]
)
def test_a_bind_that_limits_the_records_of_a_name_is_told_not_to(version: str, has_limits: bool) -> None:
    assert ("max-records-per-type" in bind.zone_checks(version)) is has_limits


def test_unbound_has_no_limit_for_one_client(tmp_path: Path) -> None:
    """Where it knows one; what the user sets counts."""
    program, folder, config = programs.find("unbound-checkconf"), tmp_path / "server", tmp_path / "u.conf"
    if program is None:
        pytest.skip("unbound is not installed")
    folder.mkdir()
    (tmp_path / "hints").write_text(". 60 NS a.\na. 60 A 192.0.2.1\n", encoding="ascii")
    for lines, limit in (("", "0"), ("server:\n    wait-limit: 7\n", "7")):
        hints = str(tmp_path / "hints")
        own, asking = ("127.0.0.1",), ("127.0.0.2", "::1")
        site = Site(str(folder), (), own, "", 9_000, extra=lines, upstream=asking, hints=hints)
        config.write_text(unbound.resolver(Server(), Hierarchy(validate=False), site), encoding="ascii")
        asked = subprocess.run(
            [program, "-o", "wait-limit", config], capture_output=True, text=True, check=False
        )
        if asked.returncode:
            pytest.skip("this unbound has no such limit")
        subprocess.run(KINDS["unbound"].checked(("true",), str(config)), check=True)
        assert subprocess.check_output([program, "-o", "wait-limit", config], text=True).strip() == limit


def test_every_kind_has_what_its_roles_need() -> None:
    assert all(kind.counted for kind in KINDS.values() if kind.resolver)
