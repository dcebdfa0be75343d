"""What a reader should know of a run that is no less clean for it: mainly whether the zone fits the trace."""

from __future__ import annotations

from collections.abc import Iterator

from report.rcodes import rcode_name
from report.run import Run, as_dict
from report.tables import percent

# Shares of the answers from which an rcode tells of a zone that does not fit, where the trace has no answers
# to compare with: much of what a root server is asked does not exist, and nothing is refused without reason.
_SUSPECT = {"REFUSED": 0.1, "SERVFAIL": 0.1, "NXDOMAIN": 0.95}
_MORE = 0.1  # of the share in the trace's own answers
_FEWEST_RECORDED = 10
_SEE = {"hierarchy": "see hierarchy.zones", "address": "see what the server serves"}


def warnings(run: Run, rcodes: dict[str, int], skipped: dict[str, int]) -> list[str]:
    """The manifest's, and what the answers and the skipped queries tell."""
    return [
        *(str(one) for one in (run.manifest or {}).get("warnings", [])),
        *_misfits(run, rcodes),
        *_not_played(skipped),
    ]


def recorded(run: Run) -> dict[str, int]:
    """The trace's own answers by rcode, as the controller read them."""
    told = as_dict(as_dict((run.controller or {}).get("reader")).get("rcodes"))
    return {rcode_name(int(code)): int(count) for code, count in told.items()}


def _misfits(run: Run, rcodes: dict[str, int]) -> Iterator[str]:
    before = recorded(run)
    known = sum(before.values()) >= _FEWEST_RECORDED
    kind = str(as_dict(run.experiment.get("server")).get("kind"))
    for name, most in _SUSPECT.items():
        now, then = _share(rcodes, name), _share(before, name)
        if (now > then + _MORE) if known else (now >= most):
            beside = f" ({percent(then, 1)} in the trace)" if known else ""
            yield (
                f"{percent(now, 1)} of the answers are {name}{beside}: the zone may not fit the trace; "
                f"{_SEE.get(kind, 'see server.zone')}"
            )


def _share(rcodes: dict[str, int], name: str) -> float:
    return rcodes.get(name, 0) / max(1, sum(rcodes.values()))


def _not_played(skipped: dict[str, int]) -> Iterator[str]:
    if skipped.get("transport"):
        yield (
            f"{skipped['transport']} queries over QUIC or HTTPS were not played; "
            'replay.transport = "tls" sends all queries over TLS'
        )
