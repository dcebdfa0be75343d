"""[generate] as a trace, for rules to change.

What the controller would make up on the way is written down: one query from each source in turn, over and
over until there are enough rows for shares to come out. The replay repeats them.
"""

import ipaddress
from collections.abc import Iterator
from pathlib import Path

_FEWEST_ROWS = 10_000
_FIRST = (ipaddress.ip_address("10.0.0.1"), ipaddress.ip_address("2001:db8::1"))
_HEADER = "#reprise-text 1\ntime\tsource\tport\tid\tflags\tname\ttype\n"
_GAP_S = 0.001


def rows(name: str, kind: str, sources: int, rd: bool, six: bool = False) -> Iterator[str]:
    """Lines of the text form: whole rounds of the sources, which have addresses of IPv6 if `six`."""
    kind = f"TYPE{kind}" if kind.isdigit() else kind
    rounds = -(-_FEWEST_ROWS // sources)
    for number in range(rounds * sources):
        turn, source = divmod(number, sources)
        yield (
            f"{number * _GAP_S:.3f}\t{_FIRST[six] + source}\t{1024 + turn // 65_536}\t{turn % 65_536}\t"
            f"{'rd' if rd else '-'}\t{name}\t{kind}\n"
        )


def write(out: Path, name: str, kind: str, sources: int, rd: bool, six: bool = False) -> None:
    with out.open("w", encoding="ascii") as file:
        file.write(_HEADER)
        file.writelines(rows(name, kind, sources, rd, six))
