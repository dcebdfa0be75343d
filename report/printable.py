"""Text from elsewhere, made safe for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text with escapes such as \\x1b instead of characters that a terminal would obey or not show."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
