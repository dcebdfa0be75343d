"""License texts of what `reprise package` hands on: our own, and those of the packages in it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cli import programs
from cli.errors import RepriseError
from cli.tools import packages

_DOCS = Path("/usr/share/doc")
_COMMON = Path("/usr/share/common-licenses")
_COMMON_NAME = re.compile(rf"{_COMMON}/([A-Za-z0-9.+-]*[A-Za-z0-9])")
_IS_LICENSE = re.compile(r"\.dist-info/(licenses/|[^/]*(LICEN[CS]E|COPYING|NOTICE)[^/]*$)", re.IGNORECASE)
_FORMAT = "${binary:Package}\t${source:Package} ${source:Version}\n"


def texts(libraries: Iterable[Path]) -> dict[str, bytes]:
    """Files of the archive by name: licenses and SOURCES, for us and for the packages of these libraries. The
    packages whose headers the program was compiled with count too. Errors: a library of no Debian package.
    """
    names = sorted({*_owners(libraries), *_headers()})
    lines = _query("dpkg-query", "--show", f"--showformat={_FORMAT}", *names).splitlines()
    built_from = {name.split(":")[0]: source for name, source in (line.split("\t") for line in lines)}
    sources = "".join(f"    {one}\n" for one in sorted(set(built_from.values())))
    copyrights = {f"licenses/{name}": _copyright(name) for name in built_from}
    common = {name for text in copyrights.values() for name in _COMMON_NAME.findall(text.decode())}
    files = {f"licenses/common/{name}": (_COMMON / name).read_bytes() for name in sorted(common)}
    own = (programs.ROOT / "LICENSE").read_bytes()
    return {"LICENSE": own, "SOURCES": (_SOURCES + sources).encode(), **copyrights, **files}


def _owners(libraries: Iterable[Path]) -> Iterator[str]:
    """dpkg may know a library by the name it had before /lib became a link to /usr/lib."""
    for library in libraries:
        path = str(library.resolve())
        names = [path, path.removeprefix("/usr")]
        done = _query("dpkg-query", "--search", *names)
        owners = [line.rpartition(": ")[0] for line in done.splitlines() if line.endswith(tuple(names))]
        if not owners:
            hint = "build the program with Debian's libraries: only of those the licenses are known"
            raise RepriseError(f"{library} belongs to no Debian package", hint)
        yield owners[0].split(",")[0].split(":")[0]


def _headers() -> list[str]:
    """Development packages whose code may be within the program (inline functions, templates)."""
    names = [name for name in packages.listed().get("base", ()) if name.endswith("-dev")]
    gone = packages.missing(names)
    return [name for name in names if name not in gone]


def _copyright(package: str) -> bytes:
    try:
        return (_DOCS / package / "copyright").read_bytes()
    except OSError as error:
        hint = f"install {package} again; a container may leave documents out (see dpkg's path-exclude)"
        raise RepriseError(f"no license text of {package}: {error.strerror}", hint) from None


# What the licenses ask for beside their texts: where the sources are.
_SOURCES = """Sources

reprise-mutator is free software under the GNU General Public License, version 3 or later; see LICENSE.
Whoever hands this archive on hands on its source too: the Reprise project at the version in README.

The libraries in lib/ are Debian's, unchanged. Their licenses are in licenses/, one file per Debian package,
with the texts that those refer to in licenses/common/. Their sources are in Debian's archive and, once
replaced there, on Debian's snapshot service, under the names and versions below. `apt-get source`
NAME=VERSION fetches one.

"""


# --- the Debian package -----------------------------------------------------------------------------------


def _paragraph(one: Distribution, site: Path, installed: Path) -> str:
    """Name, version and license of a Python package, and where its texts will be installed. Errors: a package
    that says nothing of its license.
    """
    texts = [file for file in one.files or () if _IS_LICENSE.search(str(file))]
    paths = sorted(Path(str(one.locate_file(file))) for file in texts)
    meta = one.metadata
    stated = meta["License-Expression"] or (meta["License"] or "").split("\n")[0].replace("UNKNOWN", "")
    named = [text.split(" :: ")[-1] for text in meta.get_all("Classifier") or () if "License ::" in text]
    if not (paths or stated or named):
        raise RepriseError(
            f"Python package {one.name} says nothing of its license", "look for it in its source"
        )
    lines = [
        f"{one.name} {one.version}",
        f"  License: {stated or ', '.join(named) or 'see its text'}",
        f"  Source: Python Package Index, {one.name} {one.version}",
        *(f"  Text: {installed / path.relative_to(site)}" for path in paths),
        *(() if paths else ("  Text: none comes with it",)),
    ]
    return "\n".join(lines) + "\n\n"


def add(site: Path, docs: Path) -> None:
    """Adds to the Debian package's copyright file in `docs` what is known of the Python packages in `site`,
    and puts the license texts of the libraries' headers beside it.
    """
    installed = Path("/usr/lib/reprise", *site.parts[-4:])
    found = sorted(distributions(path=[str(site)]), key=lambda one: one.name.lower())
    with (docs / "copyright").open("a", encoding="utf-8") as file:
        file.writelines(_paragraph(one, site, installed) for one in found)
    (docs / "licenses").mkdir()
    for name in _headers():
        (docs / "licenses" / name).write_bytes(_copyright(name))


def _query(*argv: str) -> str:
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout
    except OSError:
        hint = "run it on Debian or Ubuntu: the license texts are those of its packages"
        raise RepriseError(f"{argv[0]} is missing", hint) from None
