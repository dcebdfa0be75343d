"""One trace in every form that is read gives the same totals, read and replayed."""

import bz2
import gzip
import json
import lzma
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from tests.bed import Bed, synth
from tests.conftest import DATA

CAPTURES = ("plain", "micro", "pcapng", "gz", "bz2", "xz", "zst", "lz4", "pcapng.zst")
CHANGED = ("text", "stream", "text.xz")  # as the mutator writes them
FORMS = (*CAPTURES, *CHANGED)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same 3 s of traffic in every form; names tell nothing: the content decides."""
    folder = tmp_path_factory.mktemp("forms")
    options = ("--rate", "300", "--duration", "3", "--clients", "100", "--tcp-share", "0.1", "--seed", "3")
    plain = synth(folder / "plain", *options)
    return {form: _make(form, plain, folder) for form in FORMS}


def _make(form: str, plain: Path, folder: Path) -> Path:
    path = folder / form.replace(".", "-")
    compress: dict[str, Callable[[bytes], bytes]] = {
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": lambda data: _pipe(["zstd", "-q", "-c"], data),
        "lz4": lambda data: _pipe(["lz4", "-q", "-c"], data),
    }
    if form in ("micro", "pcapng"):
        kind = "pcap" if form == "micro" else "pcapng"
        subprocess.run([programs.packaged("editcap"), "-F", kind, str(plain), str(path)], check=True)
    elif form in CHANGED:
        argv = [
            programs.own("reprise-mutator"),
            "mutate",
            str(plain),
            "--to",
            form.split(".", maxsplit=1)[0],
            "-o",
        ]
        subprocess.run([*argv, str(path)], check=True, capture_output=True)
        if form == "text.xz":
            path.write_bytes(lzma.compress(path.read_bytes()))
    elif form == "pcapng.zst":
        path.write_bytes(compress["zst"](_make("pcapng", plain, folder).read_bytes()))
    elif form != "plain":
        path.write_bytes(compress[form](plain.read_bytes()))
    return path


def _pipe(argv: list[str], data: bytes) -> bytes:
    argv = [programs.packaged(argv[0]), *argv[1:]]
    return subprocess.run(argv, input=data, capture_output=True, check=True).stdout


def info(path: Path) -> dict[str, Any]:
    done = subprocess.run(
        [programs.own("reprise-mutator"), "info", str(path), "--json"], capture_output=True, check=True
    )
    loaded: dict[str, Any] = json.loads(done.stdout)
    return loaded


def totals(read: dict[str, Any]) -> dict[str, Any]:
    """What must not depend on the form: everything but the file's description and sub-microsecond times."""
    kept = (
        "queries",
        "tcp",
        "names",
        "edns",
        "opcodes",
        "responses",
        "transport",
        "family",
        "sources",
        "types",
        "connections",
    )
    return {key: read[key] for key in kept if key in read}


@pytest.mark.parametrize("form", FORMS[1:])
def test_every_form_reads_the_same(traces: dict[str, Path], form: str) -> None:
    first = totals(info(traces["plain"]))
    assert len(first) > 2
    assert totals(info(traces[form])) == first


@pytest.mark.netns
@pytest.mark.parametrize("form", ("micro", "gz", "zst", "lz4", "pcapng", *CHANGED))
def test_every_form_replays_the_same(bed: Bed, traces: dict[str, Path], form: str) -> None:
    bed.start_server()
    bed.start_distributor(1)
    controller = bed.start_controller(traces[form], extra=("--speed", "10"))
    assert controller.wait() == 0, controller.text()
    queries = bed.account()["queries"]
    assert queries["answered"] == queries["read"] == info(traces["plain"])["queries"]


FOREIGN = {
    "fsdb": "#fsdb -F t time srcip qname class qtype proto\n"
    + "".join(f"{1_475_762_151 + i / 100:.3f}\t192.0.2.{i % 5}\t{i}.com\tIN\tA\tudp\n" for i in range(50)),
    "dnsperf": "; a comment\n" + "".join(f"{i}.com A\n" for i in range(50)),
}
FILES = {"dnstap": "dnstap/knot-auth.dnstap", "C-DNS": "root/compactor-gold.cbor.xz"}


@pytest.mark.netns
@pytest.mark.parametrize("form", [*FOREIGN, *FILES])
def test_other_tools_forms_are_replayed(bed: Bed, tmp_path: Path, form: str) -> None:
    if form in FOREIGN:
        trace = tmp_path / "queries"
        trace.write_text(FOREIGN[form])
    else:
        trace = DATA / FILES[form]
        if not trace.is_file():
            pytest.skip("shared data is absent")
    read = info(trace)
    assert form in read["format"]
    bed.start_server()
    bed.start_distributor(1)
    controller = bed.start_controller(trace, extra=("--fast",))  # one of them lasts for hours
    assert controller.wait() == 0, controller.text()
    queries = bed.account()["queries"]
    assert queries["answered"] == queries["read"] == read["queries"] > 0
