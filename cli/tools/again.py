"""The servers of `reprise compare --again`: the experiment of a run, once more with other queries."""

import contextlib
import io
from pathlib import Path

from cli.errors import RepriseError, want
from cli.executor.run import carry_out
from cli.experiment import experiment as experiments
from cli.experiment.schema import Experiment
from report.run import RENAMED, Json, Run
from report.sources import zone_of

_RATE = 1_000.0  # queries a second
# What an experiment says of its trace, of several runs and of their results: not of the servers.
_OTHERS = ("title", "synth", "generate", "mutate", "repeat", "sweep", "search", "expect", "fault")
_CHOICE = (
    *("from", "until", "limit", "loop", "duration_s", "speed", "fast"),
    *("sample_sources", "skip_sources", "collapse_retransmits", "ports"),
)
_REACHED = ("kind", "addresses", "port", "allow_public")  # what is said of a server that runs already


def play(run: Run, trace: Path) -> Path:
    """Starts the servers of a run as it did and plays a trace; the folder of the results, beside the run's.
    Throws RepriseError where there are none.
    """
    want(bool(run.experiment), f"{run.folder} has no experiment", "name a folder that `reprise run` wrote")
    experiment = changed(run.experiment, trace, zone_of(run))
    with contextlib.redirect_stdout(io.StringIO()):
        _, folder = carry_out(
            experiment, (*run.manifest.get("given", ()), "trace"), run.folder.resolve().parent
        )
    if not folder.is_dir():
        raise RepriseError(f"the servers of {run.folder} were not asked again", "correct what is told above")
    return folder


def changed(tables: Json, trace: Path, zone: Path | None) -> Experiment:
    """The experiment of a run with another trace, which is played whole; `zone`: the one it served."""
    server, emulated = tables["server"], tables.get("hierarchy")
    if server["kind"] == "address":  # nothing is sampled of it, and older versions took more keys
        server = {key: one for key, one in server.items() if key in _REACHED}
    if emulated:  # perhaps of an older version
        names = {former.rpartition(".")[2]: now.rpartition(".")[2] for former, now in RENAMED.items()}
        emulated = {names.get(key, key): one for key, one in emulated.items()}
        emulated["form"] = emulated["form"].replace("coloured", "colored")
    several = (server.get("wildcard") or {}).get("zones", 1) > 1  # of which the run keeps the first
    if zone and server["kind"] != "hierarchy" and not several:
        server = {**{key: one for key, one in server.items() if key != "capture"}, "zone": str(zone)}
    own = {"server": server, "hierarchy": emulated, "sample": {**tables["sample"], "capture": False}}
    over_tls = experiments.of({**tables, **own}).over_tls
    kept = {key: value for key, value in {**tables, **own}.items() if key not in _OTHERS}
    replay = {key: one for key, one in kept["replay"].items() if key not in _CHOICE}
    return experiments.of(
        {
            **kept,
            "name": f"again-{kept['name']}"[:64],
            "trace": str(trace),
            "replay": {**replay, "rate": _RATE, "answers": True, "all_opcodes": True},
            "tls": kept.get("tls") or ({} if over_tls else None),
        }
    )
