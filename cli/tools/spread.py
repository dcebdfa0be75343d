"""`reprise mutate --inventory HOSTS`: captures are reduced on many hosts, then merged and changed here.

GNU parallel carries every capture to a host (over ssh, with rsync), runs the packaged mutator there and
brings back what a replay needs of it; see `reprise-mutator reduce`. What crosses files (TCP streams,
fragments, rules that count) is left to the one `mutate` at the end, so the result is byte for byte that of
one machine. What is done already is not done again when the command is repeated.
"""

import argparse
import hashlib
import json
import re
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cli import VERSION, programs
from cli.errors import RepriseError, UsageError, complain, want
from cli.experiment import tables
from cli.tools import package
from report.errors import Parser

_MARK = "mark"
_OPTIONS = ("--inventory", "--ssh-config", "--spread-dir")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line, taken apart: the `inputs`, the `output` and `port`s, the `rest` that mutate is given
    besides, and our own options. Inputs stand before the other options of mutate, because only the mutator
    knows which takes a value.
    """
    parser = Parser(prog="reprise mutate", add_help=False, allow_abbrev=False)
    for name in _OPTIONS:
        parser.add_argument(name, nargs="?", const="", type=lambda text: text and Path(text))
    parser.add_argument("-o", "--output", action="append", default=[])
    parser.add_argument("--port", action="append", default=[])
    wish, rest = parser.parse_known_args(list(arguments))
    for name in _OPTIONS:
        given = getattr(wish, name.removeprefix("--").replace("-", "_"))
        want(given != "", f"{name} has no value", f"write {name} VALUE")
    count = next((at for at, one in enumerate(rest) if one.startswith("-")), len(rest))
    wish.inputs, wish.rest = [Path(one) for one in rest[:count]], rest[count:]
    want(bool(wish.inputs), "no capture to spread", "name the captures before the other options")
    for path in wish.inputs:
        want(path.is_file(), f"{path} is not a file", "only files can be carried to other hosts")
    want(len(wish.output) == 1 and wish.output[0] != "-", "no output file", "give -o FILE")
    wish.output = wish.output[0]
    return wish


def logins(text: str, name: str) -> list[str]:
    """Hosts as GNU parallel's ssh logins: `host`, `user@host` or `user@host:port`, one a line."""
    found: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        want(
            len(words) < 2 and not line.lstrip().startswith("["),
            f"{name} line {number}: {' '.join(words)} is not understood",
            "write one host a line, as user@host:port; more belongs into an ssh configuration (--ssh-config)",
        )
        found += words
    want(bool(found), f"{name} names no host", "write one host a line")
    return list(dict.fromkeys(found))


def command_spread(arguments: Sequence[str]) -> int:
    """Reduces on the hosts, then merges and changes here; returns the exit status."""
    wish = parse(arguments)
    try:
        hosts = logins(tables.read_small(wish.inventory).decode(), str(wish.inventory))
    except (OSError, ValueError) as error:
        what = f"cannot read the inventory {wish.inventory}: {getattr(error, 'strerror', error)}"
        raise UsageError(what, "name one host a line") from None
    folder = wish.spread_dir or Path(f"{wish.output}.spread-{_mark(wish)}")
    _claim(wish, folder)
    archive = folder / "mutator.tar.gz"
    if not archive.is_file():
        package.write(archive)
    cut = _reduce(wish, hosts, folder)
    return _merge(wish, folder, cut)


def _mark(wish: argparse.Namespace, replaced: bool = True) -> str:
    """Other inputs, ports or another version are other work: what lies in the folder must not be taken for
    theirs; `replaced`: and so are captures that took another's name. Rules are not part of it: they are
    applied at the end.
    """
    inputs = [_facts(path) if replaced else str(path.resolve()) for path in wish.inputs]
    return hashlib.sha256(json.dumps([inputs, wish.port, VERSION]).encode()).hexdigest()[:12]


def _facts(capture: Path) -> tuple[str, int, int]:
    """By which a capture that was replaced is known."""
    return str(capture.resolve()), capture.stat().st_size, capture.stat().st_mtime_ns


def _claim(wish: argparse.Namespace, folder: Path) -> None:
    """The folder is this work's: new, empty, or left by it."""
    mark = _mark(wish, replaced=False)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        known = (folder / _MARK).read_text(encoding="utf-8") if (folder / _MARK).exists() else None
        want(
            known == mark if known is not None else not any(folder.iterdir()),
            f"{folder} holds something else than this work's files: other captures, other ports, or "
            "another version of Reprise",
            "give another --spread-dir, or empty it",
        )
        (folder / _MARK).write_text(mark, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot use {folder}: {error.strerror}", "give another --spread-dir") from None


def _file(folder: Path, number: int, ending: str) -> Path:
    """Of a capture: what the mutator made of it (`pcap`), its exit status, which is 1 where the capture was
    cut (`status`), and what the capture was when that was asked for (`capture`).
    """
    return folder / f"{number:06}.{ending}"


def _is_done(wish: argparse.Namespace, folder: Path, number: int) -> bool:
    """Whether the part is there, and of the capture as it is now."""
    stamp = _file(folder, number, "capture")
    files = (_file(folder, number, "pcap"), _file(folder, number, "status"), stamp)
    whole = all(path.is_file() and not path.is_symlink() for path in files)  # a host may have sent a link
    return whole and stamp.read_text(encoding="utf-8") == json.dumps(_facts(wish.inputs[number]))


def _reduce(wish: argparse.Namespace, hosts: list[str], folder: Path) -> list[Path]:
    """One job a capture that is not reduced yet; returns the captures that turned out to be cut."""
    left = [at for at in range(len(wish.inputs)) if not _is_done(wish, folder, at)]
    done = f"{len(wish.inputs) - len(left)} of them done before"
    complain(f"reprise: {len(wish.inputs)} captures on {len(hosts)} hosts, {done}, in {folder}")
    for at in left:  # nothing of an earlier part may be taken for the one that is to come
        _file(folder, at, "status").unlink(missing_ok=True)
        _file(folder, at, "capture").write_text(json.dumps(_facts(wish.inputs[at])), encoding="utf-8")
    if left:
        _run_parallel(wish, hosts, folder, left)
    missing = [wish.inputs[at] for at in left if not _is_done(wish, folder, at)]
    if missing:
        raise RepriseError(
            f"{len(missing)} of {len(wish.inputs)} captures were not reduced, the first is {missing[0]}",
            f"see {folder}/log, fix the host or the file and repeat the command: it continues from here",
        )
    statuses = [_file(folder, at, "status").read_text().strip() for at in range(len(wish.inputs))]
    return [path for path, status in zip(wish.inputs, statuses, strict=True) if status != "0"]


def _run_parallel(wish: argparse.Namespace, hosts: list[str], folder: Path, left: list[int]) -> None:
    """GNU parallel: {1} the capture, {2} the number that names what comes back, {3} the capture with the mark
    from which on its path is kept on the host.
    """
    ports = shlex.join(programs.flags(port=wish.port))
    job = (
        "set -e; trap 'rm -rf run-{2}' EXIT; rm -rf run-{2}; mkdir run-{2}; "
        "tar -xzf mutator.tar.gz -C run-{2}; s=0; "
        f"run-{{2}}/{package.FOLDER}/{package.PROGRAM} reduce .{{1}} {ports} -o {{2}}.pcap || s=$?; "
        "[ $s -le 1 ] && [ -f {2}.pcap ] && echo $s >{2}.status"
    )
    base = f"{folder.resolve()}/./"
    argv = [programs.packaged("parallel"), "--will-cite", "--line-buffer", "--retries", "2"]
    argv += ["--tagstring", "{2} {1}", *programs.flags(sshlogin=hosts)]  # see _losses
    config = () if wish.ssh_config is None else ("-F", str(wish.ssh_config.resolve()))
    argv += ["--ssh", shlex.join(("ssh", *programs.NO_FORWARDING, *config))]
    argv += ["--workdir", f".reprise-spread-{_mark(wish)}", "--basefile", f"{base}mutator.tar.gz"]
    argv += ["--transferfile", "{3}", "--return", f"{base}{{2}}.pcap", "--return", f"{base}{{2}}.status"]
    argv += ["--cleanup", "--joblog", str(folder / "joblog"), job]
    paths = [wish.inputs[at].resolve() for at in left]
    argv += [":::", *map(str, paths), ":::+", *(f"{at:06}" for at in left)]
    argv += [":::+", *(f"/.{path}" for path in paths)]
    with (folder / "log").open("ab") as log:
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)


def _merge(wish: argparse.Namespace, folder: Path, cut: list[Path]) -> int:
    parts = [str(_file(folder, at, "pcap")) for at in range(len(wish.inputs))]
    words = ("-o", wish.output, *programs.flags(port=wish.port), *wish.rest)
    done = subprocess.run([programs.own(package.PROGRAM), "mutate", *parts, *words], check=False)
    for path in cut:
        complain(f"reprise: {path} is cut or damaged (see {folder}/log); what was good is in the output")
    for path, lost in _losses(wish, folder):
        complain(f"reprise: {path}: {lost}")
    if done.returncode == 0:  # only what was made here goes
        made = [path for ending in ("pcap", "status", "capture") for path in folder.glob(f"[0-9]*.{ending}")]
        for path in (*made, *(folder / name for name in ("mutator.tar.gz", "joblog", "log", _MARK))):
            path.unlink(missing_ok=True)
        if not any(folder.iterdir()):
            folder.rmdir()
    return done.returncode or (1 if cut else 0)


def _losses(wish: argparse.Namespace, folder: Path) -> list[tuple[Path, str]]:
    """What captures lack, as the hosts said of each when it was last reduced: packets that the merge has not
    seen.
    """
    found: dict[int, list[str]] = {}
    log = folder / "log"
    for line in log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else ():
        told = re.match(r'(\d{6}) .* work=reduce (packets=|lost="([ -~]*)"$)', line)
        if told and told[3] is None:
            found[int(told[1])] = []
        elif told:
            found.setdefault(int(told[1]), []).append(told[3])
    return [(wish.inputs[at], lost) for at in sorted(found) for lost in found[at]]
