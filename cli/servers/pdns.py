"""PowerDNS: an authoritative server, with the backend that reads zone files.

Every setting that bends a measurement is set here and nowhere else: TCP connections over the peak, the EDNS
size of the experiment, names of any bytes, no question of its own about security. Its answers leave out what
they need not hold in any case, it neither limits their rate nor speaks DNS over TLS.
"""

from __future__ import annotations

from cli.servers import kind
from cli.servers.kind import Condition, ServerKind, Serving, Site, Title, talk

_ZONES = "pdns-zones.conf"
# It serves the signatures of a zone file only where its database says that the zone is signed. Several zones
# are never signed.
_PREPARE = """'set -e; at=${1%/*}; db=$(sed -n "s/^bind-dnssec-db=//p" "$1")
pdns_server --config-dir="$at" --config=check
test -e "$db" || pdnsutil --config-dir="$at" create-bind-db "$db"
zone=$(pdnsutil --config-dir="$at" list-all-zones | head -n 1)
if pdnsutil --config-dir="$at" list-zone "$zone" | grep -q "IN[[:space:]]DNSKEY[[:space:]]"
then pdnsutil --config-dir="$at" set-presigned "$zone"; fi
chown --reference="${db%/*}" "$db"'"""


def config(server: kind.Server, site: Site) -> str:
    user = f"setuid={site.user}\nsetgid={site.user}\n" if site.user else ""
    return f"""launch=bind
bind-config={site.folder}/../{_ZONES}
bind-dnssec-db={site.folder}/dnssec.db
bind-check-interval=0
socket-dir={site.folder}
{user}local-address={", ".join(site.addresses)}
local-port={server.port}
reuseport={"yes" if server.processes > 1 else "no"}
receiver-threads={server.processes}
distributor-threads=1
max-tcp-connections={site.connections(server)}
max-tcp-transactions-per-conn=0
tcp-idle-timeout={round(server.tcp_idle_timeout_s)}
udp-truncation-threshold={server.edns_size}
8bit-dns=yes
any-to-tcp=no
security-poll-suffix=
disable-syslog=yes
loglevel=4
{site.extra}"""


def zones(site: Site) -> dict[str, str]:
    """The list of its zones, in the form of named.conf."""
    lines = (f'zone "{name}" {{ type master; file "{file}"; }};\n' for name, file in site.zones)
    return {_ZONES: "".join(lines)}


def counted(server: Serving) -> dict[str, int]:
    """Queries, those over TCP, and answers so far, by its control socket."""
    said = talk(str(server.folder / "pdns.controlsocket"), b"show *\n")
    values = dict(one.partition("=")[::2] for one in said.split(","))
    udp, tcp = (int(values[f"{one}-queries"]) for one in ("udp", "tcp"))
    answers = int(values["udp-answers"]) + int(values["tcp-answers"])
    return {"queries": udp + tcp, "tcp_queries": tcp, "answers": answers}


KIND = ServerKind(
    "PowerDNS",
    program="pdns_server",
    user="pdns",
    tested=("4.7", "4.9"),
    packages=("pdns-server", "pdns-backend-bind"),
    services=("pdns",),
    config_name="pdns.conf",
    options=("--config-dir={configs}", "--daemon=no", "--guardian=no"),
    complaints=r"(?i)out of memory|bad_alloc|backend error|fatal error",
    reason=r"(?<=Fatal error: ).+",
    checker="sh",
    checks=("-c", _PREPARE, "sh", "{file}"),
    over_tls=False,
    unused=("rrl", "tcp_listen_queue"),
    shows='{program} --config=default; grep -v "^[[:space:]]*#" "$1"',
    conditions=(
        Condition(Title.CONNECTIONS, "max-tcp-connections"),
        Condition(Title.IDLE, "tcp-idle-timeout"),
        Condition(Title.UDP_SIZE, "udp-truncation-threshold"),
    ),
    authoritative=config,
    beside=zones,
    counted=counted,
)
