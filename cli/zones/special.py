"""Addresses where no name server of the Internet can be: special-purpose addresses by IANA's registries that
are not globally reachable, multicast, and all of IPv6 except 2000::/3.

https://www.iana.org/assignments/iana-ipv4-special-registry and iana-ipv6-special-registry, November 2026.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from cli.errors import UsageError

_Prefix = ipaddress.IPv4Network | ipaddress.IPv6Network

# Those from 224.0.0.0 on hold multicast and what is reserved, as the last ones of IPv6 do; some of ::/3,
# 2001::/23 (Teredo and others) and 2002::/16 (6to4) hold IPv4 addresses.
_PREFIXES = """
    0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.2.0/24
    192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/3
    ::/3 2001::/23 2001:db8::/32 2002::/16 3fff::/20 4000::/2 8000::/1
"""
SPECIAL = tuple(map(ipaddress.ip_network, _PREFIXES.split()))


def prefixes(allowed: Sequence[str]) -> list[tuple[str, bool]]:
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
