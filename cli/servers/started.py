"""The programs that an experiment starts, read off its tables: as they stand in the file, or as resolved.

Uses Python's own library alone, see tables.py. A key that is not there has the default of schema.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.experiment.tables import get
from cli.servers.kinds import KINDS, STARTED

Tables = Mapping[str, Any]


def _kind(tables: Tables) -> str:
    return str(get(tables, "server.kind", "nsd"))


def source_mode(tables: Tables) -> str:
    """What the server sees as the queries' sources."""
    return str(get(tables, "replay.source_mode", "ports"))


def front(tables: Tables) -> str:
    return str(get(tables, "server.front", "kernel"))


def own_programs(tables: Tables) -> tuple[str, ...]:
    """Our programs that an experiment starts."""
    emulated, rtt = _kind(tables) == "hierarchy", get(tables, "rtt") is not None
    mutator = get(tables, "trace") is None or get(tables, "mutate") is not None or emulated
    mutator = mutator or get(tables, "rtt.by") is not None
    watched = get(tables, "server.pid") or get(tables, "server.service")
    sampler = _kind(tables) != "address" or watched or get(tables, "sample.clients", False)
    tun = emulated and get(tables, "hierarchy.data_path", "tun") == "tun"
    return (
        "reprise-controller",
        "reprise-querier",
        *(("reprise-mutator",) if mutator else ()),
        *(("reprise-sampler",) if sampler else ()),
        *(("reprise-zonebuilder",) if emulated or get(tables, "server.capture") else ()),
        *(("reprise-proxy",) if rtt or tun or front(tables) in ("reference", "bpf") else ()),
    )


def packaged_programs(tables: Tables) -> tuple[str, ...]:
    """The packaged programs that an experiment starts."""
    capture = ("tcpdump",) if get(tables, "sample.capture", False) else ()
    if _kind(tables) == "hierarchy":
        resolver = get(tables, "hierarchy.resolver", "bind")
        resolvers = [resolver] if isinstance(resolver, str) else list(resolver)
        kinds = [*resolvers, get(tables, "hierarchy.engine", "bind")]
        named = dict.fromkeys(KINDS[one].program for one in kinds if one in KINDS)
        return (*named, "nft", "ip", "sysctl", *capture)
    shaped: tuple[str, ...] = ("ip", "sysctl") if get(tables, "rtt") is not None else ()
    faulty = ("nft",) if get(tables, "fault") else ()
    shaped = shaped or (("ip",) if get(tables, "socket.offload", True) is False else ())
    own = STARTED.get(_kind(tables))
    packaged = (KINDS[name].program for name in (_kind(tables), front(tables)) if name in KINDS)
    return (*packaged, *(own.zone_checker[:1] if own else ()), *shaped, *faulty, *capture)
