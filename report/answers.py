"""What a reader should know of a run that is no less clean for it: mainly whether the zone fits the trace."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from report import events
from report.run import Run, as_dict, as_int
from report.tables import percent
from report.transports import UNPLAYED
from report.wire import rcode_name

# Shares of the answers from which an rcode tells of a zone that does not fit, where the trace has no answers
# to compare with: much of what a root server is asked does not exist, and nothing is refused without reason.
_SUSPECT = {"REFUSED": 0.1, "SERVFAIL": 0.1, "NXDOMAIN": 0.95}
_MORE = 0.1  # of the share in the trace's own answers
_FEWEST_RECORDED = 10
_SEE = {"hierarchy": "see hierarchy.zones", "address": "see what the server serves"}
_UNANSWERED = 0.01  # of the queries: from here on it is reported that a server did not answer


def warnings(run: Run, rcodes: dict[str, int], skipped: dict[str, int]) -> list[str]:
    """Warnings of the manifest, and those from the trace, the answers and the skipped queries."""
    return [
        *(str(one) for one in run.manifest.get("warnings", [])),
        *_without_rd(run),
        *_misfits(run, rcodes),
        *_not_played(run, skipped),
    ]


def server_faults(run: Run, queries: dict[str, int], rcodes: dict[str, int], spoiled: int) -> list[str]:
    """Faults of the server on a sound testbed, in words: queries without an answer, but those `spoiled` by
    faults of the experiment, and errors instead of answers. Empty for a server that served.
    """
    unanswered = max(0, queries["timed_out"] + queries["connection_failed"] - spoiled)
    share = unanswered / max(1, unanswered + queries["answered"])
    silent = [f"it did not answer {percent(share, 1)} of the queries"] if share >= _UNANSWERED else []
    fine = ("NOERROR", "NXDOMAIN", *(("SERVFAIL",) if events.lost_on_ways(run, "upstream") else ()))
    errors = [name for name in rcodes if name not in fine]
    return [
        *silent,
        *(
            f"{percent(_share(rcodes, name), 1)} of its answers are {beside}"
            for name, beside in _suspects(run, rcodes, errors)
        ),
    ]


def validation(run: Run) -> str:
    """Why resolvers may not accept signatures in this run, with what to do about it; "" without a reason."""
    emulated = as_dict(run.experiment.get("hierarchy"))
    if not emulated.get("validate", True):
        return ""
    unproven = sum("unproven" in one for one in (run.hierarchy or {}).get("trusted", []))
    if unproven:
        zones = f"the zone plan has {unproven} zones whose answers cannot be validated"
        why = f"the resolver validates, and {zones}"
    elif run.built is not None and emulated.get("dnssec") != "strip":
        why = "the resolver validates rebuilt zones, which may lack signatures or proofs"
    else:
        return ""
    return f"{why} (to see whether it is that, set hierarchy.validate = false)"


def recorded(run: Run) -> dict[str, int]:
    """The trace's own answers by rcode, as the controller read them."""
    told = as_dict(run.told("reader").get("rcodes"))
    return {rcode_name(int(code)): int(count) for code, count in told.items()}


def _without_rd(run: Run) -> Iterator[str]:
    """A warning about queries like those that resolvers send to name servers, sent to a resolver."""
    asked = as_int(run.told("queries").get("handed"))
    without = as_int(run.told("reader").get("without_rd"))
    if as_dict(run.experiment.get("server")).get("kind") == "hierarchy" and without > asked * _MORE:
        yield (
            f"{without} of {asked} queries ask without RD, so a resolver looks nothing up for them: the "
            'trace may come from between a resolver and name servers; a rule with kind = "header" and '
            'set = ["rd"] sets the flag (docs/rules.md)'
        )


def _misfits(run: Run, rcodes: dict[str, int]) -> Iterator[str]:
    kind = str(as_dict(run.experiment.get("server")).get("kind"))
    for name, beside in _suspects(run, rcodes, _SUSPECT):
        many = f"{percent(_share(rcodes, name), 1)} of the answers are {beside}"
        if name == "SERVFAIL" and (first := validation(run)):
            yield f"{many}: {first}; or the zones may not fit the trace"
            continue
        yield f"{many}: the zone may not fit the trace; {_SEE.get(kind, 'see server.zone')}"


def _suspects(run: Run, rcodes: dict[str, int], names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Rcodes that are more frequent than a working server would give, each also with its share in the trace,
    if that is known.
    """
    before = recorded(run)
    known = sum(before.values()) >= _FEWEST_RECORDED
    for name in names:
        now, then = _share(rcodes, name), _share(before, name)
        if (now > then + _MORE) if known else (now >= _SUSPECT.get(name, _MORE)):
            yield name, f"{name} ({percent(then, 1)} in the trace)" if known else name


def _share(rcodes: dict[str, int], name: str) -> float:
    return rcodes.get(name, 0) / max(1, sum(rcodes.values()))


def _not_played(run: Run, skipped: dict[str, int]) -> Iterator[str]:
    by_command = as_dict(run.experiment.get("server")).get("kind") == "command"
    fix = "have {address6} in server.command" if by_command else "add one to server.addresses"
    if skipped.get("transport"):
        yield (
            f"{skipped['transport']} queries over {UNPLAYED} were not played; "
            'replay.transport = "tls" sends all queries over TLS'
        )
    for family, reason in (("IPv4", "no_ipv4_server"), ("IPv6", "no_ipv6_server")):
        if skipped.get(reason):
            yield (
                f"{skipped[reason]} queries from {family} sources were not played: the server has no address "
                f"of that family; {fix}"
            )
