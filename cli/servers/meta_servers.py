"""Configurations of the meta-DNS-servers, as pure functions.

Every answer must depend on the question, the zones and the address asked, and on nothing else: sets of
records come in the zone's order, no cookies, no rotation, no rate limits, no built-in zones, EDNS sizes as
the experiment says. Checks that a registry would want of a zone are off: emulated zones are as they were
found.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cli.experiment.addresses import META4, META6
from cli.servers import bind
from cli.servers.nftables import Pair
from cli.servers.nsd import shared_lines

_DESCRIPTOR_RESERVE = 512  # what BIND needs beside its TCP connections
_MADE = "made by reprise zones plan; changes are lost with the next plan"


@dataclass(frozen=True)
class MetaSite:
    """Where a meta-DNS-server runs and how it answers: its own folder ("{}" is the instance's number),
    that of the plan, the user it drops to ("" = none), sizes, and a process's descriptors.
    """

    folder: str
    plan: str
    user: str
    edns_size: int
    minimal_responses: bool
    descriptors: int = 20_000
    prefixes: tuple[str, str] = (META4, META6)  # of the meta addresses
    versions: tuple[str, ...] = ()  # of the instances' servers; "" where it is not known


def named(site: MetaSite, instance: int) -> str:
    """named.conf of an instance around the planner's views."""
    folder, version = site.folder.format(instance), site.versions[instance - 1]
    clients = max(1_000, min(site.descriptors - _DESCRIPTOR_RESERVE, 200_000))
    return f"""options {{
{bind.own_folder(folder, version)}    listen-on port 53 {{ {site.prefixes[0]}; }};
    listen-on-v6 port 53 {{ {site.prefixes[1]}; }};
    interface-interval 0;
    recursion no;
    allow-transfer {{ none; }};
    dnssec-validation no;
    answer-cookie no;
    minimal-any no;
    rrset-order {{ order none; }};
    minimal-responses {"yes" if site.minimal_responses else "no"};
{bind.shared(min(site.edns_size, 4096), clients, 4096)}{bind.zone_checks(version)}}};
controls {{ }};
include "{site.plan}/views-{instance}.conf";
"""


def nsd(site: MetaSite, instance: int, slot: int, addresses: Sequence[Pair]) -> str:
    """nsd.conf of a slot, up to the planner's zones."""
    listen = "".join(f"    ip-address: {one}@53\n" for pair in addresses for one in (pair.v4, pair.v6) if one)
    folder, connections = site.folder.format(instance), max(1_000, min(site.descriptors, 20_000))
    lines = shared_lines(site.user, folder, f"-{slot}", site.edns_size, site.minimal_responses, connections)
    return f"""server:
{listen}    server-count: 1
    answer-cookie: no
    rrl-ratelimit: 0
    rrl-whitelist-ratelimit: 0
{lines}"""


@dataclass(frozen=True)
class View:
    """A view of BIND: what it is told by, and its zones, names and files."""

    name: str
    by_client: bool
    addresses: Sequence[str]
    zones: Sequence[tuple[str, str]]


def bind_views(views: Iterable[View]) -> str:
    """In BIND a zone costs its memory once: the first view that has it loads it, later ones refer to that
    view, which must stand before them. Names and paths hold nothing that ends quotes, as the planner checks.
    """
    text = f"// {_MADE}\n"
    owners: dict[tuple[str, str], str] = {}
    for view in views:
        match = "match-clients" if view.by_client else "match-destinations"
        text += f'view "{view.name}" {{\n    {match} {{{"".join(f" {one};" for one in view.addresses)} }};\n'
        for zone in view.zones:
            owner = owners.setdefault(zone, view.name)
            how = f'in-view "{owner}"' if owner != view.name else f'type primary; file "{zone[1]}"'
            text += f'    zone "{zone[0]}" {{ {how}; }};\n'
        text += "};\n"
    return text


def nsd_zones(zones: Iterable[tuple[str, str]]) -> str:
    stanzas = (f'zone:\n    name: "{name}"\n    zonefile: "{file}"\n' for name, file in zones)
    return f"# {_MADE}\n{''.join(stanzas)}"


def bind_anchors(root_key: str) -> str:
    """root.key (DNSKEY records, of which key-signing ones have flags 257) as a statement of named.conf. It
    stands also where there is no key: since 9.20 a named that validates wants one.
    """
    found = re.findall(r"^[^;\n].* DNSKEY (257 \d+ \d+) (.+)$", root_key, re.MULTILINE)
    keys = (f'    . static-key {numbers} "{key.replace(" ", "")}";\n' for numbers, key in found)
    return f"trust-anchors {{\n{''.join(keys)}}};\n"
