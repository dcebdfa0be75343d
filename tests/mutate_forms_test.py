"""Every real capture through all forms and back: Wireshark sees the same queries before and after."""

import bz2
import gzip
import lzma
import os
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from tests import packets
from tests.bed import wait_for
from tests.conftest import DATA, REAL_MINUTE
from tests.slow import slow
from tests.wire_view import View, view

_OPENERS: dict[str, Callable[[bytes], bytes]] = {
    ".xz": lzma.decompress,
    ".gz": gzip.decompress,
    ".bz2": bz2.decompress,
}


def captures() -> Iterator[Any]:
    """All of the shared data, compressed or not; every other one and the long one in the long suite."""
    found = [path for path in sorted(DATA.rglob("*")) if ".pcap" in path.name and path.is_file()]
    for number, path in enumerate(found):
        yield slow(path) if number % 2 or path == REAL_MINUTE else path


def mutate(*argv: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [programs.own("reprise-mutator"), "mutate", *map(str, argv)]
    return subprocess.run(command, input=stdin, capture_output=True, check=True)


def plain(capture: Path, folder: Path) -> Path:
    """The capture without compression, for tshark."""
    unpack = _OPENERS.get(capture.suffix)
    if unpack is None:
        return capture
    path = folder / "plain"
    path.write_bytes(unpack(capture.read_bytes()))
    return path


def through_all_forms(capture: Path, folder: Path) -> Path:
    text, stream, back = folder / "a.tsv", folder / "a.rps", folder / "a.pcap"
    mutate(capture, "-o", text)
    mutate(text, "-o", stream)
    mutate(stream, "-o", back)
    return back


def test_what_was_not_read_is_the_last_line_and_not_in_the_pipe(tmp_path: Path) -> None:
    frames = [packets.captured(second, "192.0.2.1", "192.0.2.2", 132, bytes(8)) for second in range(3)]
    query = packets.udp(10**9, "192.0.2.1", 4000, packets.query(1, "a.example"))
    some = packets.write_frames(tmp_path / "some.pcap", [*frames, query])
    done = mutate(some, "-o", "-", "--to", "text")
    last = done.stderr.decode().splitlines()[-1]
    assert last.endswith('work=mutate left_out="other_protocol 3 (neither UDP nor TCP)"')
    assert done.stdout.decode().startswith("#reprise-text 1\n")
    assert len(done.stdout.splitlines()) == 3
    whole = packets.write_frames(tmp_path / "whole.pcap", [query])
    assert b"left_out" not in mutate(whole, "-o", tmp_path / "whole.tsv").stderr
    none = packets.write_frames(tmp_path / "none.pcap", frames)
    argv = [programs.own("reprise-mutator"), "info", str(none)]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert b"holds no DNS query (3 packets, 0 responses; other_protocol 3 (100.0 %): " in done.stderr


@pytest.mark.skipif(not DATA.is_dir(), reason="shared data is absent")
@pytest.mark.parametrize(
    "capture",
    list(captures()),
    ids=lambda path: path.name,
)
def test_round_trip(capture: Path, tmp_path: Path) -> None:
    check_round_trip(capture, tmp_path)


def test_round_trip_of_the_beginning_of_a_real_minute(real: tuple[Path, Path], tmp_path: Path) -> None:
    short = tmp_path / "short.pcap"
    argv = [programs.packaged("tshark"), "-r", str(real[0]), "-c", "2400", "-w", str(short)]
    subprocess.run(argv, capture_output=True, check=True)
    check_round_trip(short, tmp_path)


def check_round_trip(capture: Path, tmp_path: Path) -> None:
    back = through_all_forms(capture, tmp_path)
    before, after = view(plain(capture, tmp_path)), view(back, summed=True)
    assert after.queries == before.queries
    assert after.connections == before.connections
    mutate(capture, "-o", tmp_path / "direct.pcap", "--jobs", "3")
    assert (tmp_path / "direct.pcap").read_bytes() == back.read_bytes()


def test_a_wrong_checksum_would_be_seen(tmp_path: Path) -> None:
    unsummed = packets.write(tmp_path / "a.pcap", [(10**9, "192.0.2.1", 4000, packets.query(1, "a.example"))])
    assert len(view(unsummed).queries) == 1
    with pytest.raises(AssertionError):
        view(unsummed, summed=True)


def test_pipes(tmp_path: Path) -> None:
    """Every form through standard input and output, from one program to the next."""
    trace = tmp_path / "a.pcap"
    own = programs.own("reprise-mutator")
    made = ["synth", "--queries", "1500", "--rate", "1000", "--tcp-share", "0.1"]
    subprocess.run([own, *made, "-o", str(trace)], check=True, capture_output=True)
    data = trace.read_bytes()
    for form in ("text", "stream", "pcap"):
        data = mutate("-", "--to", form, "-o", "-", stdin=data).stdout
    mutate(trace, "-o", tmp_path / "b.pcap")
    assert data == (tmp_path / "b.pcap").read_bytes()
    assert same(view(tmp_path / "b.pcap"), view(trace))


@pytest.fixture
def part(tmp_path: Path) -> bytes:
    """The beginning of a capture, cut between two packets: 24 bytes, then 16 and the packet each."""
    trace = tmp_path / "whole.pcap"
    own = programs.own("reprise-mutator")
    made = ["synth", "--queries", "100", "--rate", "1000", "--tcp-share", "0"]
    subprocess.run([own, *made, "-o", str(trace)], check=True, capture_output=True)
    data = trace.read_bytes()
    end = 24
    for _ in range(10):
        end += 16 + int.from_bytes(data[end + 8 : end + 12], "little")
    return data[:end]


def started(form: str, output: str) -> subprocess.Popen[bytes]:
    """A mutator that reads a pipe."""
    argv = [programs.own("reprise-mutator"), "mutate", "-", "--to", form, "-o", output]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.parametrize("form", ["text", "stream", "pcap"])
def test_a_pipe_that_stands_still_is_not_waited_for(part: bytes, form: str) -> None:
    with started(form, "-") as process:
        assert process.stdin and process.stdout
        process.stdin.write(part)
        process.stdin.flush()
        got = b""
        while len(got) < 500:  # ten queries; nothing more comes before they are out
            assert select.select([process.stdout], [], [], 20)[0], f"only {len(got)} bytes came"
            got += os.read(process.stdout.fileno(), 65_536)
        process.stdin.close()
        rest = process.stdout.read()
    assert process.returncode == 0
    assert mutate("-", "--to", "pcap", "-o", "-", stdin=got + rest).stdout == part


def test_an_interrupted_run_leaves_nothing(part: bytes, tmp_path: Path) -> None:
    output = tmp_path / "out.pcap"
    with started("pcap", str(output)) as process:
        assert process.stdin and process.stderr
        process.stdin.write(part)
        process.stdin.flush()
        wait_for(output.with_name("out.pcap.partial").exists, "the output's beginning", 60)

        def has_ended() -> bool:  # a signal between its look for one and its wait for input is overlooked
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        wait_for(has_ended, "its end", 60)
        assert process.returncode == 1
        assert b"stopped by a signal" in process.stderr.read()
    assert not output.exists()
    assert not output.with_name("out.pcap.partial").exists()


def test_a_reader_that_goes_away_is_named(part: bytes) -> None:
    with started("text", "-") as process:
        assert process.stdin and process.stdout and process.stderr
        process.stdout.close()
        process.stdin.write(part)
        process.stdin.close()
        assert process.wait(20) == 1
        assert b"write standard output: Broken pipe" in process.stderr.read()


def same(a: View, b: View) -> bool:
    """Whether the two views agree in everything."""
    return a.queries == b.queries and a.connections == b.connections
