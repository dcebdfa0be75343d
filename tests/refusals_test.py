"""What is refused, and the line that says so: each row of `refusals.txt`, at the layer that knows it first.

A row is what is given and, indented, the whole line of the error; "…" stands for words of a library's own.
REPRISE_WRITE_TRANSCRIPTS=1 writes the lines that differ anew.
"""

import gzip
import lzma
import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli import programs
from cli.errors import UsageError
from cli.experiment.experiment import load
from tests import command

_TABLE = Path(__file__).with_name("refusals.txt")
_EXPERIMENTS = {
    "nsd": 'trace = "t"\n[server]\nzone = "z"\n',
    "hierarchy": 'trace = "t"\n[server]\nkind = "hierarchy"\n[hierarchy]\nzones = "z"\n',
    "generate": '[generate]\nname = "www.example.com"\n[server]\nzone = "z"\n',
}
_TEXT = "#reprise-text 1\ntime\tsource\ttransport\tname\ttype\n"
_FILES = {
    "empty": b"",
    "junk": b"no trace, no zone, no experiment" * 9,
    "zeros": bytes(5_000),
    "text": b"# text\n" * 100,
    "text.gz": gzip.compress(b"nor is this" * 50, mtime=0),
    "nothing.gz": gzip.compress(b"", mtime=0),
    "cut.gz": gzip.compress(b"\xd4\xc3\xb2\xa1" * 4_000, mtime=0)[:40],
    "header.pcap": b"\xd4\xc3\xb2\xa1\2\0\4\0" + bytes(8) + b"\0\0\1\0\1\0\0\0",
    "rows.tsv": _TEXT.encode(),
    "doh.tsv": f"{_TEXT}1\t192.0.2.1\thttps\t.\tNS\n2\t192.0.2.1\tquic\t.\tNS\n".encode(),
    "one.tsv": f"{_TEXT}1\t192.0.2.1\tudp\t.\tNS\n".encode(),
    "rtts": b"192.0.2.0/24 4\n198.51.100.0/24 soon\n",
    "cut.xz": lzma.compress(b"x" * 5_000)[:40],
    "bad.toml": b'[[rule]]\nkind = "tranzport"\nto = "tcp"\n',
    "share.toml": b'[[rule]]\nkind = "keep"\n\nshare = 120\n',
    "twice.toml": b'[[rule]]\nkind = "keep"\nkind = "drop"\n',
    "value.toml": b"[[rule]]\nkind = \n",
    "key.toml": b'sed = 7\n[[rule]]\nkind = "keep"\n',
}
_KEYS = "--run-id x --cert c --key k --ca a --results r"
_WORDS = {
    "QUICK": str(programs.ROOT / "experiments/quickstart.toml"),
    "HIERARCHY": str(programs.ROOT / "experiments/hierarchy.toml"),
    "KEYS": _KEYS,
    "CONTROLLED": f"--distributor 127.0.0.1:1 --server 127.0.0.1 {_KEYS}",
    "DISTRIBUTED": f"distribute --listen 127.0.0.1:1 --name x {_KEYS}",
}


def _rows() -> Iterator[tuple[str, str, str]]:
    """Section, what is given, and the line."""
    section = given = ""
    for line in _TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("== "):
            section = line.split()[1].rstrip(":")
        elif line.startswith("    "):
            yield section, given, line.strip()
        elif line and not line.startswith("#"):
            given = line


ROWS = list(_rows())
SETTINGS = [row for row in ROWS if row[0] != "command"]
COMMANDS = [row for row in ROWS if row[0] == "command"]


def expect(given: str, line: str, found: str) -> None:
    if re.fullmatch(".*".join(map(re.escape, line.split("…"))), found):
        return
    if os.environ.get("REPRISE_WRITE_TRANSCRIPTS"):
        text = _TABLE.read_text(encoding="utf-8")
        _TABLE.write_text(text.replace(f"\n{given}\n    {line}\n", f"\n{given}\n    {found}\n"), "utf-8")
    assert found == line


@pytest.mark.parametrize(("section", "given", "line"), SETTINGS, ids=lambda one: one[:60])
def test_an_experiment_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, given: str, line: str
) -> None:
    """By its schema and rules, without a process; in the section `file` a row is the whole text."""
    monkeypatch.chdir(tmp_path)
    text = _EXPERIMENTS.get(section) or given.encode("latin1").decode("unicode_escape")
    Path("one.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load(Path("one.toml"), shlex.split(given) if section in _EXPERIMENTS else [])
    expect(given, line, caught.value.line().removeprefix("reprise: error: "))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that are not what they are taken for."""
    folder = tmp_path_factory.mktemp("refusals")
    for name, content in _FILES.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    return folder


@pytest.mark.parametrize(("section", "given", "line"), COMMANDS, ids=lambda one: one[:60])
def test_a_command_is_refused(place: Path, section: str, given: str, line: str) -> None:
    """With status 2 and one line, before anything else has happened."""
    before = set(place.iterdir())
    name, *words = [
        word for one in shlex.split(given) for word in (_WORDS[one].split(" ") if one in _WORDS else [one])
    ]
    if name == "reprise":
        done = command.run(*words, cwd=place)
    else:
        done = subprocess.run(
            [programs.own(name), *words], cwd=place, capture_output=True, text=True, check=False, timeout=60
        )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
    assert set(place.iterdir()) == before
    expect(given, line, done.stderr.rstrip("\n").replace(f"{place}/", "").replace(f"{programs.ROOT}/", ""))
