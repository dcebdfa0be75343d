"""`reprise zones check DIR CAPTURE...`: asks every recorded question at the planned meta-DNS-server.

The server runs in a network namespace of its own. Each question goes to the meta address that stands for the
name server that was asked, over TCP, so that sizes do not matter, and the answer is compared with the one of
the capture: response code, AA, answer, the name servers of a referral and the glue that they need, SOA record
and proof of a negative answer. TTLs, order and the times of signatures do not count.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dns.exception
import dns.flags
import dns.message
import dns.name
import dns.rcode
import dns.rdataclass
import dns.rdatatype

from cli import call, linux, programs
from cli.errors import EXIT_FAILED, RepriseError, want
from cli.executor import machine, netns
from cli.plan import network, privileges
from cli.plan.planned import Folder
from cli.process import Process
from cli.progress import Progress
from cli.servers import kinds
from cli.tools.zones_compare import CLASSES, Record, denial, differing, normalized, records
from cli.zones import zone_plan, zonefile
from cli.zones.zone_plan import AddressMap
from report.tables import percent

_HOST = "meta"
_WINDOW = 200  # questions on their way in one connection
_PATIENCE_S = 20.0
_READY_S = 300.0
_SHOWN = 20  # differences that are printed; --json has all


@dataclass(frozen=True)
class Exchange:
    """A question to a name server and its answer, and how often both were recorded."""

    server: str
    time: str
    query: bytes
    recorded: dns.message.Message
    count: int


def command_check(options: argparse.Namespace) -> int:
    fits = options.least is None or 0 <= options.least <= 1
    want(fits, f"--least {options.least}: out of range", "give a share from 0 to 1")
    there = (options.zones / "zones.json").is_file()
    want(there, f"{options.zones} has no zones.json", "give a folder made by `reprise zones build`")
    with tempfile.TemporaryDirectory(prefix="reprise-check-", dir="/var/tmp") as made:
        folder = Path(made)
        folder.chmod(0o755)
        exchanges, whole = read_exchanges(options.captures, options.port)
        found = _plan(options.zones.absolute(), folder)
        with _meta_server(folder) as host:
            differences = list(_ask_all(exchanges, found, host, _Reasons(folder / "world", folder / "made")))
    result = summary(sum(one.count for one in exchanges), differences)
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    _show(result)
    share = result["share_as_recorded"]
    missed = options.least is not None and (share is None or share < options.least)
    return EXIT_FAILED if missed or not whole else 0


# --- what was recorded ------------------------------------------------------------------------------------


def read_exchanges(captures: Sequence[str], ports: Sequence[str]) -> tuple[list[Exchange], bool]:
    """Each exchange once, and whether the captures are whole: of one that is cut, the rest counts. Truncated
    responses are left out; queries are made of the responses, which repeat what counts of them.
    """
    argv = [*privileges.reading(), programs.own("reprise-zonebuilder"), "exchanges", *captures]
    argv += programs.flags(port=[*ports])
    seen: dict[tuple[str, bytes], tuple[str, int]] = {}
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            at, server, _, response = line.rstrip("\n").split("\t")
            answer = bytes.fromhex(response)
            if answer[2] & 2:  # TC
                continue
            first, count = seen.get((server, answer[2:]), (at, 0))
            seen[server, answer[2:]] = (first, count + 1)
    if process.returncode not in (0, EXIT_FAILED) or (process.returncode and not seen):
        raise RepriseError("the captures cannot be read", "see the message above")
    found = []
    for (server, answer), (at, count) in seen.items():
        recorded = _parse(b"\0\0" + answer)
        if recorded is None or len(recorded.question) != 1:
            continue
        if recorded.question[0].rdclass == dns.rdataclass.IN and recorded.opcode() == 0:
            found.append(Exchange(server, at, _query_of(recorded), recorded, count))
    return found, process.returncode == 0


def _parse(wire: bytes) -> dns.message.Message | None:
    try:
        return dns.message.from_wire(wire, ignore_trailing=True)
    except dns.exception.DNSException:
        return None


def _query_of(recorded: dns.message.Message) -> bytes:
    question = recorded.question[0]
    made = dns.message.make_query(question.name, question.rdtype)
    signed = any(one.rdtype == dns.rdatatype.RRSIG for section in recorded.sections[1:] for one in section)
    if recorded.edns >= 0 or signed:  # some servers do not say DO in their answers (RFC 3225)
        made.use_edns(0, dns.flags.DO if signed else recorded.ednsflags & dns.flags.DO, 4096)
    made.flags = recorded.flags & (dns.flags.RD | dns.flags.CD)
    return made.to_wire()[2:]


# --- the server ------------------------------------------------------------------------------------------


def _plan(zones: Path, folder: Path) -> AddressMap:
    """Plans a copy of the zones, for the server's user. Root does not read the zones, and makes its own files
    from what another user has planned.
    """
    world, made, plan, own = (folder / name for name in ("world", "made", "plan", "server"))
    reader, server = privileges.user(), "bind" if privileges.serving("bind") else ""
    for one, user in ((world, reader), (made, reader), (plan, ""), (own, server)):
        one.mkdir()
        machine.make_folders([Folder(str(one), "0750", user, server)], str)
    planner = [sys.executable, "-m", "cli", "zones", "plan", str(world), "-o", str(made), "--skip-bad"]
    words = call.words("cli.zones.zone_folder.copy", source=zones, target=world)
    _carry_out([*privileges.reading(), sys.executable, "-m", "cli.call", *words])
    _carry_out([*privileges.reading(), *planner])
    words = call.words("cli.zones.zones.serve", zones=world, made=made, out=plan, folder=own)
    _carry_out([sys.executable, "-m", "cli.call", *words])
    return zone_plan.read_map(plan / "map.tsv")


def _carry_out(argv: Sequence[str]) -> None:
    environment = {**os.environ, "PYTHONPATH": str(programs.ROOT)}
    done = subprocess.run(
        argv, env=environment, capture_output=True, text=True, check=False, umask=0o022
    )  # other users read what they write
    if done.returncode != 0:
        sys.stderr.write(done.stderr)
        raise RepriseError("the zones cannot be planned", "see the message above")


@contextlib.contextmanager
def _meta_server(folder: Path) -> Iterator[int]:
    """BIND with the planned views, and the descriptor of its namespace."""
    everything = tuple(network.Route(_HOST, to, kind="local", interface="lo") for to in ("0.0.0.0/0", "::/0"))
    if os.geteuid() != 0:
        raise RepriseError("zones check makes a network namespace of its own", "run it as root")
    hosts = netns.build(network.Network("local", hosts=(network.Host(_HOST),), routes=everything))
    host = hosts.of(_HOST)
    assert host is not None
    with contextlib.ExitStack() as held:
        held.callback(os.close, host)
        batch = (folder / "plan" / "meta-1.ip").read_text(encoding="ascii")
        with linux.inside(host):
            ip = programs.packaged("ip")
            subprocess.run([ip, "-batch", "-"], input=batch, text=True, check=True, capture_output=True)
            argv = [
                *privileges.serving("bind"),
                *linux.bound(programs.packaged("setpriv")),
                programs.copied("named", folder),
                *("-g", "-n", "1", "-U", "1", "-c", f"{folder}/plan/named-1.conf"),
            ]
            server = Process.started(argv, folder / "named.log", name="named")
        held.callback(server.reap)
        held.callback(server.send, signal.SIGTERM)  # which is called first
        try:
            server.until("all zones loaded", _READY_S, kinds.REASON)
        except RepriseError as error:
            what = f"named does not serve the zones: {error.what}"
            raise RepriseError(what, "see `reprise doctor`") from None
        yield host


# --- asking -----------------------------------------------------------------------------------------------


def _ask_all(
    exchanges: Sequence[Exchange], found: AddressMap, host: int, reasons: _Reasons
) -> Iterator[dict[str, Any]]:
    """What is told of each answer that is not as recorded."""
    at = {one.slot: one.address for one in found.metas}
    by_server: dict[str, list[Exchange]] = defaultdict(list)
    for one in exchanges:
        by_server[one.server].append(one)
    progress = Progress()
    done = 0
    for server, asked in by_server.items():
        slot = found.slots.get(server)
        if slot is None:
            answers: Iterable[bytes | None] = [None] * len(asked)
        else:
            pair = at[slot]
            with linux.inside(host):
                answers = _ask(pair.v6 if ":" in server else pair.v4, [one.query for one in asked])
        for one, answer in zip(asked, answers, strict=True):
            got = None if answer is None else _parse(answer)
            classes = CLASSES if got is None else differing(one.recorded, got)
            if classes:
                yield difference(one, classes, reasons.of(one, got, slot is not None), got)
        done += len(asked)
        progress.show(f"{done} of {len(exchanges)} questions asked")
    progress.end(f"{done} of {len(exchanges)} questions asked")


def _ask(address: str, queries: Sequence[bytes]) -> list[bytes | None]:
    """The answers, in the order of the queries; none where there was none."""
    answers: list[bytes | None] = [None] * len(queries)
    for first in range(0, len(queries), _WINDOW):
        part = range(first, min(first + _WINDOW, len(queries)))
        with (
            contextlib.suppress(OSError),
            socket.create_connection((address, 53), _PATIENCE_S) as channel,
            channel.makefile("rb") as stream,
        ):
            messages = [(number - first).to_bytes(2) + queries[number] for number in part]
            channel.sendall(b"".join(len(one).to_bytes(2) + one for one in messages))
            for _ in part:
                answer = stream.read(int.from_bytes(stream.read(2)))
                if len(answer) < 2:
                    break
                answers[first + int.from_bytes(answer[:2])] = answer
    return answers


# --- why answers differ ----------------------------------------------------------------------------------


class _Reasons:
    """Why an answer differs, as far as build.json in the copy of the zones knows."""

    def __init__(self, zones: Path, plan: Path) -> None:
        path = zones / "build.json"  # another user has copied it
        try:
            file = zonefile.open_below(path, zones.resolve()) if path.is_file() else None
            with file or io.BytesIO() as copied:
                report = json.loads(copied.read() or b"{}")
            self._failed = {
                (one["server"], normalized(one["name"])): (
                    f"server_failed_{one['rcode'].lower()}" if one.get("rcode") else f"server_{one['why']}"
                )
                for one in report.get("failures", [])
            }
            self._places = {
                key: {(normalized(one["owner"]), one["type"]) for one in report.get(key, [])}
                for key in ("removed", "versions", "made_up")
            }
            contradictory = (*report.get("conflicts", []), *report.get("contradictions", []))
            self._contradictory = {normalized(one["owner"]) for one in contradictory}
            self._zones = {normalized(one["name"]): set(one["addresses"]) for one in report.get("zones", [])}
            refused = {normalized(one["zone"]) for one in report.get("refused", [])}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, dns.exception.DNSException):
            raise RepriseError("build.json of the zones is damaged", "build the zones again") from None
        planned = zone_plan.read_report(plan / "plan.json")
        self._not_loaded = refused | {normalized(one["zone"]) for one in planned["failed"] if one["zone"]}
        self._unroutable = {one["address"] for one in planned["unroutable"]}

    def of(self, one: Exchange, got: dns.message.Message | None, built: bool) -> str:
        """The reason of a difference, as one word for the report."""
        return next(filter(None, self._all(one, got, built)))

    def _all(self, one: Exchange, got: dns.message.Message | None, built: bool) -> Iterator[str]:
        """What may be the reason; the first that is not "" is."""
        yield "server_unroutable" if one.server in self._unroutable else ""
        yield "zone_not_loaded" if self._zone_of(one) in self._not_loaded else ""
        if got is None:
            yield "no_answer" if built else "server_not_built"
            return
        name = one.recorded.question[0].name.to_text().lower()
        kind = dns.rdatatype.to_text(one.recorded.question[0].rdtype)
        yield self._failed.get((one.server, name), "")
        yield self._of_records({(name, kind), (name, "CNAME")})
        yield "contradictory" if name in self._contradictory else ""
        wanted, given = records(one.recorded.answer), records(got.answer)
        if given < wanted:
            yield "alias_into_another_zone" if _ends_at_alias(got) else ""
            yield "signature_missing" if _signatures(wanted - given) else "incomplete"
        wanted, given = denial(one.recorded), denial(got)
        missing = {(owner, kind) for owner, kind, _ in wanted - given}
        yield self._of_records(missing)
        soa = {(owner, kind) for owner, kind, _ in given if kind == "SOA"}
        yield "soa_made_up" if soa & self._places["made_up"] else ""
        yield "unknown" if not missing or any(kind == "SOA" for _, kind in missing) else ""
        yield "signature_missing" if _signatures(wanted - given) else "proof_missing"

    def _of_records(self, places: set[tuple[str, str]]) -> str:
        """The reason why one of these owners and types is served differently, or ""."""
        if places & self._places["removed"]:
            return "removed"
        return "changed_during_capture" if places & self._places["versions"] else ""

    def _zone_of(self, one: Exchange) -> str:
        """The lowest zone around the question among those of its server."""
        question = one.recorded.question[0]
        name = question.name
        if question.rdtype == dns.rdatatype.DS and name != dns.name.root:
            name = name.parent()
        while name != dns.name.root and one.server not in self._zones.get(name.to_text().lower(), ()):
            name = name.parent()
        return name.to_text().lower()


def _signatures(records: frozenset[Record]) -> bool:
    """Whether there is nothing else."""
    return all(kind == "RRSIG" for _, kind, _ in records)


def _ends_at_alias(message: dns.message.Message) -> bool:
    """BIND without recursion does not follow aliases into other zones."""
    aliases = {dns.rdatatype.CNAME, dns.rdatatype.DNAME}
    return any({last.rdtype, last.covers} & aliases for last in message.answer[-1:])  # or their signature


# --- the result ------------------------------------------------------------------------------------------


def difference(
    one: Exchange, classes: Sequence[str], reason: str, got: dns.message.Message | None
) -> dict[str, Any]:
    question = one.recorded.question[0]
    return {
        "time": one.time,
        "server": one.server,
        "question": f"{question.name} {dns.rdatatype.to_text(question.rdtype)}",
        "count": one.count,
        "differs": list(classes),
        "reason": reason,
        "recorded": _text(one.recorded),
        "got": _text(got) if got else None,
    }


def summary(asked: int, differences: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """All figures count each recorded exchange as often as it was recorded."""
    classes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for one in differences:
        classes.update(dict.fromkeys(one["differs"], one["count"]))
        reasons[one["reason"]] += one["count"]
    as_recorded = asked - reasons.total()
    return {
        "schema": 1,
        "asked": asked,
        "as_recorded": as_recorded,
        "share_as_recorded": as_recorded / asked if asked else None,
        "classes": {
            name: {"as_recorded": asked - classes[name], "differ": classes[name]} for name in CLASSES
        },
        "reasons": dict(sorted(reasons.items())),
        "differences": list(differences),
    }


def _show(result: dict[str, Any]) -> None:
    share, differences = percent(result["share_as_recorded"]), result["differences"]
    lines = [f"{result['as_recorded']} of {result['asked']} answers as recorded ({share})"]
    lines += [f"  {name:10}{found['differ']:>8} differ" for name, found in result["classes"].items()]
    lines += [f"  {count:>8} {reason}" for reason, count in result["reasons"].items()]
    for one in differences[:_SHOWN]:
        lines.append(f"  {one['server']} {one['question']}: {', '.join(one['differs'])} ({one['reason']})")
    if len(differences) > _SHOWN:
        lines.append(f"  ... and {len(differences) - _SHOWN} more; --json FILE has all")
    sys.stdout.write("".join(f"{line}\n" for line in lines))


def _text(message: dns.message.Message) -> dict[str, Any]:
    return {
        "rcode": dns.rcode.to_text(message.rcode()),
        "aa": bool(message.flags & dns.flags.AA),
        "answer": sorted(map(" ".join, records(message.answer))),
        "authority": sorted(map(" ".join, records(message.authority))),
    }
