"""docs/summary.schema.json: made of the summaries of the stored runs, with the words of docs/formats.md.
REPRISE_WRITE_TRANSCRIPTS=1 writes it anew.
"""

import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]

from report.run import Run
from report.summary import SCHEMA, summarize
from report.tally import measure
from report.tests.record import EXPERIMENTS
from report.tests.runs_test import folder_of

ROOT = Path(__file__).resolve().parents[2]
FILE = ROOT / "docs/summary.schema.json"
# Objects whose keys are names of what was counted; all others have the same keys always.
BY_NAME = re.compile(r"rcode|skipped|failures|.*_by_transport|promoted|not_promoted|steady|unmapped")


def words() -> dict[str, str]:
    """What docs/formats.md says of each key."""
    text = (ROOT / "docs/formats.md").read_text(encoding="utf-8")
    part = text.partition("## `summary.json`")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`[^|]+`) \| (.+) \|$", part, re.MULTILINE)
    return {key: meaning for keys, meaning in rows for key in re.findall(r"`(\w+)`", keys)}


def shape(values: Sequence[Any], name: str = "") -> dict[str, Any]:
    """A schema that all values fit. Any number may be null, where there was nothing to measure."""
    if all(isinstance(one, dict) or one is None for one in values) and any(values):
        held = [one for one in values if one is not None]
        kind = {"type": "object" if len(held) == len(values) else ["object", "null"]}
        keys = list(dict.fromkeys(key for one in held for key in one))
        if BY_NAME.fullmatch(name):
            return {**kind, "additionalProperties": shape([one[key] for one in held for key in one])}
        parts = {key: shape([one[key] for one in held if key in one], key) for key in keys}
        return {
            **kind,
            "properties": parts,
            "required": [key for key in keys if all(key in one for one in held)],
        }
    if any(isinstance(one, list) for one in values):
        inner = [item for one in values for item in one or ()]
        return {"type": ["array", "null"], **({"items": shape(inner, name)} if inner else {})}
    kinds = (bool, "boolean"), (str, "string"), ((int, float), "number")
    found = [name for kind, name in kinds if any(isinstance(one, kind) for one in values)]
    return {"type": [found[0], "null"]} if found else {}


def test_the_schema_is_that_of_the_stored_runs(tmp_path: Path) -> None:
    summaries = [
        json.loads(json.dumps(summarize(measure(Run(folder_of(name, tmp_path / name))))))
        for name in EXPERIMENTS
    ]
    made = shape(summaries)
    meanings = words()
    assert set(made["properties"]) - {"schema"} <= set(meanings), "a key is not in docs/formats.md"
    for key, part in made["properties"].items():
        part.update({"description": meanings[key]} if key in meanings else {"const": SCHEMA})
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "summary.json of Reprise"}
    text = json.dumps({**head, **made}, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("REPRISE_WRITE_TRANSCRIPTS"):
        FILE.write_text(text, encoding="utf-8")
    assert text.splitlines() == FILE.read_text(encoding="utf-8").splitlines()
    checker = jsonschema.Draft202012Validator(json.loads(text))
    for summary in summaries:
        assert not list(checker.iter_errors(summary))
    broken = {**summaries[0], "queries": {**summaries[0]["queries"], "read": "many"}}
    assert list(checker.iter_errors(broken))
