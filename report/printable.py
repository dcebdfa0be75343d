"""Text from elsewhere, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with escapes such as \\x1b in the place of what a terminal would obey or not show."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
