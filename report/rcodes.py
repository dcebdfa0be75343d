"""Names of response codes, shared by the summary and the comparison."""

from __future__ import annotations

from dns.rcode import Rcode

_NAMES = {one.value: one.name for one in Rcode}


def rcode_name(rcode: int) -> str:
    """The registry's mnemonic, or RCODEn as in RFC 3597's manner for what has none."""
    return _NAMES.get(rcode, f"RCODE{rcode}")
