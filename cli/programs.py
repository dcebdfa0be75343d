"""Where the programs are: our own in a build folder, packaged servers and tools on the system's path."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cli.errors import RepriseError

ROOT = Path(__file__).resolve().parent.parent
# The Debian package holds no source. It is built and complete, and its folder belongs to the system.
INSTALLED = not (ROOT / "CMakeLists.txt").is_file()
# Our own programs: in the release build's folder, or in the package's.
BUILT = ROOT / "bin" if INSTALLED else ROOT / "build/release/bin"
# Programs of ours that replay, and those that an emulated hierarchy has beside them.
REPLAY = ("reprise-controller", "reprise-querier", "reprise-sampler", "reprise-mutator")
HIERARCHY = ("reprise-zonebuilder", "reprise-proxy")
# Packages of the programs that are called, where they have another name; servers add theirs.
PACKAGES = {
    **dict.fromkeys(("dnssec-keygen", "dnssec-signzone", "dnssec-verify"), "bind9-utils"),
    **dict.fromkeys(("named-checkconf", "named-checkzone", "named-compilezone"), "bind9-utils"),
    **dict.fromkeys(("env", "true"), "coreutils"),
    **dict.fromkeys(("ip", "tc"), "iproute2"),
    **dict.fromkeys(("umount", "mount"), "mount"),
    **dict.fromkeys(("nsenter", "prlimit", "setpriv", "taskset", "unshare"), "util-linux"),
    **dict.fromkeys(("capinfos", "editcap"), "wireshark-common"),
    "dig": "bind9-dnsutils",
    "kdig": "knot-dnsutils",
    "kxdpgun": "knot-dnsutils",
    "nft": "nftables",
    "sshd": "openssh-server",
    "sysctl": "procps",
    "tracestats": "libtrace-tools",
}
# Options of ssh: a host gets no access to the operator's keys and display, whatever the configuration says.
NO_FORWARDING = ("-a", "-x")
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def own(name: str) -> str:
    """Path of one of our programs; REPRISE_PROGRAMS names another folder than `BUILT`."""
    path = Path(os.environ.get("REPRISE_PROGRAMS") or BUILT, name)
    # by the rights this process has now: a user given more than his own may be in a folder closed to him
    if path.is_file() and os.access(path, os.X_OK, effective_ids=True):
        return str(path)
    if INSTALLED:
        raise RepriseError(f"program {name} is missing", "as root: apt install --reinstall reprise")
    raise RepriseError(f"program {name} is not built", "run it with ./reprise, which builds it")


def cache() -> Path:
    """What outlives a clone: a folder of this user's, which may not exist yet."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reprise"


def packaged(name: str) -> str:
    """Path of a packaged program; sbin is searched even where the user's PATH lacks it."""
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        raise RepriseError(f"program {name} is missing", f"apt-get install {package_of(name)}")
    return path


def copied(name: str, folder: Path) -> str:
    """A copy of a packaged program, which a packager's AppArmor profile would keep out of our folders."""
    return str(shutil.copy2(packaged(name), folder / name))


def package_of(name: str) -> str:
    return PACKAGES.get(name, name)


def find(name: str) -> str | None:
    """Like `packaged`, None where it is missing."""
    return shutil.which(name, path=SEARCH_PATH)


def given(option: str, arguments: Iterable[str]) -> bool:
    """Whether an option is among arguments; its value may come after `=`."""
    return any(one.partition("=")[0] == option for one in arguments)


def flags(**values: Any) -> tuple[str, ...]:
    """Options of a command line: `--some-name VALUE` for each, once for every value of a list. True is the
    name alone; None and False are left out.
    """
    found: list[str] = []
    for key, value in values.items():
        name = "--" + key.replace("_", "-")
        for one in value if isinstance(value, list | tuple) else (value,):
            if one is not None and one is not False:
                found += [name] if one is True else [name, str(one)]
    return tuple(found)
