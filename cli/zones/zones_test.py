"""What servers of a hierarchy load, made of the planner's report and map."""

import json
from pathlib import Path
from typing import Any

import pytest

from cli.__main__ import main
from cli.errors import RepriseError
from cli.zones import zone_plan, zones

MADE = "made by reprise zones plan; changes are lost with the next plan"
MAP = """#reprise-map 1
resolver\t1\t198.19.254.1\tfd00:198:19:fe::1
meta\t1\t1\t1\t198.18.128.1\tfd00:198:18::1
meta\t2\t1\t1\t198.18.128.2\tfd00:198:18::2
oqda\t10.0.0.1\t1
oqda\t10.0.0.2\t2
"""
ROOT = {"zones": ["."], "files": ["root.zone"]}
COM = {"zones": ["com."], "files": ["com.zone"]}
BOTH = {"zones": ["com.", r"o\034dd.org."], "files": ["com.zone", "/odd/odd.zone"]}


def slot(number: int, color: int, held: dict[str, list[str]], instance: int = 1) -> dict[str, Any]:
    names, files = held["zones"], held["files"]
    return {"slot": number, "instance": instance, "color": color, "names": names, "files": files}


def report(form: str, slots: list[dict[str, Any]], engine: str = "bind") -> dict[str, Any]:
    """Root, com., and an address that serves com. and a zone with an odd name."""
    held = ((ROOT, ["10.0.0.1"]), (COM, ["10.0.0.2", "2001:db8::2"]), (BOTH, ["10.0.0.3"]))
    of = [1, 2, 2] if form == "colored" else [1, 1, 1] if form == "paper" else [1, 2, 3]
    groups = [{**one, "addresses": at, "slot": number} for (one, at), number in zip(held, of, strict=True)]
    return {"schema": 1, "engine": engine, "form": form, "slots": slots, "groups": groups}


def texts(tmp_path: Path, plan: dict[str, Any], lines: str = MAP) -> dict[str, str]:
    (tmp_path / "map.tsv").write_text(lines)
    return zones.zone_texts(plan, zone_plan.read_map(tmp_path / "map.tsv"), "/zones")


def test_colored_views_are_told_by_destination(tmp_path: Path) -> None:
    plan = report("colored", [slot(1, 1, ROOT), slot(2, 2, BOTH)])
    assert texts(tmp_path, plan) == {
        "views-1.conf": rf"""// {MADE}
view "c1" {{
    match-destinations {{ 198.18.128.1; fd00:198:18::1; }};
    zone "." {{ type primary; file "/zones/root.zone"; }};
}};
view "c2" {{
    match-destinations {{ 198.18.128.2; fd00:198:18::2; }};
    zone "com." {{ type primary; file "/zones/com.zone"; }};
    zone "o\034dd.org." {{ type primary; file "/odd/odd.zone"; }};
}};
"""
    }


def test_papers_views_are_told_by_client_and_share_zones(tmp_path: Path) -> None:
    text = texts(tmp_path, report("paper", [slot(1, 1, BOTH)]))["views-1.conf"]
    assert 'view "g2" {\n    match-clients { 10.0.0.2; 2001:db8::2; };\n' in text
    assert 'view "g3" {\n    match-clients { 10.0.0.3; };\n    zone "com." { in-view "g2"; };\n' in text


def test_separate_form_has_a_view_for_each_group(tmp_path: Path) -> None:
    lines = f"{MAP}meta\t3\t1\t1\t198.18.128.3\tfd00:198:18::3\n"
    plan = report("separate", [slot(1, 1, ROOT), slot(2, 2, COM), slot(3, 3, BOTH)])
    text = texts(tmp_path, plan, lines)["views-1.conf"]
    assert 'view "g3" {\n    match-destinations { 198.18.128.3; fd00:198:18::3; };' in text


def test_contents_of_one_name_are_not_shared(tmp_path: Path) -> None:
    other = {"zones": ["com."], "files": ["other.zone"]}
    text = texts(tmp_path, report("colored", [slot(1, 1, COM), slot(2, 2, other)]))["views-1.conf"]
    assert 'file "/zones/com.zone"' in text and 'file "/zones/other.zone"' in text
    assert "in-view" not in text


def test_instances_have_views_of_their_own(tmp_path: Path) -> None:
    lines = MAP.replace("meta\t2\t1\t1", "meta\t2\t1\t2")
    made = texts(tmp_path, report("colored", [slot(1, 1, COM), slot(2, 1, BOTH, instance=2)]), lines)
    assert sorted(made) == ["views-1.conf", "views-2.conf"]
    assert "odd" not in made["views-1.conf"] and 'view "c1"' in made["views-2.conf"]
    assert "in-view" not in made["views-2.conf"]


def test_nsd_has_stanzas(tmp_path: Path) -> None:
    made = texts(tmp_path, report("colored", [slot(1, 1, ROOT), slot(2, 2, BOTH)], "nsd"))
    assert made["nsd-2.conf"] == (
        f"# {MADE}\n"
        'zone:\n    name: "com."\n    zonefile: "/zones/com.zone"\n'
        'zone:\n    name: "o\\034dd.org."\n    zonefile: "/odd/odd.zone"\n'
    )


def test_nothing_of_a_former_plan_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = report("colored", [slot(1, 1, ROOT), slot(2, 2, BOTH)])
    for name, text in (
        ("plan.json", json.dumps(plan)),
        ("map.tsv", MAP),
        ("root.key", ""),
        ("root.hints", ""),
    ):
        (tmp_path / name).write_text(text)
    for name in ("views-2.conf", "nsd-7.conf", "views-mine.conf"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr(zones, "_plan", lambda _: 0)
    assert main(["zones", "plan", "/zones", "-o", str(tmp_path)]) == 0
    kept = {path.name for path in tmp_path.glob("*.conf")}
    assert kept == {"views-1.conf", "named-1.conf", "views-mine.conf"}


@pytest.mark.parametrize(
    ("engine", "path", "status"),
    [("nsd", "/a%b", 2), ("bind", "/a%b", 0), ("bind", '/a"b', 2), ("bind", "/\n", 2)],
)
def test_paths_that_servers_cannot_read_are_refused(
    capsys: pytest.CaptureFixture[str], engine: str, path: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zones, "_plan", lambda _: 1)
    words = ["zones", "plan", "/zones", "-o", "/nowhere", "--engine", engine, "--zones-path", path]
    assert main(words) == (status or 1)
    assert ("--zones-path has a quote" in capsys.readouterr().err) == (status == 2)


HINTS = ". 3600 IN NS a.root-servers.net.\na.root-servers.net. 3600 IN A 10.0.0.1\n"
KEY = ". 3600 IN DNSKEY 257 3 13 abcd/+12==\n"


def made(folder: Path, **instead: str) -> Path:
    """Files of the planner, some with other contents."""
    plan = report("colored", [slot(1, 1, ROOT), slot(2, 2, BOTH)])
    texts = {"plan.json": json.dumps(plan), "map.tsv": MAP, "root.hints": "; made\n" + HINTS, "root.key": KEY}
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(instead.get(name.replace(".", "_"), text))
    return folder


def served(tmp_path: Path, **instead: str) -> None:
    (tmp_path / "served").mkdir()
    planned = made(tmp_path / "made", **instead)
    zones.serve(Path("/zones"), planned, tmp_path / "served", hops=[[1, 1, "198.19.253.2"]])


def test_roots_files_are_made_of_the_planners(tmp_path: Path) -> None:
    served(tmp_path)
    kept = {path.name: path.read_text() for path in (tmp_path / "served").iterdir()}
    assert (kept["map.tsv"], kept["root.hints"], kept["root.key"]) == (MAP, HINTS, KEY)
    assert 'static-key 257 3 13 "abcd/+12=="' in kept["root.anchors"]
    assert kept["meta-1.ip"].splitlines()[0] == "addr replace 198.18.128.1/32 dev lo"
    assert f'include "{tmp_path}/served/views-1.conf";' in kept["named-1.conf"]


_SLOT = '"form": "colored", "slots": [{{"slot": {}'


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("map.tsv", "198.18.128.1\t", "198.18.128.1 dev lo\t"),
        ("map.tsv", "fd00:198:18::1", "fe80::1%x dev lo"),
        ("map.tsv", "198.18.128.2\tfd00:198:18::2", "fd00:198:18::2\t198.18.128.2"),
        ("map.tsv", "oqda\t10.0.0.1", "oqda\t10.0.0.1 : drop; }"),
        ("map.tsv", "oqda\t10.0.0.1\t1", "vrf exec main sh"),
        ("map.tsv", "meta\t", "#meta\t"),
        ("map.tsv", "198.18.128.1\tfd00:198:18::1", "198.18.128.1\t-"),
        ("plan.json", '{"schema"', '["schema"'),
        ("plan.json", f'"bind", {_SLOT.format(1)}', f'"nsd", {_SLOT.format(7)}'),
        ("plan.json", '"com.zone"', json.dumps('com.zone"; }; }; include "/etc/shadow')),
        ("plan.json", '"com."', json.dumps("com.\\")),
        ("plan.json", '"com."', json.dumps("com.\n")),
        ("plan.json", '"color": 1', '"color": "1\\" {"'),
        ("plan.json", '"slot": 1', '"slot": "/../../etc/x"'),
        ("plan.json", '"slots"', '"slot"'),
        ("root.key", "257 3", "257 3; include"),
        ("root.key", KEY, "$INCLUDE /etc/shadow\n"),
        ("root.hints", HINTS, "$INCLUDE /etc/shadow\n"),
        ("root.hints", "10.0.0.1", "10.0.0.1\n$GENERATE 1-9 a A 10.0.0.1"),
    ],
)
def test_root_takes_nothing_else_from_the_planner(tmp_path: Path, file: str, old: str, new: str) -> None:
    text = (made(tmp_path / "good") / file).read_text()
    assert old in text
    with pytest.raises(RepriseError) as caught:
        served(tmp_path, **{file.replace(".", "_"): text.replace(old, new)})
    assert "again" in caught.value.hint
    assert not list((tmp_path / "served").iterdir())
