"""BIND's tools on zones that others wrote: without a network, and with no files but those that they need.

Each runs in a mount namespace of its own, below a root that holds /usr, /dev/null and the folders it is
given, all read-only except a folder for output, and with no right but to read files. Without root, that
needs an unprivileged user namespace; if the system allows none, the tools run unconfined, with a warning.
"""

import functools
import os
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

from cli import linux, programs
from cli.errors import complain

PLACE = "/tmp"  # for links: in a run TMPDIR is on a mount that follows none
_USR = Path("/usr")
_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")  # to /usr
_ENTER = """\
PATH=/usr/sbin:/usr/bin:/sbin:/bin
root=$1
mount --bind -o "$2" "$root" "$root" && mount --bind /dev/null "$root/dev/null" || exit 1
shift 2
while [ "$1" != -- ]; do
    mount --bind -o "$1" "$2" "$root$2" || exit 1
    shift 2
done
shift
exec chroot "$root" "$@"
"""
_RIGHTS = "-all,+dac_read_search"  # root reads zones of other users


def run(
    argv: Sequence[str], *folders: Path, text: bytes = b"", writable: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Runs one of BIND's tools with these folders, in the first one. `text` is its input."""
    program, *rest = argv
    seen = [("ro", one.absolute()) for one in folders]
    seen += [("rw", writable.absolute())] if writable is not None else []
    command, place = [programs.packaged(program), *rest], seen[0][1]
    if can(seen):
        command = [*_enter(seen), *command]
    else:
        with _making:
            if not told:
                told.append("BIND's tools run unconfined, this user may not create namespaces here")
                complain(f"reprise: warning: {told[0]}; see docs/privileges.md")
    return subprocess.run(command, input=text, cwd=place, capture_output=True, check=False)


_making = threading.Lock()
_possible: set[tuple[str, ...]] = set()  # kinds of folders
told: list[str] = []  # a line where a tool of this process ran unconfined


def can(seen: Sequence[tuple[str, Path]]) -> bool:
    """Whether a tool can be confined with such folders ("ro" or "rw"); tested until it can, for each kind."""
    kind = tuple(_options(*one) for one in seen)
    if kind not in _possible:
        have = all(programs.find(one) for one in ("unshare", "setpriv", "chroot", "mount"))
        argv = (*_enter(seen), programs.packaged("true")) if have else ("false",)
        if subprocess.run(argv, capture_output=True, check=False).returncode == 0:
            _possible.add(kind)
    return kind in _possible


def _enter(seen: Sequence[tuple[str, Path]]) -> list[str]:
    with _making:  # zones are worked on by several threads
        root = Path(_root().name)
    words = [str(root), _options("ro", root), _options("ro", _USR), str(_USR)]
    for how, folder in seen:
        if not folder.is_relative_to(_USR):
            (root / str(folder).lstrip("/")).mkdir(parents=True, exist_ok=True)
            words += [_options(how, folder), str(folder)]
    user = () if os.geteuid() == 0 else ("--user", "--map-root-user")
    return [
        *(programs.packaged("unshare"), *user, "--mount", "--net", "--"),
        *("/bin/sh", "-c", _ENTER, "sh", *words, "--"),
        *("/usr/bin/env", "-i", "-C", str(seen[0][1])),
        *(programs.packaged("setpriv"), "--no-new-privs", "--bounding-set", _RIGHTS),
        *("--inh-caps", "-all", "--"),
    ]


def _options(how: str, folder: Path) -> str:
    return ",".join([how, *linux.locked(str(folder))])


@functools.cache
def _root() -> tempfile.TemporaryDirectory[str]:
    """The folder for the mounts; removed when this process ends."""
    made = tempfile.TemporaryDirectory(prefix="reprise-root-", dir=PLACE)
    root = Path(made.name)
    for name in ("usr", "dev"):
        (root / name).mkdir()
    (root / "dev/null").touch()
    for name in _LINKS:
        if Path("/", name).is_symlink():
            (root / name).symlink_to(Path("/", name).readlink())
    return made
