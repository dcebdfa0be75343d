"""report.html: one file with everything in it, no outside reference, and whole without its script; what is
printed is escaped by jinja2.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from report import tables, whole_file
from report.clean import ENDS
from report.distribution import ABSOLUTE, SPREAD
from report.figures import Drawn
from report.rows import ABSOLUTE_NAMES, rows_of, runs_table, skip_reasons, spoiled
from report.run import Json, Run, as_dict, as_list, over_laps
from report.tables import micro, number, percent

TEMPLATES = Path(__file__).with_name("templates")
END_COLORS = ("#009E73", "#E69F00", "#D55E00", "#CC79A7", "#56B4E9", "#8c2d04")
SPREAD_NAMES = [name.replace("p999", "p99.9") for name in SPREAD]
MAX_CELL = 300
_MOST_COLUMNS = 9
UNITS = {"s": "s", "us": "µs", "ns": "ns", "bytes": "bytes"}


def environment() -> jinja2.Environment:
    """Undefined names are faults of the template, not blanks in a report. Style sheet and script are ours, so
    they need no escaping.
    """
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    ours = {"css": "report.css", "script": "page.js"}
    made.globals |= {name: Markup((TEMPLATES / file).read_text("utf-8")) for name, file in ours.items()}
    made.filters["letter"] = lambda at: chr(ord("A") + at % 26)
    return made


def write(path: Path, page: str) -> None:
    whole_file.write(path, page, durable=False)


def run_page(run: Run, summary: Json, drawn: Sequence[Drawn]) -> str:
    return page(
        "run",
        version=as_dict(run.manifest.get("versions")).get("reprise") or "",
        commit=str(run.manifest.get("commit") or "")[:12],
        title=run.experiment.get("title") or run.experiment.get("name") or summary["run"],
        summary=summary,
        started=_started(run),
        server=_server(run),
        good=f"Each of the {number(summary['queries']['read'])} queries read has one end, and no part of the "
        "testbed reports a problem.",
        tiles=[(text, name) for name, text in rows_of(summary, "tiles")],
        spoiled=spoiled(summary),
        settings=_settings(run),
        **_queries(summary),
        **_timing(summary),
        **_connections(summary),
        **_answers(run, summary),
        resolver_rows=rows_of(summary, "resolver"),
        unmapped_rows=[
            [one["address"], number(one["packets"])]
            for one in as_dict(summary["resolver"]).get("unmapped", [])
        ],
        front_rows=_rows(summary, "front"),
        host_rows=_hosts(summary),
        **_resources(run, summary),
        drawn={one.name: one for one in drawn},
    )


def comparison_page(
    summaries: Sequence[Json],
    names: Sequence[str],
    differing: Sequence[Sequence[str]],
    main: Sequence[Sequence[str]],
    drawn: Sequence[Drawn],
) -> str:
    """`names`: labels of the runs; `differing` and `main`: tables with a row for each run, headings first.
    Where much differs, runs are the columns of that table.
    """
    if differing and len(differing[0]) > _MOST_COLUMNS:
        differing = [list(one) for one in zip(*differing, strict=True)]
    _, *lines = runs_table(summaries)
    same = [line for line in lines if len(set(line[1:])) == 1]
    return page(
        "comparison",
        summaries=[(name, one, spoiled(one)) for name, one in zip(names, summaries, strict=True)],
        differing=differing,
        main=main,
        heading=["", *names],
        rows=[line for line in lines if line not in same],
        same=[line[:2] for line in same],
        drawn=drawn,
    )


def page(template: str, /, **values: Any) -> str:
    """The page of a template; `values` are those that it wants."""
    return environment().get_template(f"{template}.html.j2").render({"version": "", "commit": "", **values})


def _rows(summary: Json, part: str) -> list[tuple[str, str]]:
    """Rows of a section that is about nothing but that part."""
    return [(re.sub(f"^{part}:? ", "", name), text) for name, text in rows_of(summary, part)]


def _started(run: Run) -> str:
    real = run.told("start").get("real_ns")
    return _utc(real) if real else ""


def _utc(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _server(run: Run) -> str:
    """What was under test, with its release as far as it is known."""
    kinds = run.setting("server.kind") or ""
    if kinds == "address":
        return "a server at " + ", ".join(map(str, run.setting("server.addresses") or ()))
    if kinds == "command":
        return str(run.setting("server.command"))
    versions = as_dict(run.manifest.get("versions"))
    if kinds == "hierarchy":
        kinds = run.setting("hierarchy.resolver") or "bind"
    several = kinds if isinstance(kinds, list) else [kinds]
    named = ", ".join(_release(one, versions) for one in dict.fromkeys(several) if one)
    front = str(run.setting("server.front"))
    return f"{named} behind {_release(front, versions)}" if front in versions else named


def _release(kind: str, versions: Json) -> str:
    """What a server says of its version, without remarks; some leave out their name."""
    said = re.sub(r"\s*[(<].*", "", str(versions.get(kind) or kind))
    return re.sub(r"^[Vv]ersion\b", kind, said)


def _settings(run: Run) -> list[tuple[str, list[tuple[str, list[tuple[str, str]]]]]]:
    """Folds with headings and facts: the keys that the experiment gave, then the defaults, so that a setting
    is never hidden. Runs of older versions do not say what was given.
    """
    manifest, given = run.manifest, run.given
    parts = [
        ("Trace", _trace_facts(run)),
        *_tables(run.used, lambda key: not given or key in given),
        *((f"What {name} ran with", _facts(own)) for name, own in run.conditions.items()),
        ("Zones built from a capture", _facts(_built(run))),
        ("Plan of the hierarchy", _facts(_plan_sizes(run))),
        ("Machine", [*_facts(as_dict(manifest.get("host"))), *_facts({"steal_s": manifest.get("steal_s")})]),
        ("Versions", _facts({**as_dict(manifest.get("versions")), "commit": manifest.get("commit")})),
    ]
    rest = _tables(run.used, lambda key: key not in given) if given else []
    title = f"Settings{' that the experiment gives' if given else ''}, machine and versions"
    folds = [(title, parts), ("Settings that have their defaults", rest)]
    return [(name, [one for one in held if one[1]]) for name, held in folds]


def _tables(experiment: Json, wanted: Callable[[str], bool]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The keys without a table first; of all those whose dotted keys are wanted."""
    plain = {k: v for k, v in experiment.items() if k not in ("title", "schema", "trace")}
    tables = {name: plain.pop(name) for name, value in experiment.items() if isinstance(value, dict)}
    return [
        ("Experiment", _facts(plain, wanted)),
        *((name.capitalize(), _facts(value, wanted, f"{name}.")) for name, value in tables.items()),
    ]


def _built(run: Run) -> Json:
    """Figures of build.json, and its lists by their lengths: they are in zones/build.json whole."""
    built = run.built or {}
    captures = [str(as_dict(one).get("path")) for one in built.get("captures", [])]
    lists = {name: len(value) for name, value in built.items() if isinstance(value, list)}
    made = Counter(str(as_dict(one).get("why")) for one in built.get("made_up", []))
    reader = as_dict(built.get("reader"))
    return {
        **lists,
        "captures": captures,
        "packets": reader.get("packets"),
        **as_dict(built.get("counts")),
        **{f"made_up: {why}": count for why, count in sorted(made.items())},
    }


def _plan_sizes(run: Run) -> Json:
    """Lists of the plan by their lengths: they are in zones/plan.json whole."""
    plan = {name: value for name, value in (run.hierarchy or {}).items() if name not in ("schema", "seconds")}
    return {name: len(value) if isinstance(value, list) else value for name, value in plan.items()}


def _facts(
    values: Json, wanted: Callable[[str], bool] = lambda _: True, path: str = "", words: str = ""
) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in values.items():
        if isinstance(value, dict):
            rows += _facts(value, wanted, f"{path}{name}.", f"{name} ")
        elif value not in (None, "", []) and wanted(f"{path}{name}"):
            rows.append((_label(f"{words}{name}"), _cell(value)))
    return rows


def _label(name: str) -> str:
    """Keys name their unit last: idle_timeout_s is shown as idle timeout [s]."""
    words, _, unit = name.rpartition("_")
    return f"{words} [{UNITS[unit]}]".replace("_", " ") if words and unit in UNITS else name.replace("_", " ")


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MAX_CELL else f"{text[:MAX_CELL]}…"


def _trace_facts(run: Run) -> list[tuple[str, str]]:
    controller = run.controller
    reader, start = as_dict(controller.get("reader")), as_dict(controller.get("start"))
    first, last = start.get("trace_first_ns"), start.get("trace_last_ns")
    rows = [("trace", run.played)]
    if isinstance(first, int) and isinstance(last, int) and first:
        rows.append(("recorded", f"{_utc(first)}, {(last - first) / 1e9:,.3f} s {over_laps(run)}".strip()))
    for name in ("packets", "queries", "responses"):
        if isinstance(reader.get(name), int):
            rows.append((f"{name} {over_laps(run) or 'in it'}", number(reader[name])))
    return rows


def _hosts(summary: Json) -> list[list[str]]:
    rows = []
    for one in summary["hosts"]:
        clock, queries, timing = one["clock"], as_dict(one["queries"]), as_dict(one["timing_error_us"])
        rows.append([
            one["host"],
            *(number(one[name]) for name in ("machine", "role", "kernel", "cores")),
            *_clock(clock),
            *(number(queries.get(name)) for name in ("sent", "answered", "lost")),
            *(micro(timing.get(name)) for name in ("abs_p50", "abs_p99")),
            number(one["steal_s"]),
        ])  # fmt: skip
    return rows


def _clock(clock: Json) -> list[str]:
    """Offset from the controller's clock and how well it is known; and how far it may be from true time."""
    if clock["same_as_controller"]:
        own = ["same clock", "–"]
    else:
        own = [micro(clock["offset_us"]), micro(clock["uncertainty_us"])]
    kept = "not synchronized" if clock["synchronized"] is False else micro(clock["estimated_error_us"])
    return [*own, kept]


def _queries(summary: Json) -> dict[str, Any]:
    queries = summary["queries"]
    read = queries["read"]
    ends = [
        {"name": name.replace("_", " "), "share": queries[name] / read if read else 0, "color": color}
        for name, color in zip(ENDS, END_COLORS, strict=True)
    ]
    rows = [
        [e["name"], number(queries[name]), percent(e["share"])] for e, name in zip(ends, ENDS, strict=True)
    ]
    return {
        "ends": ends,
        "end_rows": [*rows, ["read", number(read), ""]],
        "skipped": [[why, number(count)] for why, count in skip_reasons(summary)],
        "counts": rows_of(summary, "counts"),
    }


def _percentile_row(name: str, values: Json, keys: Iterable[str] = SPREAD) -> list[str]:
    return [name, number(values.get("count")), *(_rounded(values.get(key)) for key in keys)]


def _rounded(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, int | float) else "–"


def _timing(summary: Json) -> dict[str, Any]:
    keys = [*SPREAD, *ABSOLUTE]
    split = summary["timing_error_us_by_transport"]
    rows = [_percentile_row("timing error", summary["timing_error_us"], keys)]
    if len(split) > 1:
        rows += [_percentile_row(f"  over {name}", values, keys) for name, values in split.items()]
    rows.append(_percentile_row("interarrival error", summary["interarrival_error_us"], keys))
    rate, fine = summary["rate_error"], summary["rate_error"]["windows_100ms"]
    warmup = summary["warmup_s"]
    return {
        "timing_heading": ["", "count", *SPREAD_NAMES, *ABSOLUTE_NAMES.values()],
        "timing_rows": rows,
        "warmup": f" The first {warmup:g} s are left out as warm-up." if warmup else "",
        "rate_rows": [
            _rate_row("whole seconds", rate["seconds"], rate["steal_seconds"], rate),
            _rate_row("windows of 100 ms", fine["windows"], fine["steal_windows"], fine),
        ],
    }


def _rate_row(name: str, windows: int, stolen: int | None, shares: Json) -> list[str]:
    within = (percent(shares["within_0_1_percent"]), percent(shares["within_0_02_percent"]))
    return [name, number(windows), *within, "not sampled" if stolen is None else number(stolen)]


def _connections(summary: Json) -> dict[str, Any]:
    """Empty tables where nothing went over a connection."""
    counts = summary["connections"]
    times = [
        _percentile_row(f"to connect over {name}", values)
        for name, values in summary["connect_us_by_transport"].items()
    ]
    times += [
        _percentile_row(f"latency on a {name} connection", values)
        for name, values in summary["latency_us_by_connection"].items()
        if values["count"]
    ]
    return {
        "connection_rows": _rows(summary, "connections") if counts["opened"] else [],
        "failure_rows": [[reason, number(count)] for reason, count in counts["failures"].items()],
        "connection_times": times,
    }


def _answers(run: Run, summary: Json) -> dict[str, Any]:
    rows = []
    for title, key in (("latency", "latency_us"), ("response time", "response_us")):
        if summary.get(key, {}).get("count"):
            rows.append(_percentile_row(title, summary[key]))
            split = summary[f"{key}_by_transport"]
            rows += [_percentile_row(f"  over {name}", values) for name, values in split.items()]
    result = run.comparison
    return {
        "answer_rows": rows_of(summary, "answers"),
        "latency_heading": ["", "count", *SPREAD_NAMES],
        "latency_rows": rows,
        "comparison": result,
        "compared": tables.share_rows(result) if result else [],
        "referrals": tables.referral_rows(result) if result else [],
        "classes": tables.class_rows(result) if result else [],
    }


def _resources(run: Run, summary: Json) -> dict[str, Any]:
    cpu, rss = summary["cpu_s"], summary["peak_rss_bytes"]
    outside, each = summary["cpu_outside_s"], summary["cpu_us_per_query"]
    rows = [
        [
            role,
            number(cpu[role]),
            _rounded(each[role]),
            number(outside.get(role)),
            _rounded(None if rss[role] is None else rss[role] / 1e6),
        ]
        for role in cpu
        if cpu[role] is not None or rss[role] is not None
    ]
    reader = run.told("reader")
    counters = [
        [name.replace("_", " "), number(count)] for name, count in as_dict(reader.get("counters")).items()
    ]
    return {
        "resources": rows,
        "queriers": _querier_rows(run),
        "counters": [row for row in counters if row[1] != "0"],
        "counted": f"counted while reading {over_laps(run)}".strip(),
    }


def _querier_rows(run: Run) -> list[list[str]]:
    rows = []
    for child in run.children:
        for report in as_list(child.get("reports")):
            item, counts = as_dict(report), as_dict(as_dict(report).get("counts"))
            failed = (counts.get("send_failed") or 0) + (counts.get("connection_failed") or 0)
            rows.append([
                f"{item.get('host')} {item.get('querier')}",
                "yes" if item.get("clean") else f"no: {item.get('because')}",
                *(number(counts.get(name)) for name in ("received", "answered", "timed_out")),
                number(failed),
                number(counts.get("late")),
            ])  # fmt: skip
    return rows
