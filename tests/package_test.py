"""Reprise in bare systems of every release it is made for: run and tested from its source, and its Debian
package built there and, in a second one without a compiler, installed, used, removed.
"""

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cli import programs
from cli.tools import doctor
from tests.bare_system import BareSystem
from tests.site_test import EXPERIMENT, changed, playbook
from tests.testbed_hosts import OPERATOR, Testbed, entered, opened

pytestmark = [
    pytest.mark.slow,
    pytest.mark.netns,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can install packages in a system"),
]

COMPILERS = ("gcc", "g++", "cc", "c++", "clang", "clang-19", "cmake", "ninja", "pip")
USER = "tester"
SOURCE = "/root/source"
_SHORT = ("--set", "synth.duration=10")
_STATE = () if doctor.stateless().state == doctor.OK else ("--set", "front.promote=false")
RUNS: tuple[tuple[str, ...], ...] = (
    ("quickstart",),
    ("quickstart", "--set", "server.kind=bind"),
    ("hierarchy", *_SHORT),
    ("all-tcp", *_SHORT),
    ("stateless-tcp", *_SHORT, *_STATE),
)


@contextmanager
def bare(root: Path, release: str) -> Iterator[BareSystem]:
    """A bare system; pytest would keep it, and it is large."""
    system = BareSystem(root)
    try:
        system.make(release)
        yield system
    finally:
        shutil.rmtree(root)


@pytest.mark.parametrize("release", ["bookworm", "trixie"])
def test_from_a_bare_system_to_the_package_and_its_removal(release: str, tmp_path: Path) -> None:
    """One test a release, as building and installing take the time."""
    with bare(tmp_path / "source", release) as system:
        work_from_source(system)
        package = built(system, tmp_path)
    with bare(tmp_path / "root", release) as system:
        use(system, package, tmp_path)


def work_from_source(system: BareSystem) -> None:
    """The first command installs and builds what it needs, and so do the others."""
    listed = subprocess.check_output(["git", "ls-files", "-z"], cwd=programs.ROOT, text=True)
    for name in listed.rstrip("\0").split("\0"):
        target = system.root / SOURCE.lstrip("/") / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(programs.ROOT / name, target)
    for words in RUNS:
        reprise(system, "run", *words, "-o", "results")
    folder = system.root / SOURCE.lstrip("/")
    (summary,) = folder.glob("results/stateless-tcp-*/summary.json")
    assert bool(json.loads(summary.read_text())["front"]["promoted"]) == (not _STATE)
    (capture,) = folder.glob("results/hierarchy-*/capture-meta.pcap")
    reprise(system, "zones", "build", str(capture.relative_to(folder)), "-o", "zones")
    assert len(list(folder.glob("zones/*.zone"))) > 10
    for tests in ("ctest asan", "ctest asan unit"):
        reprise(system, "test", "--only", tests, limit_s=7_200)


def reprise(system: BareSystem, *words: str, limit_s: float = 1_800) -> None:
    """The command of the source tree; what is not clean is an error."""
    done = system.run("./reprise", *words, cwd=SOURCE, limit_s=limit_s)
    assert done.returncode == 0, f"{words}\n{done.stdout[-4000:]}{done.stderr[-4000:]}"


def built(system: BareSystem, folder: Path) -> Path:
    """The package, made in the system that it is for."""
    reprise(system, "package", "--deb", "-o", "/root")
    (package,) = (system.root / "root").glob("reprise_*_*.deb")
    return Path(shutil.copy2(package, folder))


def use(system: BareSystem, package: Path, folder: Path) -> None:
    """From the installation to the removal."""
    install_s = installed(system, package)
    run_s = quickstart_needs_no_compiler(system)
    print(f"{package.stat().st_size} bytes, installed in {install_s:.0f} s, run in {run_s:.0f} s")
    the_other_commands_find_what_they_need(system)
    pages_and_completion_are_installed(system)
    a_user_without_rights_runs_it_too(system)
    hosts_get_the_package(system, package, folder)
    missing_packages_are_named(system)
    nothing_stays_when_it_is_removed(system)


def installed(system: BareSystem, package: Path) -> float:
    """How long apt takes, with everything that the package depends on or recommends."""
    shutil.copy2(package, system.root / "root/reprise.deb")
    system.text("apt-get", "update", limit_s=300)
    begin = time.monotonic()
    system.text("apt", "install", "-y", "-q", "./reprise.deb", cwd="/root", limit_s=600)
    return time.monotonic() - begin


def quickstart_needs_no_compiler(system: BareSystem) -> float:
    for name in COMPILERS:
        assert system.run("sh", "-c", f"command -v {name}").returncode != 0, name
    begin = time.monotonic()
    done = system.run("reprise", "run", "quickstart", cwd="/root", limit_s=300)
    took_s = time.monotonic() - begin
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = (system.root / "root/results").iterdir()
    assert (run / "report.html").stat().st_size > 10_000
    assert json.loads((run / "summary.json").read_text())["clean"]
    return took_s


def the_other_commands_find_what_they_need(system: BareSystem) -> None:
    assert system.text("reprise", "--version").startswith("reprise ")
    doctor = system.run("reprise", "doctor", cwd="/root", limit_s=120).stdout
    assert not [line for line in doctor.splitlines() if line.startswith("missing")]
    assert "programs     controller, querier, sampler, mutator, zonebuilder, proxy are built" in doctor
    system.text("reprise", "trace", "synth", "--queries", "1000", "-o", "/root/t.pcap")
    assert "1,000" in system.text("reprise", "trace", "info", "/root/t.pcap")
    system.text("reprise", "mutate", "/root/t.pcap", "-o", "/root/u.pcap", "--transport", "tcp")
    system.text("reprise", "zones", "synth", "--zones", "20", "-o", "/root/world")
    names = ("--set", "synth.names=/root/world/names.txt")
    plan = system.text("reprise", "plan", "hierarchy", "--set", "hierarchy.zones=/root/world", *names)
    assert json.loads(plan)["processes"]
    refused = system.run("reprise", "test")
    assert refused.stderr.startswith("reprise: error: reprise test needs the source of Reprise; ")


def a_user_without_rights_runs_it_too(system: BareSystem) -> None:
    system.text("useradd", "--create-home", USER)
    home = f"/home/{USER}"
    done = system.run("reprise", "run", "quickstart", cwd=home, user=USER, limit_s=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((system.root / f"home/{USER}/results").glob("*/report.html"))
    kept = (system.root / f"home/{USER}/.cache/reprise/zones").iterdir()
    assert [one.suffix for one in kept] == [".zone"]


def hosts_get_the_package(system: BareSystem, package: Path, folder: Path) -> None:
    """Hosts that have it are left alone, whether a source tree deploys or the package."""
    system.text("apt-get", "install", "-y", "-q", "openssh-server", "python3-apt", limit_s=300)
    (folder / "site.toml").write_text(EXPERIMENT.replace("clients = 2", "clients = 1"))
    groups = {"controller": ["boss"], "clients": ["load1"], "servers": ["dns"]}
    variables = f"reprise_root=/usr/lib/reprise\nreprise_package={package}\n"
    with opened(folder / "bed", groups, root=system.root, variables=variables) as hosts:
        assert set(changed(playbook(hosts, "deploy", folder)).values()) == {0}
        hosts.on("dns", "dpkg --remove reprise")
        limit = ("--limit", "localhost,dns")  # all hosts here are one system, and dpkg works once at a time
        assert changed(playbook(hosts, "deploy", folder, *limit))["dns"] > 0
        assert set(changed(playbook(hosts, "deploy", folder)).values()) == {0}
        words = ("run", "site.toml", "--inventory", str(hosts.inventory), "-o", "far")
        done = operate(hosts, system, folder, *words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert list((folder / "far").glob("*/report.html"))


def operate(
    hosts: Testbed, system: BareSystem, folder: Path, *words: str
) -> subprocess.CompletedProcess[str]:
    """The installed command on the operator's host."""
    inside = f'set -e; {entered(system.root, folder)} cd {folder}; exec reprise "$@"'
    with hosts.bed.inside(OPERATOR):
        return subprocess.run(
            [programs.packaged("unshare"), "--mount", "sh", "-c", inside, "sh", *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )


def missing_packages_are_named(system: BareSystem) -> None:
    system.text("dpkg", "--purge", "--force-depends", "tcpdump")
    done = system.run("reprise", "run", "quickstart", "--set", "sample.capture=true", cwd="/root")
    what = "Debian packages are missing: tcpdump; as root: apt install tcpdump"
    assert done.stderr == f"reprise: error: {what}\n"
    assert (
        "for capture, spread: apt install parallel rsync tcpdump"
        in system.run("reprise", "doctor", limit_s=120).stdout
    )


def pages_and_completion_are_installed(system: BareSystem) -> None:
    root = system.root / "usr/share"
    pages = {path.name for path in (root / "man/man1").glob("reprise*")}
    assert {"reprise.1.gz", "reprise-run.1.gz", "reprise-zones-synth.1.gz", "reprise-mutator.1.gz"} <= pages
    for page in (root / "man/man1").glob("reprise*"):
        said = subprocess.run(["lexgrog", str(page)], capture_output=True, text=True, check=True).stdout
        assert re.search(r': "reprise\S* - \S.*"$', said), said
    assert "_reprise" in (root / "bash-completion/completions/reprise").read_text()
    assert (root / "zsh/vendor-completions/_reprise").read_text().startswith("#compdef reprise\n")
    text = (root / "doc/reprise/copyright").read_text()
    named = [line.removeprefix("  Text: ") for line in text.splitlines() if line.startswith("  Text: /")]
    assert len(named) > 25
    assert all(Path(f"{system.root}{one}").is_file() for one in named)


def nothing_stays_when_it_is_removed(system: BareSystem) -> None:
    assert system.text("dpkg", "--verify", "reprise") == ""
    system.text("apt-get", "remove", "-y", "-q", "reprise")
    for path in ("usr/lib/reprise", "usr/share/reprise", "usr/bin/reprise", "usr/bin/reprise-mutator"):
        assert not (system.root / path).exists(), path
