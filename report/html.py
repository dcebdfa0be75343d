"""report.html: one file with everything in it, no outside reference, and whole without its script; what is
printed is escaped by jinja2.
"""

import functools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
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


@functools.cache
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
    of_summaries = (rows_of, skip_reasons, spoiled, spread_row)
    of_comparisons = (tables.share_rows, tables.referral_rows, tables.class_rows)
    made.globals |= {one.__name__: one for one in (*of_summaries, *of_comparisons)}
    made.globals |= {"ends": tuple(zip(ENDS, END_COLORS, strict=True)), "spread_names": SPREAD_NAMES}
    made.globals["absolute_names"] = [*ABSOLUTE_NAMES.values()]
    made.filters |= {one.__name__: one for one in (number, micro, percent, tenths)}
    made.filters["letter"] = lambda at: chr(ord("A") + at % 26)
    return made


def write(path: Path, page: str) -> None:
    whole_file.write(path, page, durable=False)


def run_page(run: Run, summary: Json, drawn: Sequence[Drawn]) -> str:
    counters, started = as_dict(run.told("reader").get("counters")), run.told("start").get("real_ns")
    return page(
        "run",
        version=as_dict(run.manifest.get("versions")).get("reprise") or "",
        commit=str(run.manifest.get("commit") or "")[:12],
        title=run.experiment.get("title") or run.experiment.get("name") or summary["run"],
        summary=summary,
        started=_utc(started) if started else "",
        server=_server(run),
        settings=_settings(run),
        comparison=run.comparison,
        queriers=list(_queriers(run)),
        laps=over_laps(run),
        counters=[(name.replace("_", " "), count) for name, count in counters.items() if count != 0],
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
    lines = runs_table(summaries)
    same = [line for line in lines if len(set(line[1:])) == 1]
    return page(
        "comparison",
        summaries=list(zip(names, summaries, strict=True)),
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
    return {
        **lists,
        "captures": captures,
        "packets": as_dict(built.get("reader")).get("packets"),
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
    reader, start = run.told("reader"), run.told("start")
    first, last = start.get("trace_first_ns"), start.get("trace_last_ns")
    rows = [("trace", run.played)]
    if isinstance(first, int) and isinstance(last, int) and first:
        rows.append(("recorded", f"{_utc(first)}, {(last - first) / 1e9:,.3f} s {over_laps(run)}".strip()))
    for name in ("packets", "queries", "responses"):
        if isinstance(reader.get(name), int):
            rows.append((f"{name} {over_laps(run) or 'in it'}", number(reader[name])))
    return rows


def _queriers(run: Run) -> Iterator[list[object]]:
    """Rows of a table; queriers that were cut off may say less."""
    for item in (as_dict(one) for child in run.children for one in as_list(child.get("reports"))):
        counts = as_dict(item.get("counts"))
        yield [
            f"{item.get('host')} {item.get('querier')}",
            "yes" if item.get("clean") else f"no: {item.get('because')}",
            *(counts.get(name) for name in ("received", "answered", "timed_out")),
            (counts.get("send_failed") or 0) + (counts.get("connection_failed") or 0),
            counts.get("late"),
        ]


def spread_row(name: str, values: Json, absolute: bool = False) -> list[object]:
    """Name, count, and percentiles in µs; with those of the absolute value."""
    keys = (*SPREAD, *ABSOLUTE) if absolute else SPREAD
    return [name, values.get("count"), *(tenths(values.get(key)) for key in keys)]


def tenths(value: object) -> str:
    return f"{value:,.1f}" if isinstance(value, int | float) else "–"
