"""The resolver of `reprise zones harvest`: a BIND with an empty cache, which keeps its upstream side.

It reads what anybody on the Internet sends it, so it does not run as root: root starts it as its package's
user without any capability. It gets its capture as an open file, since the folder may be closed to others.
"""

import contextlib
import ipaddress
import os
import pwd
import re
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cli import linux, programs
from cli.errors import RepriseError, UsageError
from cli.process import Process
from cli.servers import bind, kinds

CAPTURE = "upstream-{}.dnstap"  # by the number of the run
_NUMBER = re.compile(r"upstream-(\d+)\.dnstap")
_USER = bind.KIND.user
_READY_S = 60.0
_END_S = 30.0
_CACHE_BYTES = 512 << 20


@dataclass(frozen=True)
class Resolver:
    """A resolver that runs: its process, its capture as an open file, and where it answers on 127.0.0.1."""

    process: Process
    file: int
    port: int

    def stop(self) -> bool:
        """Ends it in order; whether its capture is whole."""
        with contextlib.suppress(RepriseError):  # it was killed
            return self.process.stop(limit_s=_END_S) == 0
        return False


@contextlib.contextmanager
def started(output: Path, servers: Sequence[tuple[str, bool]] = ()) -> Iterator[Resolver]:
    """A resolver that runs while the `with` block does. `servers`: prefixes, and whether name servers there
    are queried; the longest match counts. The capture is in `output`, unless it is empty.
    """
    output, user = output.absolute(), _user()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        channel.bind(("127.0.0.1", 0))
        port = int(channel.getsockname()[1])
    numbers = [int(found[1]) for one in output.iterdir() if (found := _NUMBER.fullmatch(one.name))]
    capture = output / CAPTURE.format(max(numbers, default=0) + 1)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    file = os.open(capture, flags, 0o644)
    try:
        with tempfile.TemporaryDirectory(
            prefix="reprise-harvest-", dir="/var/tmp", ignore_cleanup_errors=True
        ) as made:
            named = programs.copied("named", Path(made))
            config = Path(made, "named.conf")
            config.write_text(_config(made, port, file, servers), encoding="utf-8")
            if user is not None:
                for one in (made, config, file):
                    os.chown(one, user.pw_uid, user.pw_gid)
            log = output / "named.log"
            log.unlink(missing_ok=True)
            bound = linux.bound(programs.packaged("setpriv"))
            argv = [*(_rights(user) if user else ()), *bound, named, "-g", "-c", str(config)]
            resolver = Resolver(Process.started(argv, log, name="named", held=(file,)), file, port)
            try:
                resolver.process.until(" running\n", _READY_S, kinds.REASON)
                yield resolver
            finally:
                resolver.stop()
    finally:
        if user is not None:  # the capture is ours again
            os.fchown(file, os.geteuid(), os.getegid())
        if os.fstat(file).st_size == 0:
            capture.unlink(missing_ok=True)
        os.close(file)


def _config(folder: str, port: int, file: int, servers: Sequence[tuple[str, bool]]) -> str:
    """Queries carry DO, as BIND's always do. Without QNAME minimization (RFC 9156), because the names in
    between are asked for by themselves.
    """
    listed = "".join(
        f"server {prefix} {{ bogus {'no' if asked else 'yes'}; }};\n" for prefix, asked in servers
    )
    own_folder = bind.own_folder(folder, bind.KIND.version())
    return f"""options {{
{own_folder}    listen-on port {port} {{ 127.0.0.1; }};
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
    dnstap-output file "/proc/self/fd/{file}";
}};
controls {{ }};
{listed}"""


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


# --- name servers that are not queried --------------------------------------------------------------------

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
    given: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
    for text in allowed:
        try:
            given.append(ipaddress.ip_network(text))
        except ValueError as error:
            raise UsageError(f"--allow {text}: {error}", "give a prefix like 10.0.0.0/8") from None
    kept = [
        one
        for one in SPECIAL
        if not any(one.version == other.version and one.subnet_of(other) for other in given)  # type: ignore[arg-type]
    ]
    return [*((str(one), False) for one in kept), *((str(one), True) for one in given)]
