"""What servers have counted, and the path behind a resolver.

Each server counts in its own way; the files have the same few numbers for all. Read before and after a
replay, the difference is the replay's; read each second, what happened when. `recursions` are queries that a
resolver did not answer from its cache.

A resolver may go on for itself (addresses of name servers, keys) when its clients have their answers, and
that is not the replay's: the counts may wait until it asks nobody any more.
"""

import contextlib
import csv
import itertools
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cli import programs
from cli.errors import RepriseError
from cli.servers.conditions import keep
from cli.servers.kind import Serving
from cli.servers.kinds import KINDS
from cli.servers.nftables import NAT, counters
from report.run import COUNTED, UPSTREAM

_PATIENCE_S = 5.0  # with a proxy that writes its statistics each second
_IDLE_S = 60.0  # a resolver tries a name server that does not answer for so long
_MOST_NAMED = 100  # unmapped addresses
_EACH_S = 1.0
_TRIES = 3  # to learn what a server counts
_UPSTREAM = ("udp_queries", "udp_dropped", "tcp_connections", "tcp_queries")
_OWN = ("queries", "recursions", "under_way")
_UNREAD = (OSError, ValueError, KeyError, StopIteration, RepriseError)


def await_idle(kind: str, folder: Path) -> None:
    """Returns when a resolver has nothing under way, or after a minute."""
    end = time.monotonic() + _IDLE_S
    with _telling(kind):
        while _own(kind, Serving(folder))["under_way"] and time.monotonic() < end:
            time.sleep(0.05)


def _own(kind: str, server: Serving, names: Sequence[str] = _OWN) -> dict[str, int]:
    """A server's own counters of these names, or all that it has where there are none; KeyError where one is
    not there.
    """
    read = KINDS[kind].counted
    assert read is not None, "it says what it has counted"
    found = read(server)
    return {name: found[name] for name in names} if names else found


@contextlib.contextmanager
def _telling(kind: str) -> Iterator[None]:
    """What cannot be read is an error."""
    try:
        yield
    except (OSError, ValueError, KeyError, StopIteration) as error:
        what = f"cannot read what {kind} has counted: {type(error).__name__}: {error}"
        raise RepriseError(what, "see its log") from None


def of_proxy(
    folder: Path, prefix: str, patience_s: float = _PATIENCE_S, asked: int | None = None
) -> dict[str, Any]:
    """What the proxies of a host have counted, one after the other. Packets that were at the device at the
    time `asked`, or when this began, are among them, unless the last proxy has ended or patience has.
    """
    asked = time.monotonic_ns() if asked is None else asked
    end = time.monotonic() + patience_s
    while True:
        files = sorted(folder.glob(f"{prefix}*.json"))
        found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        if any(one["counted_until_ns"] >= asked for one in found) or time.monotonic() > end:
            break
        time.sleep(0.05)
    names: Counter[str] = Counter()
    for one in found:
        names.update({str(item["address"]): int(item["packets"]) for item in one.get("unmapped", [])})
    return {
        **{name: sum(one["upstream"][name] for one in found) for name in _UPSTREAM},
        "unmapped_packets": sum(one["packets"].get("unmapped", 0) for one in found),
        "unmapped": dict(names.most_common(_MOST_NAMED)),
        "counted_until_ns": max((one["counted_until_ns"] for one in found), default=asked),
    }


def of_nftables(named: bool = True) -> dict[str, Any]:
    """What the host's ruleset has counted; `named`: with the addresses that no zone is served at."""
    argv = [programs.packaged("nft"), "-j", "list", *(() if named else ("counters",)), "table", "inet", NAT]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RepriseError(f"nft failed: {done.stderr.strip()}", "see `reprise doctor`")
    listing = json.loads(done.stdout)
    counted = counters(listing, NAT)
    sets = [one["set"].get("elem", []) for one in listing["nftables"] if "set" in one]
    elements = [one["elem"] for one in itertools.chain(*sets) if "elem" in one]
    names = {str(one["val"]): int(one["counter"]["packets"]) for one in elements}
    return {
        **{name: counted[name] for name in _UPSTREAM},
        "unmapped_packets": counted["unmapped"],
        "unmapped": dict(Counter(names).most_common(_MOST_NAMED)),
        "counted_until_ns": time.monotonic_ns(),
    }


def write(
    kind: str,
    folder: Path,
    out: Path,
    proxies: Path | None = None,
    prefix: str = "",
    first: Path | None = None,
) -> None:
    """Writes what a resolver of a kind with this folder has counted, and its proxies or, where it has none,
    its host's ruleset. Proxies write their counts each second; where this has waited for the `first` resolver
    of a machine, those of the others are as new as its own.
    """
    with _telling(kind):
        own = _own(kind, Serving(folder))
        since = json.loads(first.read_bytes())["counted_until_ns"] if first and first.is_file() else None
        path = of_proxy(proxies, prefix, asked=since) if proxies else of_nftables()
    keep(out, {**own, **path})


def watch(kind: str, folder: Path, out: Path, process: int, log: Path, tls: bool) -> None:
    """Writes each second what an authoritative server has counted, in columns of what it counts."""
    server, columns = Serving(folder, process, log, tls), list(COUNTED)
    for _ in range(_TRIES):
        with contextlib.suppress(*_UNREAD):
            first = _own(kind, server, ())
            columns = [one for one in COUNTED if one in first]
            break
    _each_second(out, columns, {"server": lambda: _own(kind, server, columns)})


def watch_resolver(kind: str, folder: Path, out: Path, proxies: Path | None = None, prefix: str = "") -> None:
    """Writes the same of a resolver: a line of its own, and one of the process `upstream` with the time until
    which its data path has counted.
    """
    reads: dict[str, Callable[[], dict[str, Any]]] = {
        out.stem: lambda: _own(kind, Serving(folder)),
        UPSTREAM: lambda: of_proxy(proxies, prefix, 0.0) if proxies else of_nftables(named=False),
    }
    _each_second(out, (*_OWN, "udp_queries", "tcp_queries"), reads)


def _each_second(
    out: Path, columns: Sequence[str], reads: Mapping[str, Callable[[], dict[str, Any]]]
) -> None:
    """Writes what is read of processes each second, and when it is ended, in the form of the sampler. What
    cannot be read in time has no line in that second.
    """
    end = {signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, end)  # it is waited for
    begun, last = time.monotonic(), False
    with out.open("x", encoding="utf-8", newline="") as file:
        names = ("time_real_ns", "time_mono_ns", "process", *columns)
        lines = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        lines.writeheader()
        for turn in itertools.count():
            for process, read in reads.items():
                with contextlib.suppress(*_UNREAD):
                    found = read()
                    until = found.get("counted_until_ns", time.monotonic_ns())
                    real = time.time_ns() - time.monotonic_ns() + until
                    lines.writerow(found | dict(zip(names, (real, until, process), strict=False)))
            file.flush()
            if turn == 0:
                sys.stderr.write("watching\n")
            if last:
                break
            left_s = max(0.0, begun + (turn + 1) * _EACH_S - time.monotonic())
            last = signal.sigtimedwait(end, left_s) is not None
