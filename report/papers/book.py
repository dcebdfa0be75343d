"""The files of experiments/papers: studies, each an experiment with a table [paper] whose runs give one
figure or more, and published.toml. The list of figures is what these files hold.
"""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from report.errors import ReportError
from report.run import Json, as_dict

FOLDER = Path(__file__).resolve().parent.parent.parent / "experiments/papers"
PUBLISHED = "published.toml"
QUICK, FULL = "quick", "full"


@dataclass(frozen=True)
class Figure:
    """`minutes` of the quick profile; `plots` by name."""

    name: str
    title: str
    minutes: float
    plots: Sequence[str] = ()


@dataclass(frozen=True)
class Study:
    """A file: what is run together. `tables` are those of the file."""

    path: Path
    tables: Json

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def told(self) -> Json:
        return as_dict(self.tables.get("paper"))

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return tuple(Figure(name, **one) for name, one in as_dict(self.told.get("figures")).items())

    @property
    def traces(self) -> Mapping[str, Json]:
        """By name the options of traces that are made and counted; a study that has some replays nothing."""
        return as_dict(self.told.get("traces"))

    def settings(self, profile: str, real: bool = False) -> list[str]:
        """What the profile sets, as `--set` takes it; `real`: where a trace of the papers is played."""
        keys = [*(["full"] if profile == FULL else []), *(["with_trace"] if real else [])]
        keys += ["quick_trace"] if real and profile == QUICK else []
        return [one for key in keys for one in self.told.get(key, ())]

    def trace_options(self, name: str, profile: str) -> Json:
        less = as_dict(as_dict(self.told.get("quick")).get(name)) if profile == QUICK else {}
        return {**self.traces[name], **less}

    def labels(self, profile: str, real: bool = False) -> list[str]:
        """Of the variants, in their order; `real`: a trace of the papers is played."""
        keys = [*(["trace_labels"] if real else []), *(["full_labels"] if profile == FULL else []), "labels"]
        return list(next((self.told[key] for key in keys if key in self.told), ()))


@dataclass(frozen=True)
class Row:
    """A published value, for one variant; see published.toml."""

    figure: str
    what: str
    measure: str
    section: str = ""
    unit: str = ""
    value: float | None = None
    tolerance: float | None = None
    variant: str = ""
    over: str = ""
    scale: float = 1
    relation: str = "more"
    bound: str = ""
    per: str = ""
    only: str = ""
    name: str = ""
    because: str = ""
    nodes: str = ""
    fit: str = ""


def studies(folder: Path = FOLDER) -> list[Study]:
    """Those of the folder, by paper and number."""
    files = [one for one in folder.glob("*.toml") if one.name != PUBLISHED]
    found = [Study(one, tomllib.loads(one.read_text(encoding="utf-8"))) for one in files]
    return sorted(
        found, key=lambda one: [word.zfill(4) if word.isdigit() else word for word in one.name.split("-")]
    )


def find(name: str, known: list[Study]) -> Study:
    """The study with this name or with a figure of it. Raises ReportError with the names there are."""
    for one in known:
        if name == one.name or name in {figure.name for figure in one.figures}:
            return one
    names = ", ".join(figure.name for one in known for figure in one.figures)
    raise ReportError(f"no figure {name}", f"use one of {names}", 2)


def tables(folder: Path = FOLDER) -> Json:
    return tomllib.loads((folder / PUBLISHED).read_text(encoding="utf-8"))


def published(study: Study, labels: list[str], folder: Path = FOLDER) -> list[Row]:
    """The rows of the study's figures; those for all variants have one for each label."""
    told = tables(folder)
    return [
        row
        for figure in study.figures
        for one in as_dict(told.get(figure.name)).get("rows", ())
        for row in _rows(figure.name, {**told[figure.name], **one}, labels)
    ]


def _rows(figure: str, one: Json, labels: list[str]) -> Iterator[Row]:
    given = {name: value for name, value in one.items() if name not in ("in", "rows")}
    for at, label in enumerate(one.get("in", labels)):
        each = {name: value[at] if isinstance(value, list) else value for name, value in given.items()}
        yield Row(figure=figure, variant=label, **each)
