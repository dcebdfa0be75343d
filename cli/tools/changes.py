"""Which C++ files a check has to look at: those that changed since it last passed, and what includes them.

A stamp in the user's cache names the commit and the configuration of that pass, so that a fresh clone knows
it too. Without a stamp the last commits are looked at; where git cannot tell, everything is.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cli import programs

RECENT = 20  # commits that are looked at without a stamp
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
SOURCES = (".cc", ".hh", ".h", ".c", ".proto")
_LISTS = "CMakeLists.txt"  # which files a folder compiles, and how


@dataclass(frozen=True)
class Stamp:
    """The last pass without a finding."""

    commit: str
    configuration: str


@dataclass(frozen=True)
class Changes:
    """Files that differ from a base; None is all of them. A pass may be stamped with `commit`."""

    files: frozenset[str] | None
    base: str = ""  # in words
    commit: str = ""


@dataclass(frozen=True)
class Choice:
    """What is looked at, and the remark that says so."""

    files: tuple[str, ...]
    remark: str


# --- pure -------------------------------------------------------------------------------------------------


def include_graph(texts: Mapping[str, str]) -> dict[str, set[str]]:
    """For each file the project's files that it includes, by their path from the root or from its own folder.
    Generated headers of protobuf stand for their description.
    """
    graph = {}
    for file, text in texts.items():
        found = set()
        for name in _INCLUDE.findall(text):
            described = re.sub(r"\.pb\.h$", ".proto", name)
            beside = os.path.normpath(PurePosixPath(file).parent / described)
            found |= {one for one in (described, beside) if one in texts}
        graph[file] = found
    return graph


def affected(changed: Collection[str], graph: Mapping[str, Collection[str]]) -> set[str]:
    """Files that changed or include such a file, directly or by way of others."""
    found: set[str] = set()
    more = set(changed)
    while more:
        found |= more
        more = {file for file, included in graph.items() if not found.isdisjoint(included)} - found
    return found


def choose(files: Iterable[str], changes: Changes, graph: Mapping[str, Collection[str]]) -> Choice:
    """Those of the files that a check has to look at."""
    files = sorted(files)
    if changes.files is None:
        return Choice(tuple(files), f"{_counted(len(files))} checked")
    touched = affected(changes.files, graph)
    folders = tuple(f"{PurePosixPath(one).parent}/" for one in changes.files if one.endswith(f"/{_LISTS}"))
    chosen = tuple(file for file in files if file in touched or file.startswith(folders))
    rest = len(files) - len(chosen)
    return Choice(chosen, f"{_counted(len(chosen))} checked, {rest} unchanged {changes.base}")


def _counted(files: int) -> str:
    return "1 file" if files == 1 else f"{files} files"


# --- git and the cache ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A commit: its time in seconds since 1970, its short name, and whether files differ from it."""

    time_s: int
    commit: str
    changed: bool


@dataclass(frozen=True)
class Repository:
    """What git says of a folder; the name of a check is that of its stamp."""

    root: Path

    def changes(self, stamp: Stamp | None, configuration: str) -> Changes:
        """Since the stamp, or in the last commits where it is of another configuration or history."""
        head = self._git("rev-parse", "--verify", "HEAD")
        if head is None or self._git("rev-parse", "--show-prefix") != "":
            return Changes(None)
        dirty = self._uncommitted()
        commit = "" if dirty is None or dirty else head
        valid = stamp is not None and stamp.configuration == configuration
        if valid and stamp and self._git("merge-base", "--is-ancestor", stamp.commit, head) is not None:
            return self._since(stamp.commit, f"since {stamp.commit[:10]}", dirty, commit)
        recent = self._git("rev-parse", "--verify", f"{head}~{RECENT}")
        if recent is None:
            return Changes(None, commit=commit)
        # Not every file is checked here, so no stamp is written.
        return self._since(recent, f"in the last {RECENT} commits", dirty, "")

    def everything(self) -> Changes:
        """All files; the pass can be stamped where nothing is uncommitted."""
        head = self._git("rev-parse", "--verify", "HEAD")
        return Changes(None, commit=head if head and self._uncommitted() == set() else "")

    def state(self) -> State | None:
        """What is checked out; None where git cannot tell."""
        told = (self._git("show", "-s", "--format=%ct %h", "HEAD") or "").split()
        if len(told) != 2 or self._git("rev-parse", "--show-prefix") != "":
            return None
        return State(int(told[0]), told[1], changed=self._git("status", "--porcelain") != "")

    def _since(self, base: str, words: str, dirty: set[str] | None, commit: str) -> Changes:
        named = self._git("diff", "--name-only", "--no-renames", base, "HEAD")
        if named is None or dirty is None:
            return Changes(None)
        return Changes(frozenset(named.splitlines()) | dirty, words, commit)

    def _uncommitted(self) -> set[str] | None:
        """C++ files, and what says how they are compiled, that are not as committed; new ones among them."""
        status = self._git("status", "--porcelain", "--no-renames", "--untracked-files=all")
        if status is None:
            return None
        return {line[3:] for line in status.splitlines() if line.endswith((*SOURCES, _LISTS, ".cmake"))}

    def _git(self, *words: str) -> str | None:
        """Standard output; None where git is missing or refuses."""
        argv = ["git", "-c", f"safe.directory={self.root}", "-c", "core.quotePath=false", *words]
        try:
            done = subprocess.run(argv, cwd=self.root, capture_output=True, text=True, check=False)
        except OSError:
            return None
        return done.stdout.rstrip("\n") if done.returncode == 0 else None


def stamp_path(check: str) -> Path:
    """Where the stamp of a check lies; a fresh clone finds it again."""
    return programs.cache() / f"{check}.json"


def read_stamp(path: Path) -> Stamp | None:
    """The stamp; None where there is none that can be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        return Stamp(str(value["commit"]), str(value["configuration"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(path: Path, stamp: Stamp) -> None:
    """Whole or not at all; a cache that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        half = path.with_suffix(f".{os.getpid()}")
        half.write_text(json.dumps({"commit": stamp.commit, "configuration": stamp.configuration}), "utf-8")
        half.replace(path)
    except OSError:
        return


def fingerprint(files: Iterable[Path], *others: str) -> str:
    """Of a configuration: files and, say, the version of a tool."""
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes() + b"\0")
    for text in others:
        found.update(text.encode() + b"\0")
    return found.hexdigest()
