"""`reprise package`: the mutator as one archive that runs where nothing may be installed, or with --deb the
Debian package of Reprise.

The archive holds the program, every library it needs and the dynamic loader, so it runs unprivileged on any
Linux of the same processor whose kernel is not older than the libraries demand; and the licenses of all of
these. Nothing in it depends on where it is unpacked. The archive is the same bytes whenever the program and
the libraries are.

The Debian package is made by Debian's own tools. What is deployed to hosts is copied into a folder, with
packaging/debian as its debian/, and dpkg-buildpackage works there; its rules fetch the pinned Python packages
with pip. lintian looks at the package before anybody gets it.
"""

import argparse
import gzip
import io
import os
import platform
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterable, Iterator
from email.utils import formatdate
from importlib.metadata import Distribution, distributions
from pathlib import Path

from cli import VERSION, programs, steps
from cli.errors import RepriseError, want
from cli.hosts import source
from cli.tools import building, packages
from cli.tools.checking import git
from report import whole_file

PROGRAM = "reprise-mutator"
FOLDER = f"{PROGRAM}-{VERSION}-{platform.machine()}"  # within the archive
_LIBRARY = re.compile(r"^\s*(?:(\S+) => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_LAUNCHER = """#!/bin/sh
here=$(dirname "$(readlink -f "$0")") || exit 1
exec "$here/lib/{loader}" --library-path "$here/lib" "$here/lib/{program}" "$@"
"""
_README = f"""reprise-mutator {VERSION}

Unpack the archive anywhere, and run ./{PROGRAM} --help. It needs no installation and no privileges. lib/
holds the program and the libraries it was built with. LICENSE, licenses/ and SOURCES say under which terms
they may be handed on and where their sources are.
"""


def command_package(options: argparse.Namespace) -> int:
    """Makes the archive or the package, and says where it is and what to do with it."""
    if options.deb:
        folder = options.output or Path()
        want(folder.is_dir(), f"{folder} is not a folder", "make it, or give another with -o")
        path = build(folder)
        where = path if path.is_absolute() or ".." in path.parts else f"./{path}"
        told = f"as root: apt install {where}"
    else:
        path = options.output or Path(f"{FOLDER}.tar.gz")
        there = path.absolute().parent.is_dir()
        want(there, f"{path}: its folder is not there", "make it, or give another -o")
        want(not path.is_dir(), f"{path} is a folder", "give the archive's name with -o")
        write(path)
        told = f"unpack it and run {FOLDER}/{PROGRAM} --help"
    print(f"{path}  {path.stat().st_size / 1e6:.1f} MB; {told}")
    return 0


def write(path: Path) -> None:
    """The archive appears under its name only when it is whole."""
    with (
        whole_file.half_of(path) as half,
        half.open("wb") as file,
        gzip.GzipFile("", "wb", 6, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, content, mode in _contents(Path(programs.own(PROGRAM))):
            entry = tarfile.TarInfo(f"{FOLDER}/{name}")
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))


def _contents(program: Path) -> Iterator[tuple[str, bytes, int]]:
    """The archive's files: their names, what they hold, and their modes."""
    libraries = _libraries(program)
    loader = next((name for name in libraries if name.startswith("ld-")), None)
    if loader is None:
        raise RepriseError(f"{program} has no dynamic loader", "build it again with ./reprise")
    yield PROGRAM, _LAUNCHER.format(loader=loader, program=PROGRAM).encode(), 0o755
    yield "README", _README.encode(), 0o644
    yield from ((name, text, 0o644) for name, text in sorted(license_texts(libraries.values()).items()))
    yield f"lib/{PROGRAM}", _stripped(program), 0o755
    yield from ((f"lib/{name}", path.read_bytes(), 0o755) for name, path in sorted(libraries.items()))


def _libraries(program: Path) -> dict[str, Path]:
    """Every library the program loads, by the name it is looked for, the loader among them."""
    done = subprocess.run(
        ["ldd", str(program)], capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"}
    )
    if done.returncode != 0 or "not found" in done.stdout:
        raise RepriseError(f"{program} misses libraries", "build it again with ./reprise")
    return {
        match.group(1) or Path(match.group(2)).name: Path(match.group(2))
        for match in _LIBRARY.finditer(done.stdout)
    }


def _stripped(program: Path) -> bytes:
    """Without its debugging information where binutils are at hand; a Debian package's has none."""
    if programs.find("strip") is None:
        return program.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / program.name
        done = subprocess.run(["strip", "-o", str(copy), str(program)], capture_output=True, check=False)
        return (copy if done.returncode == 0 else program).read_bytes()


# --- licenses of the archive ------------------------------------------------------------------------------

_DOCS = Path("/usr/share/doc")
_COMMON = Path("/usr/share/common-licenses")
_COMMON_NAME = re.compile(rf"{_COMMON}/([A-Za-z0-9.+-]*[A-Za-z0-9])")
_IS_LICENSE = re.compile(r"\.dist-info/(licenses/|[^/]*(LICEN[CS]E|COPYING|NOTICE)[^/]*$)", re.IGNORECASE)
_FORMAT = "${binary:Package}\t${source:Package} ${source:Version}\n"


def license_texts(libraries: Iterable[Path]) -> dict[str, bytes]:
    """Files of the archive by name: licenses and SOURCES, for us and for the packages of these libraries. The
    packages whose headers the program was compiled with count too. Errors: a library of no Debian package.
    """
    names = sorted({*_owners(libraries), *_headers()})
    lines = _query("dpkg-query", "--show", f"--showformat={_FORMAT}", *names).splitlines()
    built_from = {name.split(":")[0]: one for name, one in (line.split("\t") for line in lines)}
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

RULES = programs.ROOT / "packaging/debian"
_SCRATCH = programs.ROOT / "build/debian"  # always the same: ccache knows files again by their paths
_PATIENCE_S = 10.0  # for a build that is interrupted


def version() -> tuple[str, int]:
    """The version of what is packaged, and its time in seconds since 1970: the commit's, or now where git
    cannot tell. Packages of later commits are later versions, and those of other files are other versions:
    apt leaves an installed package alone that has the same one. The release that it was built on, and is for,
    comes last.
    """
    files, system = source.checksum()[:8], platform.freedesktop_os_release()
    suffix = f"+{system['ID'][:3]}{system.get('VERSION_ID', '')}"
    told = " ".join(git("show", "-s", "--format=%ct %h", "HEAD") or ()).split()
    if len(told) != 2 or git("rev-parse", "--show-prefix") not in ([], [""]):
        return f"{VERSION}+{files}{suffix}", int(time.time())
    minute = time.strftime("%Y%m%d%H%M", time.gmtime(int(told[0])))
    mark = "" if git("status", "--porcelain") == [] else f".{files}"
    return f"{VERSION}+git{minute}.{told[1]}{mark}{suffix}", int(told[0])


def changelog(number: str, time_s: int) -> str:
    """The file debian/changelog, of which the tools take version and time."""
    control = (RULES / "control").read_text(encoding="utf-8")
    (maintainer,) = re.findall(r"^Maintainer: (.*)$", control, re.MULTILINE)
    release = platform.freedesktop_os_release().get("VERSION_CODENAME", "unstable")
    head = f"reprise ({number}) {release}; urgency=medium"
    return f"{head}\n\n  * See CHANGELOG.md.\n\n -- {maintainer}  {formatdate(time_s)}\n"


def build(output: Path) -> Path:
    """The package in a folder; it appears there when it is whole and lintian finds no error."""
    _SCRATCH.parent.mkdir(exist_ok=True)
    with building.alone(_SCRATCH.with_name(".debian-lock")):
        shutil.rmtree(_SCRATCH, ignore_errors=True)
        tree = _SCRATCH / "reprise"
        for path in source.files():
            target = tree / path.relative_to(source.ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)
        shutil.copytree(RULES, tree / "debian")
        (tree / "debian/changelog").write_text(changelog(*version()), encoding="utf-8")
        asked = ["ccache", "--get-config", "cache_dir"]  # debhelper gives the build a home of its own
        cache = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
        own = {"CCACHE_DIR": cache, "DEB_BUILD_OPTIONS": "noautodbgsym", "LC_ALL": "C.UTF-8"}
        env = {**steps.NINJA_ENVIRONMENT, **own}
        words: tuple[str, ...] = ("dpkg-buildpackage", "--build=binary", "--no-sign")
        job = steps.Job("building the package", words, env, tree, _PATIENCE_S)
        hint = "see above; the network is needed for the Python packages"
        steps.carry_out(job, "the Debian package cannot be built", hint)
        (made,) = _SCRATCH.glob("*.deb")
        words = ("lintian", "--fail-on=error", str(made))
        job = steps.Job("checking the package", words, env, tree, _PATIENCE_S)
        steps.carry_out(job, "the Debian package has errors", "see what lintian says above")
        path = Path(shutil.copy2(made, output / made.name))
        shutil.rmtree(_SCRATCH)
        return path


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
        what = f"Python package {one.name} says nothing of its license"
        raise RepriseError(what, "look for it in its source")
    lines = [
        f"{one.name} {one.version}",
        f"  License: {stated or ', '.join(named) or 'see its text'}",
        f"  Source: Python Package Index, {one.name} {one.version}",
        *(f"  Text: {installed / path.relative_to(site)}" for path in paths),
        *(() if paths else ("  Text: none comes with it",)),
    ]
    return "\n".join(lines) + "\n\n"


def add_licenses(site: Path, docs: Path) -> None:
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
