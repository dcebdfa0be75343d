"""Which files a check looks at: includes, what changed, stamps, and git in a repository of the test's own."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from cli import programs
from cli.tools import changes, cpp_checks
from cli.tools.changes import Changes, Choice, Repository, Stamp
from cli.tools.counts import Counts

TEXTS = {
    "core/a.hh": "#pragma once\n",
    "core/b.hh": '#include "core/a.hh"\n',
    "core/b.cc": '#include "b.hh"\n#include <vector>\n',
    "core/c.cc": '#  include "core/none.hh"\n#include "core/wire.pb.h"\n',
    "core/wire.proto": "",
    "proxy/d.cc": 'text("#include core/a.hh");\n',
}
UNITS = ("core/b.cc", "core/c.cc", "proxy/d.cc")
GRAPH = changes.include_graph(TEXTS)


def test_includes_are_those_of_the_project() -> None:
    assert {
        "core/a.hh": set(),
        "core/b.hh": {"core/a.hh"},
        "core/b.cc": {"core/b.hh"},
        "core/c.cc": {"core/wire.proto"},
        "core/wire.proto": set(),
        "proxy/d.cc": set(),
    } == GRAPH


@pytest.mark.parametrize(
    ("changed", "looked_at"),
    [
        ((), ()),
        (("README.md",), ()),
        (("core/a.hh",), ("core/b.cc",)),
        (("core/wire.proto",), ("core/c.cc",)),
        (("proxy/d.cc", "core/b.hh"), ("core/b.cc", "proxy/d.cc")),
        (("gone.cc",), ()),
    ],
)
def test_what_changed_and_what_includes_it_is_looked_at(
    changed: tuple[str, ...], looked_at: tuple[str, ...]
) -> None:
    found = changes.choose(UNITS, Changes(frozenset(changed), "since x"), GRAPH)
    assert found.files == looked_at
    words = "1 file" if len(looked_at) == 1 else f"{len(looked_at)} files"
    assert found.remark == f"{words} checked, {3 - len(looked_at)} unchanged since x"


def test_everything_is_looked_at_where_nothing_is_known() -> None:
    assert changes.choose(UNITS, Changes(None), {}) == Choice(UNITS, "3 files checked")


def test_includes_in_a_circle_end() -> None:
    assert changes.affected({"a"}, {"a": {"b"}, "b": {"a"}, "c": set()}) == {"a", "b"}


# --- git --------------------------------------------------------------------------------------------------


class Folder:
    """A repository with a commit for each change."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.git("init", "-q")
        self.commit("first.cc")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.", "-c", "commit.gpgsign=false")
        done = subprocess.run(
            ["git", *who, *words], cwd=self.path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, name: str) -> str:
        """Changes a file; the commit's name."""
        file = self.path / name
        file.write_text(f"{file.read_text() if file.exists() else ''}x\n")
        self.git("add", name)
        self.git("commit", "-q", "-m", name)
        return self.git("rev-parse", "HEAD")

    @property
    def asked(self) -> Repository:
        return Repository(self.path)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def test_changes_since_a_stamp(folder: Folder) -> None:
    stamp = Stamp(folder.commit("a.cc"), "same")
    head = folder.commit("b.cc")
    found = folder.asked.changes(stamp, "same")
    assert found == Changes(frozenset({"b.cc"}), f"since {stamp.commit[:10]}", head)


def test_a_folder_whose_list_of_files_changed_is_looked_at_whole() -> None:
    found = changes.choose(
        ["core/a.hh", "core/trace/b.hh", "proxy/c.hh"],
        Changes(frozenset({"core/CMakeLists.txt"}), "since x"),
        {},
    )
    assert found.files == ("core/a.hh", "core/trace/b.hh")


def test_what_is_not_committed_is_looked_at_and_not_stamped(folder: Folder) -> None:
    stamp = Stamp(folder.commit("a.cc"), "same")
    folder.commit("b.cc")
    (folder.path / "a.cc").write_text("changed\n")
    (folder.path / "new.hh").write_text("new\n")
    (folder.path / "notes.md").write_text("not C++\n")
    (folder.path / "CMakeLists.txt").write_text("how C++ is compiled\n")
    found = folder.asked.changes(stamp, "same")
    assert found.files == frozenset({"CMakeLists.txt", "a.cc", "b.cc", "new.hh"})
    assert found.commit == ""
    assert folder.asked.everything() == Changes(None)


def test_without_a_stamp_that_fits_the_last_commits_are_looked_at(folder: Folder) -> None:
    for number in range(changes.RECENT + 1):
        head = folder.commit(f"{number}.cc")
    recent = frozenset(f"{number}.cc" for number in range(1, changes.RECENT + 1))
    for stamp in (None, Stamp(head, "other configuration"), Stamp("0" * 40, "same")):
        found = folder.asked.changes(stamp, "same")
        assert (found.files, found.commit) == (recent, "")
    folder.git("checkout", "-q", "-b", "side", "HEAD~1")
    folder.commit("side.cc")
    assert folder.asked.changes(Stamp(head, "same"), "same").base == f"in the last {changes.RECENT} commits"


def test_without_history_everything_is_looked_at(folder: Folder) -> None:
    assert folder.asked.changes(None, "same") == Changes(None, "", folder.git("rev-parse", "HEAD"))
    assert folder.asked.everything().commit == folder.git("rev-parse", "HEAD")


def test_outside_a_repository_everything_is_looked_at(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Repository(tmp_path_factory.mktemp("bare")).changes(None, "same") == Changes(None)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert folder.asked.changes(None, "same") == Changes(None)
    assert folder.asked.everything() == Changes(None)


# --- stamps -----------------------------------------------------------------------------------------------


def test_stamps_lie_in_the_users_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    path = changes.stamp_path("clang-tidy")
    assert path == tmp_path / "reprise/clang-tidy.json"
    assert changes.read_stamp(path) is None
    changes.write_stamp(path, Stamp("abc", "conf"))
    assert changes.read_stamp(path) == Stamp("abc", "conf")
    path.write_text("{}")
    assert changes.read_stamp(path) is None


def test_a_pass_moves_the_stamp_and_a_finding_does_not(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The long suite stamps first; then only what changed is looked at, and a pass moves the stamp on."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setattr(programs, "ROOT", folder.path)
    monkeypatch.setattr(cpp_checks, "configured", lambda _preset: True)
    looked: list[tuple[str, ...]] = []
    outcome = [Counts(passed=1)]

    def look(choice: Choice) -> Counts:
        looked.append(choice.files)
        return outcome[0]

    (folder.path / ".gitignore").write_text("cache/\n")
    folder.commit(".gitignore")
    check = cpp_checks.Checked("it", "conf", lambda _slow: ["a.cc", "first.cc"], look)
    path = changes.stamp_path("it")
    full = check.run(slow=True)
    first = changes.read_stamp(path)
    assert full.remarks == ("it: 2 files checked",)
    assert first == Stamp(folder.git("rev-parse", "HEAD"), "conf")
    outcome[0] = Counts(failed=1)
    head = folder.commit("a.cc")
    check.run(slow=False)
    assert changes.read_stamp(path) == first
    outcome[0] = Counts(passed=1)
    assert check.run(slow=False).passed == 1
    assert changes.read_stamp(path) == Stamp(head, "conf")
    assert check.run(slow=False).remarks == (f"it: 0 files checked, 2 unchanged since {head[:10]}",)
    assert looked == [("a.cc", "first.cc"), ("a.cc",), ("a.cc",)]
