"""BIND: an authoritative server, a resolver, and one of the engines of a hierarchy.

Every setting that bends a measurement is set here and nowhere else: TCP connections well over the peak, the
EDNS sizes of the experiment, no control sockets, no notifies, no transfers. What it has counted it says over
HTTP on the loopback of its host.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from cli.servers import kind
from cli.servers.kind import Condition, ServerKind, Serving, Site, Title, talk

_STATISTICS_PORT = 8053
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/|(?://|#)[^\n]*|[{};]|[^\s{};"]+|\s+|"', re.DOTALL)
_WITH_LIMITS = (9, 18, 28)  # since then 100 records of a type and 100 types at a name
_WITHOUT_LOCK = (9, 20)  # since then there is no lock file, and the option is an error
_OUTSIDE = {
    "acl", "controls", "dlz", "dnssec-policy", "dyndb", "http", "include", "key", "logging", "managed-keys",
    "parental-agents", "plugin", "primaries", "masters", "server", "statistics-channels", "tls",
    "trust-anchors", "trusted-keys", "view", "zone",
}  # fmt: skip


def config(server: kind.Server, site: Site) -> str:
    limits = f"    rate-limit {{ responses-per-second {server.rrl}; }};\n" if server.rrl else ""
    options = f"""    recursion no;
    allow-transfer {{ none; }};
    dnssec-validation no;
    minimal-responses {"yes" if server.minimal_responses else "no"};
"""
    zones = "".join(_ZONE.format(name=name, file=file) for name, file in site.zones)
    return _named(server, site, site.connections(server), options, zones, limits=limits)


_ZONE = """zone "{name}" {{
    type primary;
    file "{file}";
    check-integrity no;
    check-names ignore;
    notify no;
}};
"""
_TLS = """tls service {{
    key-file "{tls.key}";
    cert-file "{tls.certificate}";
    protocols {{ TLSv1.2; TLSv1.3; }};
    session-tickets yes;
}};
"""


def _named(
    server: kind.Server, site: Site, clients: int, own: str, zones: str, anchors: str = "", limits: str = ""
) -> str:
    """named.conf of a server with these options of its `own`."""
    ports = [str(server.port), *([f"{site.tls.port} tls service"] if site.tls else [])]
    listed = [[f"{one};" for one in site.addresses if (":" in one) is six] for six in (False, True)]
    four, six = (" ".join(of_family) or "none;" for of_family in listed)
    listen = "".join(
        f"    listen-on port {one} {{ {four} }};\n    listen-on-v6 port {one} {{ {six} }};\n" for one in ports
    )
    idle = round(server.tcp_idle_timeout_s * 10)
    text = f"""{anchors}{_TLS.format(tls=site.tls) if site.tls else ""}options {{
{own_folder(site.folder, site.version)}{listen}{own}    tcp-idle-timeout {idle};
    tcp-keepalive-timeout {idle};
{shared(server.edns_size, clients, server.tcp_listen_queue)}{limits}}};
controls {{ }};
statistics-channels {{ inet 127.0.0.1 port {_STATISTICS_PORT} allow {{ 127.0.0.1; }}; }};
{zones}"""
    return merge(text, site.extra)


def resolver(server: kind.Server, emulated: kind.Hierarchy, site: Site) -> str:
    """named.conf of a recursive server. With `validate` it trusts the emulated root's key and no other."""
    anchors = f'include "{site.bind_anchors}";\n' if emulated.validate else ""
    expired = "    dnssec-accept-expired yes;\n" if emulated.expired_signatures == "accept" else ""
    options = f"""    query-source address {site.upstream[0]};
    query-source-v6 address {site.upstream[1]};
    recursion yes;
    allow-recursion {{ any; }};
    allow-query-cache {{ any; }};
    dnssec-validation {"yes" if emulated.validate else "no"};
{expired}    qname-minimization {"relaxed" if emulated.qname_minimization else "disabled"};
    minimal-responses {"yes" if server.minimal_responses else "no-auth-recursive"};
    recursive-clients 100000;
    clients-per-query 0;
"""
    hints = f'zone "." {{ type hint; file "{site.hints}"; }};\n'
    return _named(server, site, site.clients(server), options, hints, anchors)


def counted(_server: Serving) -> dict[str, int]:
    """By its statistics channel."""
    said = talk(("127.0.0.1", _STATISTICS_PORT), b"GET /json/v1/server HTTP/1.0\r\nConnection: close\r\n\r\n")
    found = json.loads(said.partition("\r\n\r\n")[2])
    own, views = found.get("nsstats", {}), found.get("views", {}).values()
    return {
        "queries": int(found.get("opcodes", {}).get("QUERY", 0)),
        "tcp_queries": int(own.get("ReqTCP", 0)),
        "answers": int(own.get("Response", 0)),
        "recursions": int(own.get("QryRecursion", 0)),
        "under_way": sum(int(one.get("resolver", {}).get("stats", {}).get("NumFetch", 0)) for one in views),
    }


# --- lines of every named.conf that we write, and the user's own ------------------------------------------


def own_folder(folder: str, version: str) -> str:
    """Options that keep a named of this version out of the system's folders."""
    lock = "    lock-file none;\n" if kind.numbers(version) < _WITHOUT_LOCK else ""
    return f"""    directory "{folder}";
    managed-keys-directory "{folder}";
    pid-file none;
{lock}    session-keyfile none;
"""


def shared(udp_size: int, clients: int, queue: int) -> str:
    """Options of every one: sizes of answers over UDP, connections over TCP, and what is asked of nobody."""
    return f"""    allow-query {{ any; }};
    notify no;
    empty-zones-enable no;
    max-udp-size {udp_size};
    edns-udp-size {udp_size};
    nocookie-udp-size {udp_size};
    tcp-clients {clients};
    tcp-listen-queue {queue};
    zone-statistics none;
"""


def zone_checks(version: str) -> str:
    """Options by which a named of this version loads every zone that it can read."""
    limits = "    max-records-per-type 0;\n    max-types-per-name 0;\n"
    return f"""    check-integrity no;
    check-names primary ignore;
    check-mx ignore;
    check-mx-cname ignore;
    check-srv-cname ignore;
    check-wildcard no;
{limits if kind.numbers(version) >= _WITH_LIMITS else ""}"""


def merge(config: str, lines: str) -> str:
    """`config`, whose options stand in lines of their own, with the user's lines.

    named takes one `options` only, and each option in it once. So the user's text is taken apart into
    statements: those that stand outside of options stay as they are, all others are options (also those that
    the user has put into an `options` of his own), and take the place of ours of the same name.
    """
    options: list[str] = []
    outside: list[str] = []
    for statement in _statements(lines):
        name = _name(statement)
        if name == "options":
            options += _statements(statement[statement.find("{") + 1 : statement.rfind("}")])
        elif name in _OUTSIDE or not statement.endswith(";"):
            outside.append(statement)  # named itself complains of what is cut
        else:
            options.append(statement)
    names = {_name(one) for one in options}
    before, begin, rest = config.partition("options {\n")
    inside, end, after = rest.partition("\n};\n")
    ours = [line for line in inside.splitlines() if _name(line) not in names]
    body = "\n".join((*ours, *(f"    {one}" for one in options)))
    return before + begin + body + end + after + "".join(f"{one}\n" for one in outside)


def _statements(text: str) -> Iterator[str]:
    """Each up to its semicolon, without comments; at the end what has none."""
    depth, found = 0, ""
    for token in _TOKEN.findall(text):
        if token.startswith(("#", "//", "/*")):
            continue
        depth += (token == "{") - (token == "}")
        found += token
        if token == ";" and depth == 0:
            yield found.strip()
            found = ""
    if found.strip():
        yield found.strip()


def _name(statement: str) -> str:
    return re.split(r"[\s{;]", statement.strip(), maxsplit=1)[0]


KIND = ServerKind(
    "BIND",
    program="named",
    asks="-v",
    user="bind",
    tested=("9.18", "9.20"),
    packages=("bind9",),
    services=("named", "bind9", "named-resolvconf"),
    options=("-g", "-c", "{config}", "-n", "{processes}"),
    as_user=("-u", "{user}"),
    events=r"reloading configuration succeeded|: (?:loaded|transferred) serial \d",
    reloads=True,
    complaints=r"assertion failure|out of memory|unexpected error|fatal error",
    reason=r"(?<=\.\d{3} )\S.*(?=\n(?:.*loading configuration: failure\n)?.*exiting \(due to fatal error\))",
    copied=True,
    checker="named-checkconf",
    refused=r"zone (?P<what>\S+?)/IN(?:/\S+)?: (?:loading from master file .+ failed: )?(?P<why>.+)$"
    r"(?=\n.*zone (?P=what)/IN\S*: not loaded due to errors\.$)",
    shows='{program} -C | sed "/^};/q"; named-checkconf -px "$1" | sed -n "/^options {/,/^};/p"',
    conditions=(
        Condition(Title.CONNECTIONS, "tcp-clients"),
        Condition(Title.IDLE, "tcp-idle-timeout", 0.1),
        Condition(Title.UDP_SIZE, "max-udp-size"),
        Condition(Title.EDNS_SIZE, "edns-udp-size"),
        Condition(Title.RATE_LIMIT, "responses-per-second"),
        Condition("minimal answers", "minimal-responses"),
        Condition(Title.MINIMIZATION, "qname-minimization"),
        Condition(Title.CACHE, "max-cache-size", 1e-6),
    ),
    idle_step_s=0.1,
    longest_idle_s=120.0,
    largest_edns=4096,
    authoritative=config,
    resolver=resolver,
    counted=counted,
    sees_early=True,
    takes_expired=True,
)
