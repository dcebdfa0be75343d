"""What a terminal would obey is shown, not sent; what is wider than a terminal is made to fit."""

import pytest

from report.errors import printable
from report.tables import cut, fitted, table


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


def test_a_table_that_is_too_wide_is_turned_or_split() -> None:
    """Nothing is lost."""
    narrow = [["", "A", "B"], ["one", "1", "2"]]
    assert fitted([]) == "" and fitted(narrow, frozenset({1})) == table(narrow, frozenset({1}))
    turned = fitted([["", *(f"a heading {at}" for at in range(20))], ["one", *map(str, range(20))]])
    assert turned.splitlines()[1] == "a heading 0   0" and len(turned.splitlines()) == 21
    wrapped = fitted([["", "A", "B"], ["one", "some words " * 20, "1"], ["two", "2", "other words " * 20]])
    folded = fitted([[f"{row}{at} {'x' * 28}" for at in range(12)] for row in "abcdefghijkl"])
    for text in (turned, wrapped, folded):
        assert max(map(len, text.splitlines())) <= 100
    assert wrapped.split().count("words") == 40 and "\n\n" not in wrapped
    assert "\n\n" in folded and {f"{row}{at}" for row in "abcdefghijkl" for at in range(12)} <= set(
        folded.split()
    )


def test_examples_end_where_the_terminal_does() -> None:
    short, long = cut([["a", "1", "x" * 50], ["b", "2", "x" * 200]], frozenset({1})).splitlines()
    assert short.endswith("x" * 50) and len(long) == 100 and long.endswith("x…")
