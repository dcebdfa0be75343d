"""Rules of the server, of TLS and of the transports that no type can say."""

from __future__ import annotations

import ipaddress
import re

from cli.errors import UsageError, want
from cli.experiment.schema import Experiment, Server, Tls


def check_server(server: Server) -> None:
    want(
        server.origin is None or bool(re.fullmatch(r"[\w.\\*/-]{1,1000}", server.origin, re.ASCII)),
        f"server.origin = {server.origin!r} is not a domain name",
        "give the zone's name, such as example.org.",
    )
    for key in ("rrl", "config", "binary"):
        want(
            not getattr(server, key) or server.kind not in ("hierarchy", "address"),
            f"server.{key} is for authoritative servers of the run",
            "leave it out, or use hierarchy.resolver_config for resolvers",
        )
    if server.kind == "hierarchy":
        return
    if server.kind != "address":
        want(
            server.zone is not None or server.root_like is not None,
            "the server has no zone",
            "set server.zone = FILE or add a [server.root_like] table",
        )
        want(
            not server.addresses,
            f"server.addresses is for a server of your own, not for {server.kind}",
            'use server.kind = "address" or leave addresses out',
        )
        return
    want(bool(server.addresses), "server.addresses is empty", "name the server's address")
    found = [_check_address(text, server.allow_public) for text in server.addresses]
    want(
        len({one.is_loopback for one in found}) == 1,
        "server.addresses has a loopback address and one that is not",
        "name the addresses of one server",
    )
    want(
        len({one.version for one in found}) == len(found),
        "server.addresses has two of the same family",
        "name one IPv4 and one IPv6 address at most",
    )


def _check_address(text: str, allow_public: bool) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address that queries may be sent to."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise UsageError(
            f"server.addresses has {text!r}, which is not an IP address",
            "give it as numbers, such as 127.0.0.1",
        ) from None
    other = address.is_multicast or address.is_unspecified or address.is_link_local or address.is_reserved
    want(
        address.is_loopback or not other,
        f"server address {text} is not the address of a host",
        "name the server's address",
    )
    want(
        allow_public or not address.is_global,
        f"server address {text} is public",
        "ask who runs that server first, then set server.allow_public = true",
    )
    return address


def check_transport(experiment: Experiment) -> None:
    """How queries travel: [tls] and the keys of [replay] that say it."""
    replay = experiment.replay
    want(
        not replay.peers or not experiment.connections_only,
        f'replay.peers and replay.transport = "{replay.transport}" exclude each other',
        "only queries over UDP are sent to peers too",
    )
    want(
        not replay.peers or not replay.tcp_fallback,
        "replay.peers and replay.tcp_fallback exclude each other",
        "leave one of them out",
    )
    want(
        not replay.peers or replay.source_mode != "packet",
        'replay.peers and replay.source_mode = "packet" exclude each other',
        "use another source mode",
    )
    if experiment.over_tls:
        _check_tls(experiment.tls or Tls(), experiment.server)


def _check_tls(tls: Tls, server: Server) -> None:
    want(
        server.kind == "address" or tls.port != server.port,
        f"tls.port = {tls.port} is server.port too",
        "give each a port of its own",
    )
    want(
        tls.name is None or bool(re.fullmatch(r"(?![.\d]+$)[A-Za-z0-9._-]{1,253}", tls.name)),
        f"tls.name = {tls.name!r} is not a host name",
        "give the name in the server's certificate",
    )
    want(
        not tls.early_data or tls.resume,
        "tls.early_data needs tls.resume",
        "early data belong to a resumed session",
    )
    want(
        not tls.early_data or tls.version != "1.2",
        "tls.early_data needs TLS 1.3",
        'use tls.version = "1.3" or "any"',
    )
