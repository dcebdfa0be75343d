"""Why a run is not clean: every reason in words, from every file that knows one. No reason means clean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from report.records import Totals
from report.rqfile import RqFile
from report.run import Run, as_dict, as_list

ENDS = ("answered", "timed_out", "send_failed", "connection_failed", "skipped", "lost")


def reasons(run: Run, files: list[RqFile], totals: Totals, queries: dict[str, int]) -> list[str]:
    """Each reason once, the most telling first."""
    found: list[str] = []
    for reason in (
        *_manifest_reasons(run),
        *_controller_reasons(run),
        *_file_reasons(files),
        *_sum_reasons(run, totals, queries),
        *_connection_reasons(files, queries),
        *run.problems,
    ):
        if reason and not any(reason.startswith(one) for one in found):  # the same with a mend, or again
            found.append(reason)
    return found


def _manifest_reasons(run: Run) -> Iterator[str]:
    manifest = run.manifest
    if manifest is None:
        yield "manifest.json is missing: the run was cut off"
        return
    if manifest.get("server_died"):
        yield f"the server died: {manifest['server_died']}"
    if manifest.get("leaked_packets"):
        yield f"{manifest['leaked_packets']} packets tried to leave the experiment"
    if manifest.get("error") and not manifest.get("server_died"):
        yield str(manifest["error"])
    for reason in as_list(manifest.get("unclean_because")):
        yield str(reason)
    for process in as_list(manifest.get("processes")):
        item = as_dict(process)
        if item.get("exit") not in (0, None) and item.get("role") not in (
            "controller",
            "sampler",
            "capture",
            "server",
            "meta",
            "proxy",
        ):
            yield f"process {item.get('id')} ended with status {item['exit']}"


def _controller_reasons(run: Run) -> Iterator[str]:
    controller = run.controller
    if controller is None:
        yield "controller.json is missing: the controller was cut off"
        return
    told = [str(reason) for reason in as_list(controller.get("because"))]
    yield from told
    trouble = as_dict(controller.get("reader")).get("trouble")
    if trouble and not any(str(trouble) in reason for reason in told):
        yield f"the trace: {trouble}"
    for child in as_list(controller.get("children")):
        item = as_dict(child)
        if item.get("lost") and not any(str(item.get("lost_because")) in reason for reason in told):
            yield f"host {item.get('name')} was lost: {item.get('lost_because') or 'no reason given'}"
    if controller.get("clean") is False and not as_list(controller.get("because")):
        yield "the controller calls the run unclean and gives no reason"


def _file_reasons(files: list[RqFile]) -> Iterator[str]:
    if not files:
        yield "there are no query records"
    for file in files:
        if file.problem:
            yield f"{file.path.name}: {file.problem}"
        if file.statistics.get("clean") is False:
            because = file.statistics.get("because") or "no reason given"
            yield f"querier {file.host}/{file.querier}: {because}"


def _connection_reasons(files: list[RqFile], queries: dict[str, int]) -> Iterator[str]:
    """Refused connections are a result; a run in which no query got through measured nothing."""
    failed = queries["connection_failed"]
    if not failed or queries["answered"] or queries.get("sent", 0):
        return
    why = next(iter(failures(files)), "")
    yield f"no query reached the server: {failed} failed with their connections{f' ({why})' if why else ''}"


def failures(files: Sequence[RqFile]) -> dict[str, int]:
    """Why connections failed or ended badly, the commonest first."""
    found: dict[str, int] = {}
    for file in files:
        for reason, count in as_dict(file.statistics.get("failures")).items():
            found[str(reason)] = found.get(str(reason), 0) + (count if isinstance(count, int) else 0)
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def _sum_reasons(run: Run, totals: Totals, queries: dict[str, int]) -> Iterator[str]:
    """Every query read ends in exactly one way, and the records agree with the controller's counts."""
    if queries.get("sent", 0) and not queries["answered"]:
        yield f"the server answered none of {queries['sent']} queries sent"
    if totals.duplicate_seqs:
        yield f"{totals.duplicate_seqs} queries have more than one record"
    ends = sum(queries[end] for end in ENDS)
    if ends != queries["read"]:
        yield f"{queries['read']} queries were read and {ends} have an end"
    if queries["lost"]:
        yield f"{queries['lost']} queries were lost: they have no record"
    told = as_dict((run.controller or {}).get("queries"))
    if told.get("lost"):  # what a lost host had done is on record and not in the controller's counts
        if told["lost"] != queries["lost"]:
            yield f"the controller counts {told['lost']} queries lost, by the records it is {queries['lost']}"
        return
    for name in ENDS:
        if isinstance(told.get(name), int) and told[name] != queries[name]:
            yield f"{name}: the controller counts {told[name]}, the records {queries[name]}"
