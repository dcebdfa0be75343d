"""Names of response codes, RFC 1035 and the IANA registry; shared by the summary and the comparison."""

from __future__ import annotations

RCODES = {
    0: "NOERROR",
    1: "FORMERR",
    2: "SERVFAIL",
    3: "NXDOMAIN",
    4: "NOTIMP",
    5: "REFUSED",
    6: "YXDOMAIN",
    7: "YXRRSET",
    8: "NXRRSET",
    9: "NOTAUTH",
    10: "NOTZONE",
    11: "DSOTYPENI",
    16: "BADVERS",
    17: "BADKEY",
    18: "BADTIME",
    19: "BADMODE",
    20: "BADNAME",
    21: "BADALG",
    22: "BADTRUNC",
    23: "BADCOOKIE",
}


def rcode_name(rcode: int) -> str:
    """The registry's mnemonic, or RCODEn as in RFC 3597's manner for what has none."""
    return RCODES.get(rcode, f"RCODE{rcode}")
