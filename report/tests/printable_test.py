"""What a terminal would obey is shown, not sent."""

from __future__ import annotations

import pytest

from report.printable import printable
from report.tables import table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ä and µs", "plain, ä and µs"),
        ("\x1b[2J\x07", r"\x1b[2J\x07"),
        ("\x9b2J", r"\x9b2J"),
        ("a\r\nb", r"a\r\nb"),
        ("\u202egnp.exe", r"\u202egnp.exe"),
        ("\udc80", r"\udc80"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert table([["a", text]], frozenset()) == f"a  {shown}"
