"""Wrong command lines and experiments: exit status 2, one line, and nothing was started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli import programs
from tests import command

QUICK = str(programs.ROOT / "experiments/quickstart.toml")
TEXT = "#reprise-text 1\ntime\tsource\ttransport\tname\ttype\n"
NO_TRACE = "cannot open trace none: No such file or directory"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files that are not what they are taken for."""
    folder = tmp_path_factory.mktemp("usage")
    (folder / "empty").touch()
    (folder / "junk").write_bytes(b"no trace, no zone, no experiment" * 9)
    (folder / "rows.tsv").write_text(TEXT)
    (folder / "doh.tsv").write_text(TEXT + "1\t192.0.2.1\thttps\t.\tNS\n2\t192.0.2.1\tquic\t.\tNS\n")
    (folder / "one.tsv").write_text(TEXT + "1\t192.0.2.1\tudp\t.\tNS\n")
    (folder / "folder").mkdir()
    return folder


def refused(done: subprocess.CompletedProcess[str], what: str, place: Path, before: set[Path]) -> None:
    """One line, and nothing else has happened."""
    assert done.returncode == 2, done.stderr + done.stdout
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert ": error: " in done.stderr
    assert what in done.stderr
    assert done.stdout == ""
    assert set(place.iterdir()) == before


@pytest.fixture
def check(place: Path) -> Iterator[Callable[[subprocess.CompletedProcess[str], str], None]]:
    before = set(place.iterdir())
    yield lambda done, what: refused(done, what, place, before)


Check = Callable[[subprocess.CompletedProcess[str], str], None]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("", "COMMAND"),
        ("rnu", "invalid choice: 'rnu'"),
        ("--nonsense", "COMMAND"),
        ("run", "EXPERIMENT"),
        (f"run {QUICK} --outptu x", "--outptu x is not understood; see reprise run --help"),
        (f"run {QUICK} -o", "expected one argument"),
        (f"run {QUICK} -o junk/x", "cannot make results folder"),
        ("run none.toml", "no experiment none.toml"),
        ("run folder", "cannot read folder: Is a directory"),
        ("run junk", "junk is not TOML"),
        ("plan none.toml", "no experiment none.toml"),
        (f"plan {QUICK} --management 0.0.0.0/0", "management prefix 0.0.0.0/0 is so large"),
        (f"plan {QUICK} --management", "expected one argument"),
        ("report", "RUN"),
        ("report none", "is not a results folder"),
        ("report folder", "holds no run"),
        ("report folder -o none/page.html", "its folder is not there"),
        ("report --nonsense folder", "--nonsense is not understood; see reprise report --help"),
        ("compare", "RUN|TRACE|FILE.ra"),
        ("compare none", "cannot read none"),
        ("compare a b c", "more than two things"),
        ("trace", "trace needs info or synth"),
        ("trace mangle", "trace needs info or synth"),
        ("trace info", "TRACE is required"),
        ("trace info none", NO_TRACE),
        ("trace info folder", "cannot open trace folder: Is a directory"),
        ("trace info none --plots plots", NO_TRACE),
        ("trace info one.tsv --plots", "--plots needs a folder"),
        ("trace info one.tsv --prot 53", "--prot is not an option; did you mean --port?"),
        ("trace info one.tsv --port 0", "--port: Value 0 not in range"),
        ("trace synth", "--output is required"),
        ("trace synth -o x.pcap --rtae 5", "--rtae is not an option; did you mean --rate?"),
        ("trace synth -o x.pcap --rate 0", "--rate 0 is out of range"),
        ("trace synth -o x.pcap --profile rooot", "--profile"),
        ("mutate", "IN is required"),
        ("mutate none -o x.rps", NO_TRACE),
        ("mutate one.tsv none -o x.rps", NO_TRACE),
        (
            "mutate one.tsv -o x.rps --tranzport tcp",
            "--tranzport is not an option; did you mean --transport?",
        ),
        ("mutate one.tsv -o x.rps --transport tpc", "did you mean tcp?"),
        ("mutate one.tsv -o x.rps --jobs 0", "--jobs: Value 0 not in range"),
        ("mutate one.tsv -o x.rps --inventory none", "cannot read the inventory none"),
        ("mutate one.tsv -o x.rps --inventory", "--inventory has no value"),
        ("mutate none -o x.rps --inventory junk", "none is not a file"),
        ("zones", "STEP"),
        ("zones mangle", "invalid choice: 'mangle'"),
        ("zones synth", "-o/--output"),
        ("zones synth -o x --zones 0", "--zones 0"),
        ("zones synth -o x --zones many", "invalid int value: 'many'"),
        ("zones plan", "DIR, -o/--output"),
        ("zones plan none -o x", "none"),
        ("zones plan folder -o x --engine bnid", "invalid choice: 'bnid'"),
        ("inventory", "TESTBED"),
        ("inventory cluodlab", "invalid choice: 'cluodlab'"),
        ("inventory cloudlab junk", "-o/--output"),
        ("inventory cloudlab none -o x", "no manifest none"),
        ("inventory cloudlab junk -o x", "junk is not whole XML"),
        ("inventory cloudlab junk -o none/x", "its folder is not there"),
        ("inventory cloudlab junk -o folder", "folder is a folder"),
        ("inventory merge junk empty -o x", "--user"),
        ("inventory merge none empty --user a -o x", "no inventory none"),
        ("package -o none/x.tar.gz", "its folder is not there"),
        ("package -o folder", "folder is a folder"),
        ("doctor --nonsense", "--nonsense is not understood; see reprise doctor --help"),
        ("bench", "bench"),
        ("bench upd", "invalid choice: 'upd'"),
        ("bench udp --repeats 0", "--repeats 0: out of range"),
        ("bench udp --repeats few", "invalid int value: 'few'"),
        ("bench udp --sources 1", "--sources 1: out of range"),
        ("bench udp --seconds 0", "--seconds 0: out of range"),
        ("test --only no-such-name", "no check and no test has this name"),
        ("test --nonsense", "--nonsense is not understood; see reprise test --help"),
    ],
)
def test_commands(place: Path, check: Check, line: str, what: str) -> None:
    check(command.run(*line.split(), cwd=place), what)


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("tranzport=udp", "unknown key tranzport; did you mean replay.transport?"),
        ("sever.kind=nsd", "did you mean server"),
        ("replay.transport=tsl", "did you mean tls?"),
        ("server.kind=bnid", "did you mean bind?"),
        ("topology.clients=0", "topology.clients = 0 is out of range; use 1 to 200"),
        ("topology.queriers=-1", "out of range"),
        ("replay.in_flight=4194305", "replay.in_flight = 4194305 is out of range; use 1 to 4194304"),
        ("replay.in_flight=0", "out of range"),
        ("replay.early_us=1001", "replay.early_us = 1001 is out of range"),
        ("replay.spin_us=31", "out of range"),
        ("replay.idle_timeout_s=0", "out of range"),
        ("replay.queries_per_connection=1000001", "out of range"),
        ("replay.rate=0.0001", "out of range"),
        ("replay.duration_s=1e8", "out of range"),
        ("replay.speed=nan", "out of range"),
        ("replay.ports=0", "replay.ports has 0"),
        ("replay.cpus=1000", "replay.cpus 1000: "),
        ("replay.skip_sources=192.0.2.1/24", "has host bits set"),
        ("replay.from=5 replay.until=5", "replay.from = 5 is not before replay.until = 5"),
        ("replay.from=2024-01-01T00:00:00Z replay.until=2024-01-01T00:00:00+01:00", "is not before"),
        ("server.root_like.ds_share=2", "server.root_like.ds_share = 2.0 is out of range"),
        ("server.root_like.zsk_bits=7", "out of range"),
        ("server.zone=none", "no zone file"),
        ("server.zone=empty", "is empty"),
        ("server.zone=folder", "cannot read zone file"),
        ("server.zone=junk", "has no SOA record"),
        ("tls.ca=none", "tls.ca"),
        ("tls.ca=junk", "not certificates in PEM"),
        ("rtt.table=none", "rtt.table"),
        ("rtt.observed=junk", "junk:1"),
        ("trace=none", "no trace"),
        ("trace=folder", "cannot read trace"),
        ("trace=empty", "is empty"),
        ("trace=junk", "is not a packet capture"),
        ("trace=rows.tsv", "no DNS queries to replay in"),
        ("trace=one.tsv replay.from=5", "lies at or after replay.from 5"),
        ("replay.ports=[]", "replay.ports is empty"),
        ("trace=one.tsv replay.until=1970-01-01T00:00:01Z", "lies before replay.until"),
        ("trace=doh.tsv", "can be sent (transport 2)"),
        ("trace=doh.tsv mutate.rules=none", "none: cannot read the rule file"),
        ("trace=rows.tsv mutate.rule=[{kind='transport',to='tcp'}]", "holds no DNS query"),
        ("mutate.rule=[{kind='tranzport',to='tcp'}]", '[mutate]: rule "tranzport" is not known'),
        ("mutate.rule=[{kind='transport',to='tpc'}]", "did you mean tcp?"),
        ("mutate.rule=[{kind='anonymise',key='00'}]", 'give key = "@FILE"'),
        ("mutate.rule=[{kind='anonymise',key='@none'}]", "cannot read"),
        ("mutate.rule=[{kind='transport',to='tcp'}] mutate.malformed=eat", "use one of keep, drop"),
        ("synth.rtae=5", "synth.rtae is not an option; did you mean synth.rate?"),
        ("synth.rate=fast", "synth.rate"),
        ("synth.rate=-1", "synth.rate -1 is out of range"),
        ("synth.junk_share=2", "synth.junk_share 2 is out of range"),
        ("synth.profile=rooot", "synth.profile"),
    ],
)
def test_experiments(place: Path, check: Check, setting: str, what: str) -> None:
    """Whatever a key says is known to be wrong before there is a network or a folder."""
    words = [word for one in setting.split(" ") for word in ("--set", one)]
    for name in ("plan", "run"):
        check(command.run(name, QUICK, *words, cwd=place), what)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("controller", "required"),
        ("controller none --run-id x --distributor 127.0.0.1:1 --server 127.0.0.1", "required"),
        ("mutator", "A subcommand is required"),
        ("mutator inof one.tsv", "see --help"),
        ("mutator info none", NO_TRACE),
        ("mutator answers none -o x.ra", NO_TRACE),
        ("mutator answers one.tsv -o x.ra --window-s 0", "--window-s"),
        ("mutator reduce none -o x.pcap", NO_TRACE),
        ("mutator rtts none -o x.tsv", NO_TRACE),
        ("querier", "A subcommand is required"),
        ("querier distribute", "is required"),
        ("querier query", "is required"),
        ("zonebuilder plan none -o x", "none"),
        ("proxy delay --tun x", "nothing to delay by"),
        ("proxy delay --tun x --rtt-ms -1", "--rtt-ms"),
        ("proxy resolver --tun x --map none", "--map none: No such file"),
        ("sampler", "required"),
        ("sampler --process x -o x.csv", "--process"),
    ],
)
def test_programs(place: Path, check: Check, line: str, what: str) -> None:
    name, *words = line.split()
    argv = [programs.own(f"reprise-{name}"), *words]
    check(subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False, timeout=60), what)


_KEYS = ("--run-id", "x", "--cert", "c", "--key", "k", "--ca", "a", "--results", "r")
_CONTROLLER = ("--distributor", "127.0.0.1:1", "--server", "127.0.0.1", *_KEYS)
_DISTRIBUTOR = ("distribute", "--listen", "127.0.0.1:1", "--name", "x", *_KEYS)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ("none", NO_TRACE),
        ("one.tsv --window-s 0", "replay.window_s 0: give 0.1 to 600"),
        ("one.tsv --timeout-s nan", "replay.timeout_s nan"),
        ("one.tsv --set replay.in_flight=4194305", "replay.in_flight 4194305: give 1 to 4194304"),
        ("one.tsv --from 9 --until 8", "replay.from 9 is not before replay.until 8"),
        ("one.tsv --loop 0", "never ends"),
        ("one.tsv --sample-sources 0", "replay.sample_sources 0"),
        ("one.tsv --transport quic", "replay.transport quic: give one of trace, udp"),
        ("one.tsv --source-mode packet", "give --confirm-return-path"),
        ("one.tsv --generate x", "exclude each other"),
        ("one.tsv --server 127.0.0.2", "only one address of each family"),
        ("one.tsv --server-port 0", "--server-port"),
        ("one.tsv --tls-ca none", "tls.ca none"),
        ("one.tsv --set tls.groups=X25519:P-999", "OpenSSL does not know them all"),
        ("one.tsv --options none", "--options none"),
        ("one.tsv --set replay.sped=2", "did you mean replay.speed?"),
        ("one.tsv --set fast", "give KEY=VALUE"),
        ("one.tsv --tarnsport tcp", "did you mean --transport?"),
    ],
)
def test_the_controller(place: Path, check: Check, options: str, what: str) -> None:
    argv = [programs.own("reprise-controller"), *options.split(), *_CONTROLLER]
    check(subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False, timeout=60), what)


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ("--early-us 30", "--early-us"),
        ("--cpus 1000", "--cpus 1000"),
        ("--cpus one", "--cpus one"),
        ("--source-prefix 10.0.0.1/8", "--source-prefix"),
        ("--listen nowhere", "--listen"),
    ],
)
def test_the_distributor(place: Path, check: Check, options: str, what: str) -> None:
    argv = [programs.own("reprise-querier"), *_DISTRIBUTOR, *options.split()]
    check(subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False, timeout=60), what)


def test_a_hierarchy_without_its_zones(place: Path, check: Check) -> None:
    experiment = str(programs.ROOT / "experiments/hierarchy.toml")
    check(command.run("run", experiment, "--set", "hierarchy.zones=none", cwd=place), "no folder")
    check(command.run("run", experiment, "--set", "hierarchy.cache=wram", cwd=place), "did you mean warm?")


# --- names that are not UTF-8 ------------------------------------------------------------------------------


def test_names_that_are_no_text_are_refused_in_one_line(place: Path, check: Check) -> None:
    name = os.fsdecode(b"n\xff")
    for line in (("run", name), ("report", name), ("compare", name), ("trace", "info", name)):
        check(command.run(*line, cwd=place), "n")
    check(command.run("run", QUICK, "--set", f"trace={name}", cwd=place), "no trace")


# --- ctrl-C -----------------------------------------------------------------------------------------------

_INTERRUPTED = "reprise: error: interrupted; run it again\n"


@pytest.mark.parametrize("module", ["cli.bootstrap", "cli"])
def test_ctrl_c_before_python_is_ready_is_told_in_one_line(tmp_path: Path, module: str) -> None:
    """It comes before the interpreter starts, and waits for whoever can answer it."""
    line = f'kill -INT $$; exec "{sys.executable}" -P -m {module} doctor'
    done = subprocess.run(
        ["env", "--block-signal=INT", "sh", "-c", line],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(programs.ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr, done.stdout) == (1, _INTERRUPTED, "")


@pytest.mark.parametrize("delay_ms", [0, 30, 60, 100, 150, 200, 300])
def test_ctrl_c_at_any_moment_of_the_start(tmp_path: Path, delay_ms: int) -> None:
    """Wherever it strikes, the shell, the interpreter or an import: no traceback."""
    with subprocess.Popen(
        [str(programs.ROOT / "reprise"), "run", QUICK, "-o", "results"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            started.wait(delay_ms / 1000)
        except subprocess.TimeoutExpired:
            started.send_signal(signal.SIGINT)
        stdout, stderr = started.communicate(timeout=60)
    assert "Traceback" not in stderr
    assert "KeyboardInterrupt" not in stderr
    assert started.returncode in (1, -signal.SIGINT), stderr + stdout
