"""What a client learns from answers, and how two clients' answers to the same queries differ."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dns.edns
import dns.exception
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.tsig
import dns.tsigkeyring

from tests.stateless_client import End, Outcome
from tests.stateless_zones import KEY, SECRET

RING = dns.tsigkeyring.from_text({KEY: SECRET})  # of hmac-sha256
SECTIONS = ("question", "answer", "authority", "additional")
SAME = "same"
View = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """How a front's outcome compares with the kernel's, by kind:

    same
    closed, reset, silent   not all answers came, and how the connection ended
    truncated               with TC
    fewer records           in authority and additional section; all else is the same
    minimal-any             one RRset of several to a query for ANY
    options                 only EDNS differs
    cut short               the beginning of an answer came
    lost                    queries, as dnsperf counts
    different
    junk                    bytes that are no part of an answer
    """

    kind: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else self.kind


# --- one answer -------------------------------------------------------------------------------------------


def _option(option: dns.edns.Option) -> str:
    """What does not change from answer to answer: of a cookie the client's part and the size."""
    data = option.to_wire() or b""
    code = int(option.otype)
    if code == dns.edns.OptionType.COOKIE:
        return f"cookie {data[:8].hex()} of {len(data)}"
    if code == 12:
        return f"padding of {len(data)}"
    return f"option {code} {data.hex()}"


def _records(section: Sequence[Any]) -> list[str]:
    return sorted(
        f"{rrset.name} {rrset.ttl} {rrset.rdclass} {dns.rdatatype.to_text(rrset.rdtype)} {rdata}"
        for rrset in section
        for rdata in (rrset if len(rrset) else ("",))
    )


def _view(message: dns.message.Message) -> View:
    found: dict[str, Any] = {
        "id": message.id,
        "opcode": int(message.opcode()),
        "rcode": dns.rcode.to_text(message.rcode()),
        "flags": dns.flags.to_text(message.flags),
        "edns": (message.edns, message.ednsflags & 0xFFFF, message.payload),
        "options": sorted(_option(one) for one in message.options),
        "tsig": str(message.keyname) if message.had_tsig else "",
    }
    return found | {name: _records(rrsets) for name, rrsets in zip(SECTIONS, message.sections, strict=True)}


def views(wires: Sequence[bytes], request_mac: bytes = b"") -> list[View]:
    """Each message; one that cannot be read, or whose signature is wrong, says so."""
    found: list[View] = []
    context: Any = None
    for wire in wires:
        try:
            message = dns.message.from_wire(
                wire, keyring=RING, request_mac=request_mac, multi=len(wires) > 1, tsig_ctx=context
            )
            context = message.tsig_ctx
            found.append(_view(message))
        except (dns.exception.DNSException, ValueError) as error:
            shown = "" if isinstance(error, dns.tsig.PeerError) else f": {wire.hex()[:200]}"  # has the time
            found.append({"id": int.from_bytes(wire[:2], "big"), "unreadable": type(error).__name__ + shown})
    return found


def merged(found: Sequence[View]) -> list[View]:
    """A transfer as one message: servers may cut it as they like."""
    if not found or "unreadable" in found[0]:
        return list(found)
    answer = sorted(record for one in found for record in one.get("answer", ()))
    return [{**found[0], "answer": answer}]


# --- two outcomes -----------------------------------------------------------------------------------------


def compare(truth: Sequence[View], seen: Sequence[View], outcome: Outcome, kernel: End) -> Verdict:
    """Every answer of the front against the kernel's answer of the same id, and whether all came. Where the
    kernel's connection was closed without an answer, the front's client is told as much.
    """
    if outcome.rest:
        known = [one for one in truth if one.get("id") == int.from_bytes(outcome.rest[2:4], "big")]
        return Verdict("cut short" if known else "junk", outcome.rest[:40].hex())
    if not truth and not seen:
        told = kernel is not End.SILENT and outcome.end is End.SILENT
        return Verdict("silent", "not closed") if told else Verdict(SAME)
    wanted = {one.get("id", number): one for number, one in enumerate(truth)}
    verdicts = []
    for number, one in enumerate(seen):
        other = wanted.pop(one.get("id", number), None)
        unknown = Verdict("different", f"no such answer of the kernel's TCP ({kernel.value}): {dict(one)}")
        verdicts.append(unknown if other is None else difference(other, one))
    worst = next((one for one in verdicts if one.kind != SAME), Verdict(SAME))
    if not wanted or worst.kind == "different":
        return worst
    kind = {End.RESET: "reset", End.SILENT: "silent"}.get(outcome.end, "closed")
    return Verdict(kind, f"{len(seen)} of {len(truth)}")


def difference(truth: View, seen: View) -> Verdict:
    keys = sorted(key for key in {*truth, *seen} if truth.get(key) != seen.get(key))
    if not keys:
        return Verdict(SAME)
    if "TC" in seen.get("flags", "") and "TC" not in truth.get("flags", ""):
        return Verdict("truncated")
    beside = {"authority", "additional"}
    if set(keys) <= beside and all(set(seen[key]) < set(truth[key]) for key in keys):
        counts = (sum(len(one[key]) for key in beside) for one in (seen, truth))
        return Verdict("fewer records", " of ".join(str(one) for one in counts))
    any_fewer = " ANY" in "".join(truth["question"]) and set(seen["answer"]) < set(truth["answer"])
    if any_fewer and set(keys) <= {"answer", "additional", "authority"}:
        return Verdict("minimal-any", f"{len(seen['answer'])} of {len(truth['answer'])}")
    if set(keys) <= {"edns", "options"}:
        return Verdict("options", f"{_shown(truth)} / {_shown(seen)}")
    return Verdict("different", "; ".join(f"{key}: {truth.get(key)} / {seen.get(key)}" for key in keys)[:600])


def _shown(one: View) -> str:
    return " ".join([str(one.get("edns")), *one.get("options", ())])


# --- what programs print ----------------------------------------------------------------------------------

_CHANGING = re.compile(  # the query's number, the server's address, times and the random parts of cookies
    r"^; <<>>.*|^;; (Query time|WHEN|SERVER|Time|From|Received|Sent|MSG SIZE|->>HEADER).*|\bid: \d+"
    r"|(?<=COOKIE: )[0-9a-f]{32,}.*|(?<=COOKIE: )[0-9A-F]{16,}.*|^;; XFR size.*|^;; AXFR for.*",
)
_CLOSED = ("end of file", "connection reset", "can't receive reply")  # by dig and kdig
_TRUNCATED = re.compile(r";; [Ff]lags:[^;]* tc\b")
_STATUS = re.compile(r"status: (\w+)")


def lines(text: str) -> list[str]:
    """What a client program printed, in order of the lines, without what changes from time to time."""
    found = [f"status {one}" for one in _STATUS.findall(text)]
    for line in text.splitlines():
        kept = " ".join(_CHANGING.sub("", line).split())
        if kept:
            found.append(kept)
    return sorted(found)


def compare_lines(truth: Sequence[str], seen: Sequence[str], asked: int) -> Verdict:
    """Of two runs of a program that asked so many times."""
    if list(truth) == list(seen):
        return Verdict(SAME)
    if any(one.startswith("Queries") for one in truth):
        return Verdict("lost", "; ".join(seen))
    if any(_TRUNCATED.match(one) for one in seen) and not any(_TRUNCATED.match(one) for one in truth):
        return Verdict("truncated")
    answered = sum(one.startswith("status ") for one in seen)
    if answered < asked:
        told = any(word in one for one in seen for word in _CLOSED)
        return Verdict("closed" if told else "silent", f"{answered} of {asked}")
    missing = [one for one in truth if one not in seen]
    added = [one for one in seen if one not in truth]
    return Verdict("different", f"{missing[:4]} / {added[:4]}"[:600])
