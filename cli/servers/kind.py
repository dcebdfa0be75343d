"""What Reprise must know of a server that it starts. Each server has a file here that says it.

Uses Python's own library alone: the bootstrap reads it.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from cli import programs

if TYPE_CHECKING:
    from cli.experiment import schema

    Hierarchy = schema.Hierarchy
    Server = schema.Server

REFUSES = 78  # the exit status of a server whose checker refuses its configuration (EX_CONFIG of sysexits.h)
# What a checker says of a configuration that it takes is the server's to say. From 124 on a status says that
# the checker was not found, was killed, or could not be run by xargs.
_CHECK = (
    'checker=$1 file=$2; shift 2; said=$({check} 2>&1) && exec "$@"; status=$?; '
    'printf "%s\\n" "$said" >&2; [ $status -lt 124 ] && status={status}; exit $status'
)
_LISTED = 'xargs -r -d "\\n" -n 1 "$checker" < "$file"'
_BESIDE_CLIENTS = 512  # descriptors of an authoritative server
DESCRIPTOR_RESERVE = 1_024  # what a resolver needs beside its clients' connections
_ASK_S = 10.0
_TALK_S = 5.0
_VERSION = re.compile(r"(?<![\d.])\d{1,9}(?:\.\d{1,9}){1,5}")


@dataclass(frozen=True)
class Service:
    """DNS over TLS: its port, and the files of the key and the certificate."""

    port: int
    key: str
    certificate: str


@dataclass(frozen=True)
class Site:
    """Where a server runs: its folder, its zones (origins and files), addresses, the user it drops to ("" =
    none), a process's descriptors, TLS where it is wanted, and the server's version.
    """

    folder: str
    zones: tuple[tuple[str, str], ...]
    addresses: tuple[str, ...]
    user: str
    descriptors: int
    tls: Service | None = None
    connections_only: bool = False  # no query comes over UDP
    version: str = ""
    extra: str = ""  # the lines that the user adds
    behind: str = ""  # of a front: the address of the server that it asks
    upstream: tuple[str, str] = ("", "")  # of a resolver: the addresses from which it asks
    hints: str = ""
    anchors: str = ""  # DNSKEY records as zone text
    bind_anchors: str = ""  # the same as a statement of named.conf

    def connections(self, server: Server) -> int:
        """Those of clients at once: as asked, otherwise what its descriptors allow."""
        return server.tcp_count or max(1_000, min(self.descriptors - _BESIDE_CLIENTS, 200_000))

    def clients(self, server: Server) -> int:
        """The same of a resolver."""
        return server.tcp_count or max(100, min(self.descriptors // 2 - DESCRIPTOR_RESERVE, 100_000))


@dataclass(frozen=True)
class Serving:
    """A server that runs: its folder, and of an authoritative one its process, the file of its log, and
    whether it is asked over TLS.
    """

    folder: Path
    process: int = 0
    log: Path = Path()
    tls: bool = False


@dataclass(frozen=True)
class Condition:
    """What a server runs with, by the same title for all kinds; `key` is its own name for it, and what it
    says times `factor` is in the title's unit.
    """

    title: str
    key: str
    factor: float = 1.0

    def value(self, text: str) -> int | float | str:
        """Of what the server says; words stay as they are."""
        try:
            number = round(float(text) * self.factor, 6)
        except ValueError:
            return text
        return int(number) if number.is_integer() else number


class Title:
    """Of conditions that several kinds have."""

    CONNECTIONS = "connections as configured"
    IDLE = "idle timeout of TCP, s"
    UDP_SIZE = "largest answer over UDP, bytes"
    EDNS_SIZE = "EDNS size, bytes"
    CACHE = "cache, MB"
    MINIMIZATION = "QNAME minimization"
    RATE_LIMIT = "rate limit of answers, 1/s"


@dataclass(frozen=True)
class ServerKind:
    """A server.

    `asks`: the option with which the program prints its version. `user`: whom it drops to, as its package
    does. `tested`: releases with which our tests ran. `packages`: those of Debian with it, its program's
    first; `section`: that of packages.txt where they belong, "" = one of their own, by the kind's name;
    `services`: what the package starts. `options`: those that start it in the foreground, where {config},
    {folder}, {processes} stand for what a run gives, and with `as_user` {user}. `complaints`: lines of its
    log that say that something broke while it answered on, as a regular expression. `reason`: what it or its
    checker says of why it does not start, likewise, beside the forms that several have (kinds.REASON).
    `tools`: other programs of its first package that are called.

    `config_name`: that of the file with its configuration, if it has to have one, and {configs} its folder.
    `quoted_as`: how its messages name that file, "" = by its name.
    `events`: lines of its log, with their time, that say when it read its zones again or was sent one.
    `reloads`: it does so at SIGHUP.

    `copied`: a packager's AppArmor profile keeps the program out of our folders. `stays_root`: it does not
    give up root by itself. `checker`: the program that reads a configuration and complains of it, with the
    words `checks`; "" = only the server itself does. `over_tls`: it serves DNS over TLS. `unused`: keys of
    [server] that it has no use for. `idle_step_s`, `longest_idle_s`: idle timeouts that it takes are whole
    multiples of the one up to the other. `zone_checker`: the program that complains of a zone, before its
    origin and file. `refused`: lines of the log that say of a zone that it does not load, with the groups
    `what` and `why`.

    `authoritative`, `resolver` and `front` write its configuration as one; None = it is none. `beside` writes
    further files of an authoritative server, by name. `counted` reads what a server has counted since it
    started: `queries`, and of an authoritative server that counts them `tcp_queries` and `answers`, of a
    resolver `recursions` and what is `under_way`. `sees_early`: as a resolver it refuses signatures that are
    not yet valid, also where it accepts expired ones; `takes_expired`: it can be told to accept them.

    `shows`: a line of shell that prints what the server makes of its configuration "$1", what is given after
    the defaults; `conditions`: what is read of it, the last value of each key ({keys} in the line,
    as {program} is the server's).
    """

    title: str
    program: str
    asks: str = "--version"
    user: str = ""
    tested: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    complaints: str = ""
    reason: str = ""
    tools: tuple[str, ...] = ()
    section: str = ""
    config_name: str = ""
    quoted_as: str = ""
    events: str = ""
    reloads: bool = False
    as_user: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    copied: bool = False
    stays_root: bool = False
    checker: str = ""
    checks: tuple[str, ...] = ("{file}",)
    over_tls: bool = True
    unused: tuple[str, ...] = ()
    idle_step_s: float = 1.0
    longest_idle_s: float = 6_553.0
    largest_edns: int = 65_535
    zone_checker: tuple[str, ...] = ("named-checkzone", "-i", "none", "-k", "ignore")
    refused: str = ""
    authoritative: Callable[[Server, Site], str] | None = None
    beside: Callable[[Site], dict[str, str]] | None = None
    resolver: Callable[[Server, Hierarchy, Site], str] | None = None
    shows: str = ""
    conditions: tuple[Condition, ...] = ()
    front: Callable[[Server, Site], str] | None = None
    counted: Callable[[Serving], dict[str, int]] | None = None
    sees_early: bool = False
    takes_expired: bool = False

    @property
    def config_file(self) -> str:
        return self.config_name or f"{self.program}.conf"

    def idle_s(self, wanted: float) -> float:
        """The idle timeout that it takes which is nearest to the one that is wanted."""
        steps = max(1, round(min(wanted, self.longest_idle_s) / self.idle_step_s))
        return round(steps * self.idle_step_s, 3)

    def argv(self, program: str, config: str, folder: str, processes: int, user: str) -> tuple[str, ...]:
        """The command that starts it; `user` = "": it runs as who starts it."""
        words = (*self.options, *(self.as_user if user else ()))
        configs = config.rpartition("/")[0]
        given = {"config": config, "configs": configs, "folder": folder, "processes": processes, "user": user}
        return (program, *(word.format(**given) for word in words))

    def shown(self, config: str, program: str = "") -> str:
        """What the server, by itself that of this machine, makes of a configuration; "" where it does not
        say.
        """
        keys = " ".join(one.key for one in self.conditions)
        line = self.shows.replace("{keys}", keys).replace("{program}", shlex.quote(program or self.program))
        argv, pipe = ["sh", "-c", line, "sh", config], subprocess.PIPE
        with subprocess.Popen(argv, stdout=pipe, errors="replace", start_new_session=True) as child:
            try:
                return child.communicate(timeout=_ASK_S)[0]
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                return ""

    def says(self, program: str = "") -> str:
        """The first line that a program, by itself that of this machine, says of its version; "" where there
        is none.
        """
        path = program or programs.find(self.program)
        if path is None:
            return ""
        argv = [path, self.asks]
        try:
            done = subprocess.run(
                argv, input="", capture_output=True, errors="replace", timeout=_ASK_S, check=False
            )
        except subprocess.TimeoutExpired:
            return ""
        return (done.stdout or done.stderr).partition("\n")[0].strip()

    def version(self, program: str = "") -> str:
        """The release of a program, by itself that of this machine, such as "9.18.49"; "" where it is not
        known.
        """
        return release_in(self.says(program))

    def untested(self, version: str) -> str:
        """A line where a release is none of those tested, "" where it is."""
        if version and any(numbers(version)[:2] == numbers(one) for one in self.tested):
            return ""
        found = version or "of an unknown version"
        return f"{self.title} {found} is not tested; Reprise is tested with {' and '.join(self.tested)}"

    def refusal(self, version: str) -> str:
        """What the exit status REFUSES means."""
        return f"{self.title} {version or 'of an unknown version'} refuses its configuration"

    def checked(self, argv: tuple[str, ...], config: str, listed: bool = False) -> tuple[str, ...]:
        """The command `argv`, which is carried out when the checker takes the configuration, or each of those
        that are `listed` in it, a line each.
        """
        if not self.checker:
            return argv
        words = " ".join(one.replace("{file}", '"$file"') for one in self.checks)
        line = _CHECK.format(check=_LISTED if listed else f'"$checker" {words}', status=REFUSES)
        return ("sh", "-c", line, "sh", self.checker, config, *argv)


def release_in(text: str) -> str:
    """The first release named in a text, "" where there is none."""
    found = _VERSION.search(text)
    return found[0] if found else ""


def numbers(version: str) -> tuple[int, ...]:
    """A release as numbers, which compare as releases do; an unknown one is newer than all others."""
    return tuple(map(int, version.split("."))) if version else (2**31,)


def asked(tool: str, *words: str) -> str:
    """What a server's own tool prints; OSError where it does not reach the server in time."""
    argv = [programs.packaged(tool), *words]
    try:
        return subprocess.run(argv, capture_output=True, text=True, timeout=_TALK_S, check=True).stdout
    except subprocess.SubprocessError as error:
        raise OSError(f"{tool}: {error}") from None


def talk(
    address: str | tuple[str, int], command: bytes, done: Callable[[bytes], bool] = lambda _so_far: False
) -> str:
    """Says one thing to a unix socket, or to a port over TCP, and reads until the end, or until `done`. The
    connection leaves no TIME-WAIT, which would count as one of clients.
    """
    with socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET) as end:
        end.settimeout(_TALK_S)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        end.connect(address)
        end.sendall(command)
        said = b""
        while not done(said):
            chunk = end.recv(65_536)
            if not chunk:
                break
            said += chunk
    return said.decode("utf-8", "replace")
