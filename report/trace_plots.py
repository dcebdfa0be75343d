"""The plots of a trace, from what `reprise-mutator info --json` says of it. Values in, finished plots out."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from report import curves
from report.errors import ReportError
from report.figures import WIDE, Drawn, Words, bars, drawing, plain_axis
from report.run import Json

SCHEMA = 1
MOST_BARS = 12
PERCENTILES = np.arange(101) / 100


def load(path: Path) -> Json:
    """What `info` wrote; other versions are refused."""
    try:
        info = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} cannot be read ({error})", "let trace info write it again") from None
    if not isinstance(info, dict) or info.get("schema") != SCHEMA:
        raise ReportError(f"{path} is not trace information of schema {SCHEMA}", "write it with this version")
    return info


def draw_trace(info: Json) -> list[Drawn]:
    """Every plot, also where there is nothing to see: the plot then says so."""
    return [
        _rate(info["rate_over_time"]),
        _skew(info["sources"]),
        _bars(
            Words("types", "Query types", "Queries by type.", "no query has a readable question"),
            info["types"],
            info["queries"],
        ),
        _bars(
            Words("edns-sizes", "EDNS sizes", "Queries with EDNS by UDP size.", "no query has EDNS"),
            info["edns"]["sizes"],
            info["edns"]["queries"],
        ),
        _round_trips(info),
    ]


def _rate(rate: Json) -> Drawn:
    """The last bin may be cut by the trace's end, which would show a fall that is none: left out."""
    width = float(rate["bin_s"])
    counts = np.array(rate["queries"][:-1] or rate["queries"], dtype=np.float64)
    words = Words("rate", "Rate over time", f"Queries in bins of {width:g} s.", "the trace holds no query")
    with drawing(words, WIDE) as (drawn, axes):
        axes.plot((np.arange(len(counts)) + 0.5) * width, counts / width, label="queries")
        axes.set_xlabel("time since the first query [s]")
        axes.set_ylabel("queries [1/s]")
        axes.set_ylim(bottom=0)
        axes.margins(x=0.01)
        plain_axis(axes, "xy")
        drawn.empty = not len(counts)
    return drawn


def _skew(sources: Json) -> Drawn:
    points = np.array(sources["curve"], dtype=np.float64).reshape(-1, 2)
    caption = (
        f"Share of the queries that the busiest sources ask, of {sources['distinct']:,}; the busiest 1 % ask "
        f"{sources['busiest_1_percent_share']:.1%}. Zipf exponent {sources['zipf_exponent']:.2f}."
    )
    words = Words("sources", "Skew of the sources", caption, "the trace holds no query")
    with drawing(words) as (drawn, axes):
        axes.plot(points[:, 0], points[:, 1], marker="." if len(points) < 3 else "")
        axes.set_xscale("log")
        axes.set_xlabel("busiest sources")
        axes.set_ylabel("share of queries")
        axes.set_ylim(0, 1.02)
        plain_axis(axes, "xy")
        drawn.empty = not len(points)
    return drawn


def _bars(words: Words, counts: Mapping[str, int], total: int) -> Drawn:
    """The most frequent first, the rest as one bar."""
    shown = dict(sorted(counts.items(), key=lambda item: -item[1])[:MOST_BARS])
    rest = sum(counts.values()) - sum(shown.values())
    if rest:
        shown[f"{len(counts) - len(shown)} more"] = rest
    return bars(words, shown, total, "queries", (6.0, 1.2 + 0.24 * max(len(shown), 5)))


def _round_trips(info: Json) -> Drawn:
    """Handshakes tell the clients' round trips, pairs what the capture saw of the server."""
    shakes = info["handshakes"]
    found = {
        "TCP handshake, SYN to ACK": shakes["rtt_percentiles_us"],
        "query to response": info["rtt_percentiles_us"],
    }
    held = {
        name: (np.maximum(values, 1) / 1000, PERCENTILES) if values else None
        for name, values in found.items()
    }
    place = {"server": "at the server", "client": "at the client", "between": "between client and server"}
    caption = (
        "Share of handshakes and of answered queries within this time, as seen where the capture was made"
    )
    where = place.get(shakes["capture_point"])
    nothing = "the trace holds neither whole TCP handshakes nor responses"
    words = Words("rtt", "Round trips", f"{caption}{f': {where}' if where else ''}.", nothing)
    return curves.cdf(words, "time [ms]", held, "handshakes or queries", least=1)
