"""PowerDNS Recursor: a resolver.

It wants a folder with a file recursor.conf, and its trust anchors in a file of Lua. Both are made of its
configuration before it starts; lines of Lua are comments there. From release 5 on it reads YAML, into which
it converts such a file itself.
"""

from __future__ import annotations

from cli.servers import kind
from cli.servers.kind import Condition, ServerKind, Serving, Site, Title, asked

_PREPARE = """'set -e; at=$(sed -n "s/^socket-dir=//p" "$1" | head -n 1)
cp "$1" "$at/recursor.conf"; sed -n "s/^#lua //p" "$1" > "$at/anchors.lua"
if rec_control --socket-dir="$at" show-yaml "$at/recursor.conf" > "$at/all.yml" 2> /dev/null
then sed "/^# End of converted/q" "$at/all.yml" > "$at/recursor.yml"; rm "$at/recursor.conf"; fi
chown --reference="$at" "$at"/recursor.* "$at/anchors.lua"
pdns_recursor --config-dir="$at" --config=check'"""


def resolver(server: kind.Server, emulated: kind.Hierarchy, site: Site) -> str:
    """recursor.conf. Without its own answers for private addresses; anchors of an unsigned root are none."""
    user = f"setuid={site.user}\nsetgid={site.user}\n" if site.user else ""
    anchors = f"""#lua clearTA()
#lua local anchors = io.open("{site.anchors}")
#lua local text = anchors and anchors:read("*a") or ""
#lua if text:match("DNSKEY") then readTrustAnchorsFromFile("{site.anchors}", 0) end
"""
    return f"""{anchors if emulated.validate else ""}lua-config-file={site.folder}/anchors.lua
socket-dir={site.folder}
{user}daemon=no
write-pid=no
disable-syslog=yes
loglevel=4
local-address={", ".join(site.addresses)}
local-port={server.port}
query-local-address={", ".join(site.upstream)}
threads={server.processes}
reuseport=yes
pdns-distributes-queries=no
max-tcp-clients={site.clients(server)}
client-tcp-timeout={round(server.tcp_idle_timeout_s)}
allow-from=0.0.0.0/0, ::/0
dont-query=
hint-file={site.hints}
serve-rfc1918=no
export-etc-hosts=no
security-poll-suffix=
dnssec={"validate" if emulated.validate else "process-no-validate"}
qname-minimization={"yes" if emulated.qname_minimization else "no"}
edns-outgoing-bufsize={server.edns_size}
udp-truncation-threshold={server.edns_size}
{site.extra}"""


def counted(server: Serving) -> dict[str, int]:
    """By rec_control, over the resolver's own socket."""
    names = ("questions", "packetcache-hits", "cache-hits", "concurrent-queries")
    said = asked("rec_control", f"--config-dir={server.folder}", "get", *names)
    queries, packets, records, under_way = map(int, said.split())
    return {"queries": queries, "recursions": queries - packets - records, "under_way": under_way}


KIND = ServerKind(
    "PowerDNS Recursor",
    program="pdns_recursor",
    user="pdns",
    tested=("4.8", "5.2"),
    packages=("pdns-recursor",),
    tools=("rec_control",),
    services=("pdns-recursor",),
    options=("--config-dir={folder}",),
    complaints=r"(?i)out of memory|bad_alloc|fatal error",
    checker="sh",
    checks=("-c", _PREPARE, "sh", "{file}"),
    over_tls=False,
    unused=("tcp_listen_queue",),
    shows='{program} --config=default; grep -v "^[[:space:]]*#" "$1"',
    conditions=(
        Condition(Title.CONNECTIONS, "max-tcp-clients"),
        Condition(Title.IDLE, "client-tcp-timeout"),
        Condition(Title.UDP_SIZE, "udp-truncation-threshold"),
        Condition(Title.EDNS_SIZE, "edns-outgoing-bufsize"),
        Condition(Title.MINIMIZATION, "qname-minimization"),
        Condition("cache, entries", "max-cache-entries"),
    ),
    resolver=resolver,
    counted=counted,
)
