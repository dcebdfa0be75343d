"""Why a run is not clean: every reason in words, from every file that knows one; no reason means clean. And
what a reader should know of a run that is no less clean for it: mainly whether the zone fits the trace.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from report import events, front, resolver, server
from report.hosts import Findings
from report.rqfile import RqFile
from report.run import Json, Run, as_dict, as_int, as_list
from report.tables import percent
from report.tally import Measured, Tally
from report.transports import UNPLAYED
from report.wire import rcode_name

_NONE_SENT = "no query reached the server"
_INTERRUPTED = "the run was interrupted"  # the executor's words
NO_PORT = "no free port"  # the querier's words
ENDS = ("answered", "timed_out", "send_failed", "connection_failed", "skipped", "lost")
_QUERIER = re.compile(r"querier \S+: ")
# Shares of the answers from which an rcode tells of a zone that does not fit, where the trace has no answers
# to compare with: much of what a root server is asked does not exist, and nothing is refused without reason.
_SUSPECT = {"REFUSED": 0.1, "SERVFAIL": 0.1, "NXDOMAIN": 0.95}
_MORE = 0.1  # of the share in the trace's own answers
_FEWEST_RECORDED = 10
_SEE = {"hierarchy": "see hierarchy.zones", "address": "see what the server serves"}
_UNANSWERED = 0.01  # of the queries: from here on it is reported that a server did not answer
_UNKNOWN_ENDS = re.compile(r"\d+ queries have no known end: their host was lost")


def reasons(measured: Measured, queries: dict[str, int], testbed: Findings, of_resolver: Json) -> list[str]:
    """Each reason once, causes before what they lead to."""
    run, files = measured.run, measured.files
    found: list[str] = []
    for reason in (
        *_end_reasons(run),
        *(run.replaced if unanswered(queries) else ()),
        *testbed.links,
        *_manifest_reasons(run),
        *_unsent_reasons(files, queries),
        *_leak_reasons(run, testbed),
        *_controller_reasons(run, bool(files)),
        *_file_reasons(run, files),
        *_exit_reasons(run),
        *testbed.losses,
        *resolver.reasons(run, of_resolver),
        *front.problems(run),
        *server.ended(run),
        *_sum_reasons(run, files, measured.tally, queries),
        *_own_reasons(files, queries),
        *run.problems,
    ):
        # The same, maybe with a hint, or told by two files in different detail.
        again = any(reason.startswith(_NONE_SENT if one.startswith(_NONE_SENT) else one) for one in found)
        if reason and not again:
            found.append(reason)
    return found


def unanswered(queries: dict[str, int]) -> int:
    """Queries that were sent, or should have been, and have no answer."""
    return sum(queries[end] for end in ENDS if end not in ("answered", "skipped"))


def _end_reasons(run: Run) -> Iterator[str]:
    """What ended the run, unless that is only what the controller says of it."""
    manifest = run.manifest
    if not manifest:
        yield "manifest.json is missing: the run was cut off"
        return
    error = str(manifest.get("error") or "")
    if manifest.get("server_died"):
        yield f"the server died: {manifest['server_died']}"
    elif error and not any(reason.startswith(error) for reason in run.because):
        yield error


def _manifest_reasons(run: Run) -> Iterator[str]:
    manifest = run.manifest
    for reason in as_list(manifest.get("unclean_because")):
        if reason != manifest.get("error"):
            yield str(reason)
    for name, why in as_dict(manifest.get("uncollected")).items():
        yield f"results of {name} were not collected: {why}"


def _exit_reasons(run: Run) -> Iterator[str]:
    others = {"controller", "sampler", "capture", "server", "meta", "proxy"}
    others |= set() if front.counts(run) else {"front"}
    if _INTERRUPTED in str(run.manifest.get("error")):
        return
    for item in run.processes():
        if item.get("exit") not in (0, None) and item.get("role") not in others:
            yield f"process {item.get('id')} ended with status {item['exit']}"


def _leak_reasons(run: Run, testbed: Findings) -> Iterator[str]:
    """Packets that had no way within the experiment, and why where that is known."""
    manifest = run.manifest
    leaks = [as_dict(one) for one in as_list(manifest.get("leaks"))]
    if not leaks and manifest.get("leaked_packets"):
        yield f"{manifest['leaked_packets']} packets tried to leave the experiment"
    for leak in leaks:
        down = leak.get("host") in testbed.hosts_with_links_down
        why = ", because its link was down" if down else ""
        yield f"{leak.get('packets')} packets of {leak.get('host')} {leak.get('what')}{why}"


def _controller_reasons(run: Run, has_records: bool) -> Iterator[str]:
    """Without what the records tell better: how many queries a lost host has taken with it; and without what
    the run's error, or for queriers another reason, says already, such as that it was interrupted.
    """
    controller, error = run.controller, str(run.manifest.get("error") or "")
    if not controller:
        yield "controller.json is missing: the controller was cut off"
        return
    told = [one for one in run.because if not (has_records and _UNKNOWN_ENDS.fullmatch(one))]
    for one in told:
        why = _QUERIER.sub("", one)
        if (one == why or why not in told) and (why not in error or error in (one, why)):
            yield one
    trouble = as_dict(controller.get("reader")).get("trouble")
    if trouble and not any(str(trouble) in reason for reason in told):
        yield f"the trace: {trouble}"
    for item in run.children:
        if item.get("lost") and not any(str(item.get("lost_because")) in reason for reason in told):
            yield f"host {item.get('name')} was lost: {item.get('lost_because') or 'no reason given'}"
    if controller.get("clean") is False and not as_list(controller.get("because")):
        yield "the controller calls the run unclean and gives no reason"


def _file_reasons(run: Run, files: list[RqFile]) -> Iterator[str]:
    """An abort that the controller tells is in every querier's file, too."""
    if not files:
        yield "there are no query records"
    for file in files:
        if file.problem:
            yield f"{file.path.name}: {file.problem}"
        if file.statistics.get("clean") is False:
            because = str(file.statistics.get("because") or "no reason given")
            if not any(because in reason for reason in run.because):
                yield f"querier {file.host}/{file.querier}: {because}"


def _own_reasons(files: list[RqFile], queries: dict[str, int]) -> Iterator[str]:
    """What kept queries from the server lay with the client's host, not with the server."""
    if queries["send_failed"]:
        yield f"the client's host could not send {queries['send_failed']} queries; see logs/"
    if ports := failures(files).get(NO_PORT):
        yield f"{NO_PORT} at the client's host for {ports} connections"
    if queries["read"] and not queries.get("sent", 0) and queries["read"] == queries["skipped"]:
        yield f"nothing was sent: all {queries['read']} queries were skipped"


def _unsent_reasons(files: list[RqFile], queries: dict[str, int]) -> Iterator[str]:
    """Refused connections are a result; a run in which no query got through measured nothing."""
    failed, unsent = queries["connection_failed"], queries["send_failed"]
    if not failed + unsent or queries["answered"] or queries.get("sent", 0):
        return
    why = next(iter(failures(files)), "")
    ends = [f"{failed} failed with their connections{f' ({why})' if why else ''}"] if failed else []
    ends += [f"{unsent} could not be sent"] if unsent else []
    yield f"{_NONE_SENT}: {', '.join(ends)}"


def failures(files: Sequence[RqFile]) -> dict[str, int]:
    """Why connections failed or ended badly, the commonest first."""
    found = Counter[str]()
    for file in files:
        found.update(as_dict(file.statistics.get("failures")))
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _sum_reasons(run: Run, files: list[RqFile], tally: Tally, queries: dict[str, int]) -> Iterator[str]:
    """Every query read ends in exactly one way, and the records agree with the controller's counts, which go
    on where a file of records was cut off.
    """
    cut = [file.path.name for file in files if file.cut_off]
    if queries.get("sent", 0) and not queries["answered"]:
        yield f"the server answered none of {queries['sent']} queries sent"
    if tally.duplicate_seqs:
        yield f"{tally.duplicate_seqs} queries have more than one record"
    ends = sum(queries[end] for end in ENDS)
    if ends != queries["read"]:
        yield f"{queries['read']} queries were read and {ends} have an end"
    if queries["lost"]:
        why = f" ({', '.join(cut)} cut off)" if cut else ""
        yield f"{queries['lost']} queries were lost: they have no record{why}"
    told = run.told("queries")
    # What a lost host has done is on record, and the controller knows only what it heard of it.
    for name in () if cut or told.get("lost") else ENDS:
        if isinstance(told.get(name), int) and told[name] != queries[name]:
            yield f"{name}: the controller counts {told[name]}, the records {queries[name]}"


# --- servers and traces -----------------------------------------------------------------------------------


def warnings(run: Run, rcodes: dict[str, int], skipped: dict[str, int]) -> Iterator[str]:
    """Those of the manifest; of queries like those that resolvers send to name servers, sent to a resolver;
    of answers that tell of a zone that does not fit; and of queries that were not played.
    """
    yield from map(str, run.manifest.get("warnings", []))
    kind = run.setting("server.kind")
    asked = as_int(run.told("queries").get("handed"))
    without = as_int(run.told("reader").get("without_rd"))
    if kind == "hierarchy" and without > asked * _MORE:
        yield (
            f"{without} of {asked} queries ask without RD, so a resolver looks nothing up for them: the "
            'trace may come from between a resolver and name servers; a rule with kind = "header" and '
            'set = ["rd"] sets the flag (docs/rules.md)'
        )
    for name, many in _suspects(run, rcodes, _SUSPECT, " of the answers are "):
        why = resolver.validation(run) if name == "SERVFAIL" else ""
        see = f"the zone may not fit the trace; {_SEE.get(kind, 'see server.zone')}"
        yield f"{many}: {f'{why}; or the zones may not fit the trace' if why else see}"
    fix = "have {address6} in server.command" if kind == "command" else "add one to server.addresses"
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


def server_faults(run: Run, queries: dict[str, int], rcodes: dict[str, int], spoiled: int) -> list[str]:
    """Faults of the server on a sound testbed, in words: queries without an answer, but those `spoiled` by
    faults of the experiment, and errors instead of answers. Empty for a server that served.
    """
    unanswered = max(0, queries["timed_out"] + queries["connection_failed"] - spoiled)
    share = unanswered / max(1, unanswered + queries["answered"])
    silent = [f"it did not answer {percent(share, 1)} of the queries"] if share >= _UNANSWERED else []
    fine = ("NOERROR", "NXDOMAIN", *(("SERVFAIL",) if events.lost_on_ways(run, "upstream") else ()))
    errors = [name for name in rcodes if name not in fine]
    return [*silent, *(words for _, words in _suspects(run, rcodes, errors, " of its answers are "))]


def _suspects(run: Run, rcodes: dict[str, int], names: Iterable[str], are: str) -> Iterator[tuple[str, str]]:
    """Rcodes that are more frequent than a working server would give, each with its share in words, of
    which `are` is a part, and, if that is known, its share in the trace.
    """
    told = as_dict(run.told("reader").get("rcodes"))
    before = {rcode_name(int(code)): int(count) for code, count in told.items()}
    known = sum(before.values()) >= _FEWEST_RECORDED
    for name in names:
        now, then = (one.get(name, 0) / max(1, sum(one.values())) for one in (rcodes, before))
        if (now > then + _MORE) if known else (now >= _SUSPECT.get(name, _MORE)):
            beside = f" ({percent(then, 1)} in the trace)" if known else ""
            yield name, f"{percent(now, 1)}{are}{name}{beside}"
