"""The executor with real namespaces and servers; only the replaying programs are stood in for by `sleep`."""

import dataclasses
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli import programs
from cli.executor import run, sandbox
from cli.executor.executor import Executor
from cli.experiment.schema import Experiment, Replay, Sample, Server, Tls
from cli.plan import facts as machine
from cli.plan.plan import make
from cli.plan.planned import Facts, Plan, Process, Stop
from cli.servers.kinds import KINDS
from report.run import Run
from report.testbed import look_at
from tests.bed import has_ended
from tests.slow import slow

pytestmark = pytest.mark.netns
ZONE = """$ORIGIN example.
@ 300 IN SOA ns hostmaster 1 3600 600 86400 300
@ 300 IN NS ns
ns 300 IN A 192.0.2.1
"""
LIMIT_S = 30.0
MS_BIND = 4096


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < end, "the condition did not come true in time"
        time.sleep(0.02)


def make_plan(
    folder: Path,
    kind: str,
    main: tuple[str, ...],
    capture: bool = False,
    zone: str = ZONE,
    tls: Tls | None = None,
    replay: Replay | None = None,
) -> Plan:
    """A plan as for any run, but with `main` in the place of distributor and controller."""
    path = folder / "zone"
    path.write_text(zone, encoding="ascii")
    folder.chmod(0o755)
    wanted = ("nsd", "nsd-checkzone", "named", "named-checkzone", "tcpdump", KINDS[kind].program)
    known = Facts(
        run="test",
        cores=1,
        descriptors=machine.raise_descriptors(),
        python=sys.executable,
        source_root=str(programs.ROOT),
        programs={
            **{name: programs.packaged(name) for name in wanted},
            "reprise-sampler": programs.own("reprise-sampler"),
            "reprise-controller": "/none",
            "reprise-querier": "/none",
        },
        origin="example.",
        users={KINDS[kind].program: machine._packaged_user(kind)},
        versions={kind: KINDS[kind].version()},
    )
    experiment = Experiment(
        name="test",
        trace="/none",
        server=Server(kind=kind, zone=str(path), ready_s=10),  # type: ignore[arg-type]
        sample=Sample(capture=capture),
        tls=tls,
        replay=replay or Replay(),
    )
    plan = make(experiment, known)
    kept = tuple(one for one in plan.processes if one.role not in ("distributor", "controller"))
    last = Process("main", "controller", "client1", main, after=("server",), stop=Stop("SIGINT", 5.0))
    return dataclasses.replace(plan, processes=(*kept, last), main="main")


def execute(plan: Plan, results: Path) -> int:
    results.mkdir(exist_ok=True)
    runtime = sandbox.runtime_folder()
    return sandbox.run(lambda life: run.inside(plan, {}, runtime, results, life), runtime, own_network=True)


def manifest(results: Path) -> dict[str, Any]:
    value = json.loads((results / "manifest.json").read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


def processes_with(text: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in words and int(path.name) != os.getpid():
            found.append(int(path.name))
    return found


def members(kind: str, namespace: str) -> list[int]:
    """Processes that live in a namespace, given as the target of /proc/PID/ns/KIND."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if str((path / "ns" / kind).readlink()) == namespace and not has_ended(int(path.name)):
                found.append(int(path.name))
        except OSError:
            continue
    return found


@pytest.fixture
def background(tmp_path: Path) -> Iterator[tuple[int, str]]:
    """A run that lasts, of a command in a process of its own: its number and words of the run."""
    token = f"300.{os.getpid()}{time.monotonic_ns() % 1_000_000:06d}"
    plan = make_plan(tmp_path, "nsd", ("/bin/sleep", token))
    pid = os.fork()
    if pid == 0:
        os._exit(execute(plan, tmp_path / "results"))
    wait_for(lambda: bool(processes_with(f"/bin/sleep {token}")))
    yield pid, f"/bin/sleep {token}"
    if processes_with(f"/bin/sleep {token}"):
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kind", ["nsd", "bind", slow("knot"), slow("pdns")])
def test_a_real_server_answers_over_both_families_and_transports(tmp_path: Path, kind: str) -> None:
    script = (
        "for a in 198.19.255.53 fd00:198:19:ff::53; do for t in +notcp +tcp; do"
        " dig @$a $t +time=2 +tries=1 +norec example. NS | grep -q 'status: NOERROR' || exit 9; done; done"
    )
    capture = os.geteuid() == 0
    plan = make_plan(tmp_path, kind, ("/bin/sh", "-c", script), capture)
    assert execute(plan, tmp_path / "results") == 0
    found = manifest(tmp_path / "results")
    assert found["error"] is None
    assert found["unclean_because"] == []
    assert found["leaked_packets"] == 0
    server = next(one for one in found["processes"] if one["id"] == "server")
    assert server["exit"] == (-signal.SIGTERM if kind == "pdns" else 0)  # PowerDNS has no handler
    assert server["cpu_s"] > 0
    assert server["max_rss_bytes"] > 1_000_000
    assert len((tmp_path / "results/server.csv").read_text(encoding="ascii").splitlines()) >= 3
    assert not capture or (tmp_path / "results/capture.pcap").stat().st_size > 24


@pytest.mark.parametrize(
    ("kind", "key"), [slow("nsd", "ecdsa-p256"), ("nsd", "rsa-2048"), ("bind", "ecdsa-p256")]
)
def test_a_real_server_answers_over_tls_with_a_certificate_of_the_run(
    tmp_path: Path, kind: str, key: str
) -> None:
    script = (
        "for a in 198.19.255.53 fd00:198:19:ff::53; do for h in server.reprise.test $a; do"
        " dig @$a -p 8853 +tls +tls-ca=@run@/tls/server-ca.pem +tls-hostname=$h +time=2 +tries=1 +norec"
        " example. NS | grep -q 'status: NOERROR' || exit 9; done; done;"
        " dig @198.19.255.53 -p 8853 +tls +tls-ca=@run@/tls/ca.pem +time=2 +tries=1 example. NS |"
        " grep -q 'status: NOERROR' && exit 8;"
        " for v in -tls1_2 -tls1_3; do echo | openssl s_client -connect 198.19.255.53:8853 $v >/dev/null"
        " || exit 7; done"
    )
    plan = make_plan(tmp_path, kind, ("/bin/sh", "-c", script), tls=Tls(port=8853, key=key))  # type: ignore[arg-type]
    assert execute(plan, tmp_path / "results") == 0


def test_in_source_mode_packet_foreign_addresses_are_the_clients_over_tcp_only(tmp_path: Path) -> None:
    code = """
import socket, struct, sys
query = b"\\0\\1\\0\\0\\0\\1\\0\\0\\0\\0\\0\\0\\7example\\0\\0\\2\\0\\1"
for family, source, server, level, transparent in (
    (socket.AF_INET, "8.8.4.4", "198.19.255.53", socket.IPPROTO_IP, 19),
    (socket.AF_INET6, "2001:db8::77", "fd00:198:19:ff::53", socket.IPPROTO_IPV6, 75),
):
    with socket.socket(family, socket.SOCK_STREAM) as tcp:
        tcp.settimeout(5)
        tcp.setsockopt(level, transparent, 1)
        tcp.bind((source, 0))
        tcp.connect((server, 53))
        tcp.sendall(struct.pack("!H", len(query)) + query)
        if len(tcp.recv(1000)) < 30:
            sys.exit(8)
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.settimeout(0.3)
        udp.setsockopt(level, transparent, 1)
        udp.bind((source, 4000))
        udp.sendto(query, (server, 53))
        try:
            udp.recv(1000)
            sys.exit(9)
        except TimeoutError:
            pass
snmp = open("/proc/self/net/snmp6").read().split()
if snmp[snmp.index("Icmp6OutDestUnreachs") + 1] != "0":
    sys.exit(7)
lines = [line.split() for line in open("/proc/self/net/snmp") if line.startswith("Icmp:")]
if dict(zip(*lines))["OutDestUnreachs"] != "0":
    sys.exit(6)
"""
    plan = make_plan(tmp_path, "nsd", (sys.executable, "-c", code), replay=Replay(source_mode="packet"))
    assert execute(plan, tmp_path / "results") == 0
    assert manifest(tmp_path / "results")["leaked_packets"] == 0


def test_there_is_no_way_out(tmp_path: Path) -> None:
    script = "ip route get 192.0.2.1 && exit 8; ip -6 route get 2001:db8::1 && exit 9; exit 0"
    assert execute(make_plan(tmp_path, "nsd", ("/bin/sh", "-c", script)), tmp_path / "results") == 0


def test_a_packet_meant_for_outside_makes_the_run_unclean(tmp_path: Path) -> None:
    code = (
        "import socket; s = socket.socket(2, 2)\ntry: s.sendto(b'x', ('192.0.2.1', 53))\nexcept OSError: pass"
    )
    execute(make_plan(tmp_path, "nsd", (sys.executable, "-c", code)), tmp_path / "results")
    found = manifest(tmp_path / "results")
    assert found["leaked_packets"] > 0
    (leak,) = found["leaks"]
    assert leak["host"] == "client1"
    assert "meant for outside" in leak["what"]


@pytest.mark.skipif(os.geteuid() != 0, reason="captures need root")
def test_a_capture_that_was_too_slow_is_found_out(tmp_path: Path) -> None:
    """tcpdump stands still while more comes than its buffer holds."""
    flood = (
        "import socket; s = socket.socket(2, 2); s.connect(('198.19.255.53', 53))\n"
        "for n in range(3000): s.send(bytes(1000))"
    )
    stopped = f'kill -STOP @pid:capture@; {sys.executable} -c "$0"; kill -CONT @pid:capture@'
    plan = make_plan(tmp_path, "nsd", ("/bin/sh", "-c", stopped, flood), capture=True)
    slow = [
        dataclasses.replace(one, argv=tuple("256" if word == "65536" else word for word in one.argv))
        for one in plan.processes
    ]
    execute(dataclasses.replace(plan, processes=tuple(slow)), tmp_path / "results")
    (loss,) = [one for one in look_at(Run(tmp_path / "results"), []).losses if "capture" in one]
    assert re.fullmatch(r"server: capture\.pcap lacks [\d,]+ packets, dropped by the kernel", loss)


def test_sigkill_of_the_command_leaves_nothing(background: tuple[int, str]) -> None:
    pid, words = background
    inner = processes_with(words)[0]
    spaces = {kind: str(Path(f"/proc/{inner}/ns/{kind}").readlink()) for kind in ("pid", "net", "mnt")}
    assert len(members("pid", spaces["pid"])) >= 4
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    wait_for(lambda: not any(members(kind, name) for kind, name in spaces.items()))
    assert {path.name for path in sandbox.runtime_folder().iterdir()} <= {"locks"}


@pytest.mark.parametrize(
    ("zone", "word"),
    [
        ("example. 300 IN SOA ns\n", "checking the zone failed"),
        ("@ IN A 1.2.3\n", "checking the zone failed"),
    ],
)
def test_a_zone_that_does_not_parse_is_one_line(tmp_path: Path, zone: str, word: str) -> None:
    assert execute(make_plan(tmp_path, "nsd", ("/bin/true",), zone=zone), tmp_path / "results") == 1
    assert word in manifest(tmp_path / "results")["error"]


def test_a_server_that_cannot_start_is_named(tmp_path: Path) -> None:
    plan = make_plan(tmp_path, "nsd", ("/bin/true",))
    broken = tuple(dataclasses.replace(one, content=(one.content or "") + "nonsense\n") for one in plan.files)
    assert execute(dataclasses.replace(plan, files=broken), tmp_path / "results") == 1
    found = manifest(tmp_path / "results")
    refuses = re.escape(f"server: NSD {KINDS['nsd'].version()} refuses its configuration: nsd.conf:")
    assert re.fullmatch(rf"{refuses}\d+: .+", found["error"])
    assert "see " in found["hint"] and "logs/nsd.conf" in found["hint"]
    assert "nonsense" in (tmp_path / "results/logs/nsd.conf").read_text()


def test_a_defect_of_ours_leaves_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_self: Executor) -> None:
        raise ValueError("out of order")

    monkeypatch.setattr(Executor, "_stop_all", fail)
    assert execute(make_plan(tmp_path, "nsd", ("/bin/true",)), tmp_path / "results") == 1
    found = manifest(tmp_path / "results")
    assert found["error"] == "the executor failed: ValueError: out of order"
    assert "logs/executor.log" in found["hint"]
    assert "out of order" in (tmp_path / "results/logs/executor.log").read_text(encoding="utf-8")
