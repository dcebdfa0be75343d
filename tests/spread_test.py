"""Mutation spread over hosts: a real ssh server on the loopback plays two of them."""

import io
import re
import shutil
import socket
import struct
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cli import VERSION, programs
from cli.errors import RepriseError, UsageError
from cli.tools import package, spread
from cli.tools.spread import logins, parse
from tests import command, packets
from tests.bed import wait_for
from tests.ssh import Ssh, shared_connections

BASE = 1_475_762_151 * 10**9


@dataclass(frozen=True)
class Hosts:
    """An inventory of two hosts, and the ssh configuration that leads to them."""

    inventory: Path
    config: Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[Hosts]:
    port = _free_port()
    ssh = Ssh(tmp_path / "ssh", port)
    config = ssh.config(dict.fromkeys(("alpha", "beta"), "127.0.0.1"))
    inventory = tmp_path / "hosts"
    inventory.write_text("alpha\nbeta  # the second\n")
    with shared_connections() as shared, ssh.serve(["127.0.0.1"]):
        config.write_text(config.read_text() + "".join(f"  {one}\n" for one in shared))
        wait_for(lambda: _listens(port), "the ssh server to listen")
        yield Hosts(inventory, config)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archive, which is the same bytes each time."""
    path = tmp_path_factory.mktemp("package") / "mutator.tar.gz"
    package.write(path)
    return path


@pytest.fixture
def made_once(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands take the archive that was made before."""
    monkeypatch.setattr(package, "write", lambda path: shutil.copyfile(packed, path))


@pytest.fixture
def small_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands make an archive with nothing but a way to the program of this machine."""
    script = f'#!/bin/sh\nexec "{programs.own(package.PROGRAM)}" "$@"\n'.encode()

    def write(path: Path) -> None:
        with tarfile.open(path, "w:gz") as archive:
            entry = tarfile.TarInfo(f"{package.FOLDER}/{package.PROGRAM}")
            entry.size, entry.mode = len(script), 0o755
            archive.addfile(entry, io.BytesIO(script))

    monkeypatch.setattr(package, "write", write)


def _captures(folder: Path) -> list[Path]:
    """Three captures of the same name in folders of their own."""
    paths = []
    for part in range(3):
        (folder / f"part {part}").mkdir()
        path = folder / f"part {part}" / "hour.pcap"
        packets.write(
            path,
            (
                (
                    BASE + (part * 100 + i) * 10**6,
                    f"192.0.2.{i % 9 + 1}",
                    2000 + i,
                    packets.query(i, f"{part}.{i}.com"),
                )
                for i in range(100)
            ),
        )
        paths.append(path)
    return paths


def _mutate(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return command.run("mutate", *map(str, words), cwd=programs.ROOT)


@pytest.mark.usefixtures("made_once")
def test_hosts_reduce_and_one_machine_merges(hosts: Hosts, tmp_path: Path) -> None:
    captures = _captures(tmp_path)
    rules = ("--transport", "tcp,share=30", "--name", "unique=q")
    alone = _mutate(*captures, "-o", tmp_path / "alone.rps", *rules)
    assert alone.returncode == 0, alone.stderr
    spread = ("--inventory", hosts.inventory, "--ssh-config", hosts.config)
    done = _mutate(*captures, "-o", tmp_path / "spread.rps", *rules, *spread)
    assert done.returncode == 0, done.stderr
    assert "3 captures on 2 hosts, 0 of them done before" in done.stderr
    assert (tmp_path / "spread.rps").read_bytes() == (tmp_path / "alone.rps").read_bytes()
    assert not list(tmp_path.glob("spread.rps.spread-*")), "nothing is left behind"
    assert not list(Path.home().glob(".reprise-spread-*")), "nor on the hosts"


@pytest.mark.usefixtures("small_package")
def test_what_is_done_is_not_done_again(hosts: Hosts, tmp_path: Path) -> None:
    captures = _captures(tmp_path)
    whole = captures[1].read_bytes()
    captures[1].write_bytes(b"no capture at all")
    work = tmp_path / "work"
    words: tuple[str | Path, ...] = (
        *captures,
        "-o",
        tmp_path / "out.rps",
        "--spread-dir",
        work,
        "--inventory",
        hosts.inventory,
    )
    failed = _mutate(*words, "--ssh-config", hosts.config)
    assert failed.returncode == 1
    assert "1 of 3 captures were not reduced" in failed.stderr.splitlines()[-1]
    assert not (tmp_path / "out.rps").exists()
    captures[1].write_bytes(whole)
    (work / "000000.status").unlink()  # its host was lost before it could tell
    done = _mutate(*words, "--ssh-config", hosts.config)
    assert done.returncode == 0, done.stderr
    assert "1 of them done before" in done.stderr
    alone = _mutate(*captures, "-o", tmp_path / "alone.rps")
    assert alone.returncode == 0
    assert (tmp_path / "out.rps").read_bytes() == (tmp_path / "alone.rps").read_bytes()
    assert not work.exists()


@pytest.mark.usefixtures("small_package")
def test_a_cut_capture_is_used_as_far_as_it_goes(hosts: Hosts, tmp_path: Path) -> None:
    captures = _captures(tmp_path)
    captures[0].write_bytes(captures[0].read_bytes()[:-7])
    spread = ("--inventory", hosts.inventory, "--ssh-config", hosts.config)
    done = _mutate(*captures, "-o", tmp_path / "out.tsv", *spread)
    assert done.returncode == 1
    assert f"{captures[0]} is cut or damaged" in done.stderr
    rows = [line for line in (tmp_path / "out.tsv").read_text().splitlines() if not line.startswith("#")]
    assert len(rows) == 1 + 299


@pytest.mark.usefixtures("small_package")
def test_what_hosts_could_not_read_is_told(hosts: Hosts, tmp_path: Path) -> None:
    """Once for each capture, also of one that was reduced before."""
    captures = _captures(tmp_path)
    cut = [packets.udp(BASE, "192.0.2.1", 2000, packets.query(i, "cut.com")) for i in range(50)]
    short = [
        one[:8] + struct.pack("<I", len(one) - 16 - 4) + one[12:-4] for one in cut
    ]  # four bytes of each were not captured
    captures[1].write_bytes(captures[1].read_bytes() + b"".join(short))
    work = tmp_path / "work"
    words = ("--spread-dir", work, "--inventory", hosts.inventory, "--ssh-config", hosts.config)
    for form in ("none", "rps"):
        done = _mutate(*captures, "-o", tmp_path / f"out.{form}", *words)
    assert done.returncode == 0, done.stderr
    assert "3 of them done before" in done.stderr
    (told,) = (line for line in done.stderr.splitlines() if "cut_packet" in line)
    assert told.startswith(f"reprise: {captures[1]}: cut_packet 50 (33.3 %): packets captured only")


def test_a_list_of_hosts_becomes_logins() -> None:
    text = "# all\nme@192.0.2.1:2222\n\n  c2  # the second\nc3\nc2\n"
    assert logins(text, "inv") == ["me@192.0.2.1:2222", "c2", "c3"]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "inv names no host"),
        ("c1 c2", "inv line 1: c1 c2 is not understood"),
        ("\nc1 ansible_host=192.0.2.1", "inv line 2: c1 ansible_host=192.0.2.1 is not understood"),
        ("[clients]\nc1", "inv line 1: [clients] is not understood"),
    ],
)
def test_bad_inventories(text: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        logins(text, "inv")
    assert what in caught.value.what


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--inventory", "i", "-o", "x.rps"], "no capture to spread"),
        (["--inventory"], "--inventory has no value"),
        (["--inventory", "i", "nowhere.pcap", "-o", "x.rps"], "nowhere.pcap is not a file"),
        (["--inventory", "i", __file__], "no output file"),
        (["--inventory", "i", __file__, "-o", "-"], "no output file"),
    ],
)
def test_bad_command_lines(words: list[str], what: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(words)
    assert what in caught.value.what


def test_the_package_holds_the_licenses_of_all_that_is_in_it(packed: Path) -> None:
    with tarfile.open(packed) as archive:
        names = {name.removeprefix(f"{package.FOLDER}/") for name in archive.getnames()}
        terms = {name: archive.extractfile(f"{package.FOLDER}/{name}") for name in ("SOURCES", "LICENSE")}
        texts = {name: file.read().decode() for name, file in terms.items() if file is not None}
    assert "GNU GENERAL PUBLIC LICENSE" in texts["LICENSE"]
    assert "licenses/common/" in " ".join(names), "texts that the others only name"
    assert re.search(r"^    libtrace3 \S+$", texts["SOURCES"], re.MULTILINE), "source package and version"
    packages_of = {"libtrace3", "libc6", "libstdc++6", "libcli11-dev", "libxxhash-dev"}
    found = {name.removesuffix("t64") for name in names}  # of libraries since Debian 13
    assert {f"licenses/{name}" for name in packages_of} <= found


def test_a_library_of_unknown_license_is_not_handed_on(tmp_path: Path) -> None:
    library = tmp_path / "libown.so.1"
    library.touch()
    with pytest.raises(RepriseError, match="belongs to no Debian package"):
        package.license_texts([library])


def test_the_package_runs_unprivileged_without_anything_else(packed: Path, tmp_path: Path) -> None:
    archive = tmp_path / "mutator.tar.gz"
    package.write(archive)
    assert archive.read_bytes() == packed.read_bytes()
    assert Path("/dev/stdout").is_symlink(), "the tools that make it leave the machine alone"
    shutil.unpack_archive(archive, tmp_path / "elsewhere")
    tmp_path.chmod(0o755)
    for parent in (*tmp_path.relative_to("/tmp").parents,):  # the test's folders are its user's alone
        (Path("/tmp") / parent).chmod(0o755) if str(parent) != "." else None
    program = tmp_path / "elsewhere" / package.FOLDER / package.PROGRAM
    trace = _captures(tmp_path)[0]
    shell = 'cd / && exec "$0" mutate "$1" -o - --to text'
    done = subprocess.run(
        ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs",
         "env", "-i", "/bin/sh", "-c", shell, program, trace],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 102
    libraries = subprocess.run([program, "--version"], env={}, capture_output=True, text=True, check=True)
    assert libraries.stdout.strip() == VERSION


def test_a_folder_with_other_work_is_refused(tmp_path: Path) -> None:
    """By its captures, their ports, and anything that is none of ours; nothing of it is touched."""
    captures = _captures(tmp_path)
    inventory = tmp_path / "hosts"
    inventory.write_text("nowhere.invalid\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / "notes").write_text("mine")
    words = ("-o", tmp_path / "out.rps", "--inventory", inventory, "--spread-dir", work)
    refused = _mutate(*captures, *words)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert f"{work} holds something else than this work's files" in refused.stderr
    (work / "notes").unlink()
    spread._claim(parse([*map(str, (*captures, *words))]), work)
    for count, more in ((2, ()), (3, ("--port", "5353"))):
        refused = _mutate(*captures[:count], *words, *more)
        assert refused.returncode == 2, refused.stderr
        assert "give another --spread-dir" in refused.stderr
    assert [path.name for path in work.iterdir()] == ["mark"]
