"""The resolver of `reprise zones harvest`: a BIND with an empty cache, which keeps its upstream side.

It reads what anybody on the Internet sends it, so it does not run as root: root starts it as its package's
user without any capability. It gets its capture as an open file, since the folder may be closed to others.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import pwd
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from cli import linux, programs
from cli.errors import RepriseError, UsageError
from cli.process import Process
from cli.servers import kinds, named_lines

CAPTURE = "upstream-{}.dnstap"  # by the number of the run
_NUMBER = re.compile(r"upstream-(\d+)\.dnstap")
_USER = kinds.KINDS["bind"].user
_READY_S = 60.0
_END_S = 30.0
_CACHE_BYTES = 512 << 20


class Resolver:
    """Runs while the `with` block does, with a folder of its own. `port`: where it answers on 127.0.0.1."""

    def __init__(self, output: Path, servers: Sequence[tuple[str, bool]] = ()) -> None:
        """`servers`: prefixes, and whether name servers there are queried; the longest match counts."""
        self._output = output.absolute()
        self._servers = servers
        numbers = [int(found[1]) for one in output.iterdir() if (found := _NUMBER.fullmatch(one.name))]
        self._capture = self._output / CAPTURE.format(max(numbers, default=0) + 1)
        self._made = Path(tempfile.mkdtemp(prefix="reprise-harvest-", dir="/var/tmp"))
        self._user = _user()
        self._file = -1
        self._process: Process | None = None
        self.port = _free_port()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._file = os.open(self._capture, flags, 0o644)
        named = programs.copied("named", self._made)
        config = self._made / "named.conf"
        config.write_text(self._config(), encoding="utf-8")
        bound = linux.bound(programs.packaged("setpriv"))
        rights: tuple[str, ...] = ()
        if self._user is not None:
            for path in (self._made, config):
                os.chown(path, self._user.pw_uid, self._user.pw_gid)
            os.fchown(self._file, self._user.pw_uid, self._user.pw_gid)
            rights = _rights(self._user)
        log = self._output / "named.log"
        log.unlink(missing_ok=True)
        argv = [*rights, *bound, named, "-g", "-c", str(config)]
        self._process = Process.started(argv, log, name="named", held=(self._file,))
        self._process.until(" running\n", _READY_S, kinds.REASON)

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
            if self._file >= 0:
                self._take_back()
        finally:
            shutil.rmtree(self._made, ignore_errors=True)

    def _take_back(self) -> None:
        """The capture is ours again; one of a resolver that did not start is removed."""
        if self._user is not None:
            os.fchown(self._file, os.geteuid(), os.getegid())
        if os.fstat(self._file).st_size == 0:
            self._capture.unlink(missing_ok=True)
        os.close(self._file)
        self._file = -1

    @property
    def pid(self) -> int:
        """Its process, while it runs."""
        assert self._process is not None
        return self._process.pid

    def ended(self) -> bool:
        """Whether it has ended by itself."""
        return self._process is not None and self._process.has_ended()

    def size(self) -> int:
        """Size of the capture so far, in bytes."""
        return os.fstat(self._file).st_size

    def stop(self) -> bool:
        """Ends it in order; whether its capture is whole."""
        with contextlib.suppress(RepriseError):  # it was killed
            return self._process is not None and self._process.stop(limit_s=_END_S) == 0
        return False

    def _config(self) -> str:
        """Queries carry DO, as BIND's always do. Without QNAME minimization (RFC 9156), because the names in
        between are asked for by themselves.
        """
        servers = "".join(
            f"server {prefix} {{ bogus {'no' if asked else 'yes'}; }};\n" for prefix, asked in self._servers
        )
        own_folder = named_lines.own_folder(str(self._made), kinds.KINDS["bind"].version())
        return f"""options {{
{own_folder}    listen-on port {self.port} {{ 127.0.0.1; }};
    listen-on-v6 {{ none; }};
    recursion yes;
    allow-query {{ 127.0.0.1; }};
    dnssec-validation no;
    qname-minimization off;
    empty-zones-enable no;
    prefetch 0;
    minimal-responses no;
    max-cache-size {_CACHE_BYTES};
    dnstap {{ resolver; }};
    dnstap-output file "/proc/self/fd/{self._file}";
}};
controls {{ }};
{servers}"""


def _user() -> pwd.struct_passwd | None:
    """Whom root starts it as; None where we are not root, there is no such user, or root may not become him,
    as in some containers.
    """
    try:
        user = pwd.getpwnam(_USER) if os.geteuid() == 0 else None
    except KeyError:
        return None
    if user is None or subprocess.run([*_rights(user), "true"], capture_output=True, check=False).returncode:
        return None
    return user


def _rights(user: pwd.struct_passwd) -> tuple[str, ...]:
    return linux.setpriv(programs.packaged("setpriv"), _USER, str(user.pw_gid), ())


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.bind(("127.0.0.1", 0))
        return int(channel.getsockname()[1])


# --- name servers that are not queried --------------------------------------------------------------------

_Prefix = ipaddress.IPv4Network | ipaddress.IPv6Network

# Where no name server of the Internet can be: special-purpose addresses that are not globally reachable, by
# https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry (November 2026),
# multicast, and all of IPv6 except 2000::/3. Those from 224.0.0.0 on hold multicast and what is reserved, as
# the last ones of IPv6 do; some of ::/3, 2001::/23 (Teredo) and 2002::/16 (6to4) hold IPv4 addresses.
_PREFIXES = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
    ::/3 2001::/23 2001:db8::/32 2002::/16 3fff::/20 4000::/2 8000::/1
"""
SPECIAL = tuple(map(ipaddress.ip_network, _PREFIXES.split()))


def prefixes_of(allowed: Sequence[str]) -> list[tuple[str, bool]]:
    """Prefixes, and whether servers there are queried: the longest match for an address counts. Throws
    UsageError.
    """
    given: list[_Prefix] = []
    for text in allowed:
        try:
            given.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise UsageError(f"--allow {text}: {error}", "give a prefix like 10.0.0.0/8") from None
    kept = [one for one in SPECIAL if not any(_within(one, other) for other in given)]
    return [*((str(one), False) for one in kept), *((str(one), True) for one in given)]


def _within(one: _Prefix, other: _Prefix) -> bool:
    return one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]
