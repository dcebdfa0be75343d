"""The DNS queries of a capture as Wireshark sees them: a reader that shares no code with ours."""

import json
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from cli import programs

_LAYERS = "frame ip ipv6 udp tcp dns"
_FILTER = "dns.flags.response == 0 && !icmp && !icmpv6"
_SUMMED = ("ip", "udp", "tcp")
Pairs = list[tuple[str, Any]]


@dataclass(frozen=True, order=True)
class Seen:
    """One query; its connection apart, because only who shares one matters."""

    time_ns: int
    source: str
    destination: str
    source_port: int
    destination_port: int
    transport: str
    message: str  # hexadecimal


@dataclass(frozen=True)
class View:
    """All queries in order of time, and those of each connection."""

    queries: tuple[Seen, ...]
    connections: frozenset[tuple[Seen, ...]]


def view(capture: Path, *, summed: bool = False) -> View:
    """Of a capture that tshark reads; `summed`: all its checksums of IPv4, UDP and TCP have to be right."""
    queries: list[Seen] = []
    connections: defaultdict[str, list[Seen]] = defaultdict(list)
    for layers in _frames(capture, summed):
        if summed:
            assert not _is_wrong(layers), layers
        for seen, stream in _queries(layers):
            queries.append(seen)
            if stream is not None:
                connections[stream].append(seen)
    return View(tuple(sorted(queries)), frozenset(tuple(sorted(found)) for found in connections.values()))


def _frames(capture: Path, summed: bool) -> list[Pairs]:
    """Those of queries, and where checksums are looked at those with a wrong one."""
    wrong = (f"{name}.checksum.status == 0" for name in _SUMMED)
    wanted = " || ".join((f"({_FILTER})", *wrong)) if summed else _FILTER
    checks = [word for name in _SUMMED if summed for word in ("-o", f"{name}.check_checksum:TRUE")]
    argv = [programs.packaged("tshark"), "-r", str(capture), *checks, "-Y", wanted]
    argv += ["-T", "json", "-x", "-j", _LAYERS]
    done = subprocess.run(argv, capture_output=True, check=True)
    # A frame may hold several DNS messages, each under the same key: so lists of pairs, not dictionaries.
    loaded: list[Pairs] = json.loads(done.stdout or b"[]", object_pairs_hook=list)
    return [_find(_find(frame, "_source"), "layers") for frame in loaded]


def _is_wrong(layers: Pairs) -> bool:
    statuses = {f"{name}.checksum.status" for name in _SUMMED}
    fields = (field for name, pairs in layers if name in _SUMMED for field in pairs)
    return any(name in statuses and value == "0" for name, value in fields)


def _find(pairs: Pairs, key: str) -> Any:
    """The last value of a key: of the innermost header, where tunnels have several."""
    return next(value for name, value in reversed(pairs) if name == key)


def _queries(layers: Pairs) -> list[tuple[Seen, str | None]]:
    transport = next((name for name, _ in layers if name in ("udp", "tcp")), "")
    if not transport:
        return []
    network = next(name for name, _ in reversed(layers) if name in ("ip", "ipv6"))
    addresses, ports = _find(layers, network), _find(layers, transport)
    time = int(Decimal(_find(_find(layers, "frame"), "frame.time_epoch")) * 10**9)
    found: list[tuple[Seen, str | None]] = []
    for name, raw in layers:
        message = _message(raw[0], transport) if name == "dns_raw" else ""
        if len(message) < 24 or int(message[4:6], 16) & 0x80:  # 12 bytes; a response
            continue
        seen = Seen(
            time,
            _find(addresses, f"{network}.src"),
            _find(addresses, f"{network}.dst"),
            int(_find(ports, f"{transport}.srcport")),
            int(_find(ports, f"{transport}.dstport")),
            transport,
            message,
        )
        found.append((seen, _find(ports, "tcp.stream") if transport == "tcp" else None))
    return [(seen, stream) for seen, stream in found if 53 in (seen.source_port, seen.destination_port)]


def _message(raw: str, transport: str) -> str:
    """Without TCP's length in front."""
    return raw[4:] if transport == "tcp" and int(raw[:4], 16) * 2 == len(raw) - 4 else raw
