"""Configurations of the meta-DNS-servers, as pure functions.

Every answer must depend on the question, the zones and the address asked, and on nothing else: sets of
records come in the zone's order, no cookies, no rotation, no rate limits, no built-in zones, EDNS sizes as
the experiment says. Checks that a registry would want of a zone are off: emulated zones are as they were
found.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from cli.experiment.addresses import META4, META6
from cli.servers.nftables import Pair

_DESCRIPTOR_RESERVE = 512  # what BIND needs beside its TCP connections
_KSK_FLAGS = "257"
NO_LIMITS = "    max-records-per-type 0;\n    max-types-per-name 0;\n"  # BIND 9.18.28 has 100 of each


@dataclass(frozen=True)
class MetaSite:
    """Where a meta-DNS-server runs and how it answers: its own folder ("{}" is the instance's number),
    that of the plan, the user it drops to ("" = none), sizes, a process's descriptors, and whether its BIND
    has limits to lift.
    """

    folder: str
    plan: str
    user: str
    edns_size: int
    minimal_responses: bool
    descriptors: int
    prefixes: tuple[str, str] = (META4, META6)  # of the meta addresses
    has_limits: bool = True


def named(site: MetaSite, instance: int) -> str:
    """named.conf of an instance around the planner's views."""
    udp = min(site.edns_size, 4096)
    folder = site.folder.format(instance)
    return f"""options {{
    directory "{folder}";
    managed-keys-directory "{folder}";
    pid-file none;
    lock-file none;
    session-keyfile none;
    listen-on port 53 {{ {site.prefixes[0]}; }};
    listen-on-v6 port 53 {{ {site.prefixes[1]}; }};
    interface-interval 0;
    recursion no;
    allow-query {{ any; }};
    allow-transfer {{ none; }};
    notify no;
    dnssec-validation no;
    empty-zones-enable no;
    answer-cookie no;
    minimal-any no;
    rrset-order {{ order none; }};
    minimal-responses {"yes" if site.minimal_responses else "no"};
    max-udp-size {udp};
    edns-udp-size {udp};
    nocookie-udp-size {udp};
    tcp-clients {max(1_000, min(site.descriptors - _DESCRIPTOR_RESERVE, 200_000))};
    tcp-listen-queue 4096;
    check-integrity no;
    check-names primary ignore;
    check-mx ignore;
    check-mx-cname ignore;
    check-srv-cname ignore;
    check-wildcard no;
    zone-statistics none;
{NO_LIMITS if site.has_limits else ""}}};
controls {{ }};
include "{site.plan}/views-{instance}.conf";
"""


def nsd(site: MetaSite, instance: int, slot: int, addresses: Sequence[Pair]) -> str:
    """nsd.conf of a slot, up to the planner's zones."""
    listen = "".join(f"    ip-address: {one}@53\n" for pair in addresses for one in (pair.v4, pair.v6) if one)
    folder = site.folder.format(instance)
    return f"""server:
{listen}    server-count: 1
    username: "{site.user}"
    zonesdir: "{folder}"
    database: ""
    zonelistfile: "{folder}/zone-{slot}.list"
    xfrdfile: "{folder}/xfrd-{slot}.state"
    xfrdir: "{folder}"
    pidfile: ""
    verbosity: 1
    zonefiles-check: no
    zonefiles-write: 0
    minimal-responses: {"yes" if site.minimal_responses else "no"}
    refuse-any: no
    round-robin: no
    answer-cookie: no
    ipv4-edns-size: {site.edns_size}
    ipv6-edns-size: {site.edns_size}
    tcp-count: {max(1_000, min(site.descriptors, 20_000))}
    tcp-query-count: 0
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
remote-control:
    control-enable: no
"""


def bind_anchors(root_key: str) -> str:
    """root.key (DNSKEY records as zone text) as a statement of named.conf; empty where there is no key."""
    keys = []
    for line in root_key.splitlines():
        words = shlex.split(line, comments=False) if line.strip() and not line.startswith(";") else []
        if "DNSKEY" not in words:
            continue
        flags, protocol, algorithm, *key = words[words.index("DNSKEY") + 1 :]
        if flags == _KSK_FLAGS:
            keys.append(f'    . static-key {flags} {protocol} {algorithm} "{"".join(key)}";\n')
    return f"trust-anchors {{\n{''.join(keys)}}};\n" if keys else ""
