"""Rules of the server, of what stands before it, of the way to it and of the transports that no type can
say.
"""

import re
import shlex
from typing import get_args

from cli.errors import UsageError, exclude, want
from cli.experiment.addresses import Address, parsed
from cli.experiment.schema import AUTHORITATIVE, Experiment, Front, Rtt, Server, Stateless
from cli.experiment.settings import Authoritative, Proxy

_PLACEHOLDERS = {  # of server.command, and what has to be there
    "port": "the number of its port",
    "zone": "the path of its zone file",
    "address": "the address where it listens",
}
_FURTHER = ("address6", "origin", "folder")
_OWN = (  # what we write into the configuration of a server
    *("processes", "edns_size", "tcp_count", "tcp_idle_timeout_s", "minimal_responses", "rrl"),
    *("config", "binary"),
)
_STARTED = (*get_args(Authoritative), "hierarchy")
_OF_KINDS = {  # which kinds of servers heed a key, and what to do with others
    **dict.fromkeys(_OWN, (_STARTED, "set that up in your server, and leave it out here (--set server.{}=)")),
    "capture": ((*_STARTED, "command"), "a server that runs already has its zone"),
    "tcp_listen_queue": ((*_STARTED, "command"), "leave it out (--set server.{}=)"),
    "ready_s": ((*_STARTED, "command"), "leave it out (--set server.{}=)"),
    "command": (("command",), 'use server.kind = "command" or leave it out'),
    **dict.fromkeys(("pid", "service"), (("address",), 'use server.kind = "address" or leave it out')),
}
_STATELESS = get_args(Stateless)
_OF_FRONTS = {  # which a key of [front] belongs to
    **dict.fromkeys(("timeout_ms", "early_ack", "axfr_detect", "loglevel", "truncate_udp"), _STATELESS),
    "fin_last": ("reference",),
    **dict.fromkeys(("promote", "entries", "timed"), ("bpf",)),
    "config": get_args(Proxy),
}


def check_server(server: Server) -> None:
    _check_keys(server)
    if server.kind == "hierarchy":
        return
    if server.kind == "command":
        _check_command(server.command)
    if server.kind != "address":
        want(
            any(one is not None for one in (server.zone, server.capture, server.root_like, server.wildcard)),
            "the server has no zone",
            "set server.zone = FILE or add a [server.root_like] or [server.wildcard] table",
        )
        exclude(server.zone and "server.zone", server.capture and "server.capture")
        if server.capture is not None and server.origin is None:
            what = "server.capture needs server.origin"
            raise UsageError(what, "name the zone that is to be built of the capture")
        several = server.wildcard is not None and server.wildcard.zones > 1
        command = server.kind == "command" and 'server.kind = "command"'
        exclude(several and "server.wildcard.zones", command, hint="the command line has one zone")
        exclude(server.root_like and "server.root_like", server.wildcard and "server.wildcard")
        brought = server.zone is not None or server.capture is not None
        made = (server.root_like and "[server.root_like]") or (server.wildcard and "[server.wildcard]")
        exclude(
            server.origin and not brought and "server.origin", made, hint="a zone that is made has its own"
        )
        if server.addresses:
            what = f"server.addresses is for a server of your own, not for {server.kind}"
            raise UsageError(what, 'use server.kind = "address" or leave addresses out')
        return
    want(bool(server.addresses), "server.addresses is empty", "name the server's address")
    found = [_check_address(text, server.allow_public) for text in server.addresses]
    if len({one.is_loopback for one in found}) > 1:
        what = "server.addresses has a loopback address and one that is not"
        raise UsageError(what, "name the addresses of one server")
    if len({one.version for one in found}) < len(found):
        what = "server.addresses has two of the same family"
        raise UsageError(what, "name one IPv4 and one IPv6 address at most")


def _check_keys(server: Server) -> None:
    """Keys that a kind does not heed."""
    default = Server()
    for key in ("rrl", "config", "binary"):
        if getattr(server, key) and server.kind == "hierarchy":
            what = f"server.{key} is for authoritative servers of the run"
            raise UsageError(what, "leave it out, or use hierarchy.resolver_config for resolvers")
    for key, (kinds, hint) in _OF_KINDS.items():
        in_front = server.front == "dnsdist" and key in ("processes", "tcp_idle_timeout_s")
        given = getattr(server, key) != getattr(default, key) and not in_front and f"server.{key}"
        exclude(given, server.kind not in kinds and f'server.kind = "{server.kind}"', hint=hint.format(key))
    exclude(server.pid and "server.pid", server.service and "server.service", hint="give one")


def _check_command(command: str | None) -> None:
    try:
        words = shlex.split(command or "")
    except ValueError as error:
        what = f"server.command cannot be split into words: {error}"
        raise UsageError(what, "quote as in a shell") from None
    if not words:
        what = 'server.kind = "command" needs server.command'
        raise UsageError(what, 'set it like "mydns --port {port} --zone {zone} --address {address}"')
    found = [name for word in words[1:] for name in re.findall(r"(?<!\$)\{(\w+)\}", word)]
    known = [*_PLACEHOLDERS, *_FURTHER]
    for name in found:
        want(
            name in known,
            f"server.command has {{{name}}}, which stands for nothing",
            f"use {', '.join(f'{{{one}}}' for one in known)}, or put it into a script",
        )
    for name, meaning in _PLACEHOLDERS.items():
        want(name in found, f"server.command has no {{{name}}}", f"put it where the program takes {meaning}")


def _check_address(text: str, allow_public: bool) -> Address:
    """An address that queries may be sent to."""
    what = f"server.addresses has {text!r}, which is not an IP address"
    address = parsed(text, UsageError(what, "give it as numbers, such as 127.0.0.1"))
    other = address.is_multicast or address.is_unspecified or address.is_link_local or address.is_reserved
    if other and not address.is_loopback:
        raise UsageError(f"server address {text} is not the address of a host", "name the server's address")
    if address.is_global and not allow_public:
        what = f"server address {text} is public"
        raise UsageError(what, "ask who runs that server first, then set server.allow_public = true")
    return address


def check_transport(experiment: Experiment) -> None:
    replay = experiment.replay
    packet = replay.source_mode == "packet" and 'replay.source_mode = "packet"'
    exclude(replay.peers and "replay.peers", packet, hint="use another source mode")
    server, nagle = experiment.server, experiment.socket.nagle if experiment.socket else None
    want(
        nagle is None or (server.kind not in ("address", "hierarchy") and server.front == "kernel"),
        "socket.nagle is for an authoritative server of the run without a front",
        "leave it out",
    )
    port = experiment.tls_settings.port
    if experiment.over_tls and server.kind != "address" and port == server.port:
        raise UsageError(f"tls.port = {port} is server.port too", "give each a port of its own")


def check_front(experiment: Experiment) -> None:
    kind = experiment.server.front
    given, default = experiment.front or Front(), Front()
    for key, owners in _OF_FRONTS.items():
        said = getattr(given, key) != getattr(default, key) and f"front.{key}"
        hint = "leave it out or use server.front = " + " or ".join(f'"{one}"' for one in owners)
        exclude(said, kind not in owners and f'server.front = "{kind}"', hint=hint)
    if kind == "kernel":
        return
    other = experiment.server.kind in ("address", "hierarchy") and f'server.kind = "{experiment.server.kind}"'
    hint = f"a front stands before an authoritative server of the run: use server.kind = {AUTHORITATIVE}"
    exclude(f'server.front = "{kind}"', other, hint=hint)
    want(
        experiment.rtt is None or not experiment.has_front or experiment.replay.source_mode != "packet",
        f'server.front = "{kind}", [rtt] and replay.source_mode = "packet" exclude each other',
        "before a front the delay lines are at the clients, and that mode goes past them: use another",
    )


def check_rtt(key: str, rtt: Rtt) -> None:
    """One table; `key` is its name. The files are the proxy's to check."""
    delays = (rtt.rtt_ms, rtt.table, rtt.by, rtt.distribution, rtt.observed)
    want(
        any(one is not None for one in delays) or rtt.jitter_ms > 0 or rtt.loss_percent > 0,
        f"[{key}] asks for nothing",
        f"set {key}.rtt_ms or another of its keys, or leave the table out",
    )
    for names in (("table", "by"), ("rtt_ms", "distribution", "observed")):
        given = [f"{key}.{name}" for name in names if getattr(rtt, name) is not None]
        exclude(*given, hint="give one of them")


def check_way(experiment: Experiment) -> None:
    """[rtt]: the path between the clients and the server."""
    if experiment.rtt is None:
        return
    check_rtt("rtt", experiment.rtt)
    if not experiment.own_server:
        what = "[rtt] needs the local network, which a server at an address is not in"
        raise UsageError(what, "leave it out or use a server of your own")
    by_source, replay = experiment.rtt.by == "source" and 'rtt.by = "source"', experiment.replay
    other = not replay.shows_trace_addresses and f'replay.source_mode = "{replay.source_mode}"'
    hint = 'the server must see the trace\'s addresses: use source_mode = "addresses" or "packet"'
    exclude(by_source, other, hint=hint)
    generate = experiment.generate and "[generate]"
    exclude(by_source, generate, hint="give a trace whose rows have round trips")
