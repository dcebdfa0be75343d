"""Lines of a named.conf that we write: those of every one, and the user's own.

named takes one `options` only, and each option in it once. So the user's text is taken apart into statements:
those that stand outside of options stay as they are, all others are options (also those that the user has put
into an `options` of his own), and take the place of ours of the same name.
"""

import re
from collections.abc import Iterator

from cli.servers import kind

_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|/\*.*?\*/|(?://|#)[^\n]*|[{};]|[^\s{};"]+|\s+|"', re.DOTALL)
_WITH_LIMITS = (9, 18, 28)  # since then 100 records of a type and 100 types at a name
_WITHOUT_LOCK = (9, 20)  # since then there is no lock file, and the option is an error
_OUTSIDE = {
    "acl", "controls", "dlz", "dnssec-policy", "dyndb", "http", "include", "key", "logging", "managed-keys",
    "parental-agents", "plugin", "primaries", "masters", "server", "statistics-channels", "tls",
    "trust-anchors", "trusted-keys", "view", "zone",
}  # fmt: skip


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
    """`config`, whose options stand in lines of their own, with the user's lines."""
    options, outside = _split(lines)
    names = {_name(one) for one in options}
    before, begin, rest = config.partition("options {\n")
    inside, end, after = rest.partition("\n};\n")
    ours = [line for line in inside.splitlines() if _name(line) not in names]
    body = "\n".join((*ours, *(f"    {one}" for one in options)))
    return before + begin + body + end + after + "".join(f"{one}\n" for one in outside)


def _split(text: str) -> tuple[list[str], list[str]]:
    """Options, and statements that stand outside of options."""
    options: list[str] = []
    outside: list[str] = []
    for statement in _statements(text):
        name = _name(statement)
        if name == "options":
            options += _statements(statement[statement.find("{") + 1 : statement.rfind("}")])
        elif name in _OUTSIDE or not statement.endswith(";"):
            outside.append(statement)  # named itself complains of what is cut
        else:
            options.append(statement)
    return options, outside


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
