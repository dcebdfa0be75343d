"""The small pure parts: server settings, zone files, progress lines, samples, test counts, certificates."""

import dataclasses
import gzip
import lzma
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from cli import linux, programs, progress
from cli.errors import RepriseError, UsageError, last_line
from cli.executor import machine, netns, preflight, processes, workers
from cli.executor.executor import Executor
from cli.executor.processes import Child
from cli.executor.words import ended, in_terms, part
from cli.experiment.experiment import keys_of
from cli.experiment.schema import Experiment, Fault, Server
from cli.plan import certificates
from cli.plan import network as networks
from cli.plan.planned import File, HostStep, Process, Ready, Step
from cli.plan.server_plan import FIRST_COMPLAINT
from cli.servers import bind, dnsdist, kinds, nsd
from cli.servers.kind import ServerKind, Service, Site
from cli.tools import doctor, packages
from cli.zones.zonefile import compression, find_origin, origin_of, unpack
from tests.bed import wait_for

SITE = Site("/f", (("example.", "/z"),), ("198.19.255.53", "fd00::53"), "nsd", 20_000)


def test_nsd_settings_do_not_bend_the_measurement() -> None:
    text = nsd.config(Server(processes=2, edns_size=1400, tcp_idle_timeout_s=7), SITE)
    for line in ("rrl-ratelimit: 0", "ipv4-edns-size: 1400", "ipv6-edns-size: 1400", "tcp-timeout: 7",
                 "server-count: 2", "reuseport: yes", "control-enable: no",
                 "ip-address: fd00::53@53"):  # fmt: skip
        assert line in text


def test_nsds_processes_have_sockets_of_their_own_for_connections() -> None:
    tls = dataclasses.replace(SITE, tls=Service(853, "/k", "/c"))
    text = nsd.config(Server(processes=2), tls)
    assert "ip-address: 198.19.255.53@53\n" in text
    assert "ip-address: fd00::53@853 servers=2\n" in text
    only = nsd.config(Server(processes=2), dataclasses.replace(SITE, connections_only=True))
    assert only.count("ip-address:") == 4
    assert "ip-address: 198.19.255.53@53 servers=1\n" in only
    assert "servers=" not in nsd.config(Server(), tls)


def test_bind_settings_do_not_bend_the_measurement() -> None:
    text = bind.config(Server(kind="bind", tcp_idle_timeout_s=120, edns_size=4096), SITE)
    for line in ("recursion no;", "max-udp-size 4096;", "tcp-idle-timeout 1200;", "notify no;",
                 "controls { };", "listen-on-v6 port 53 { fd00::53; };"):  # fmt: skip
        assert line in text
    assert "rate-limit" not in text


@pytest.mark.parametrize("idle_s", [1.04, 10.3, 20.0])
def test_dnsdist_closes_connections_after_the_time_that_was_checked(idle_s: float) -> None:
    text = dnsdist.config(Server(tcp_idle_timeout_s=idle_s), SITE)
    assert f"setTCPRecvTimeout({dnsdist.KIND.idle_s(idle_s):g})\n" in text


def test_a_fault_beyond_the_replay_is_told_in_seconds() -> None:
    experiment = Experiment(name="x", trace="t", fault=(Fault(at=900_000.0, for_=1.5, loss=0.5),))
    with pytest.raises(UsageError, match=r"lasts until 900,002 s, and the replay 12,346 s"):
        preflight.check_faults(experiment, preflight.Estimate(12_345.6, 0.0))


def test_tcp_connections_follow_the_descriptors() -> None:
    assert nsd.tcp_count(Server(), SITE) == 40_000
    assert SITE.connections(Server(kind="bind")) == 19_488
    assert nsd.tcp_count(Server(tcp_count=7), SITE) == SITE.connections(Server(tcp_count=7)) == 7


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        (". 86400 IN SOA a. b. 1 2 3 4 5\n", "."),
        ("$TTL 5\n; c\nExample.ORG.\tIN SOA a. b. (1\n", "example.org."),
        ("$ORIGIN example.\n@ SOA a b 1 2 3 4 5\n", "example."),
        ("$ORIGIN example.\nsub 3600 IN SOA a b 1\n", "sub.example."),
        ("$ORIGIN .\nde SOA a. b. 1\n", "de."),
        ("$ORIGIN org.\n$ORIGIN Example\n@ SOA a b 1\n", "example.org."),
        ("$ORIGIN example\n@ SOA a b 1\n", None),
        ("example. 5 IN NS a.\n 5 IN SOA a. b. 1\n", "example."),
        ("@ SOA a b 1\n", None),
        ("; SOA\n", None),
    ],
)
def test_the_origin_is_the_owner_of_the_soa(text: str, origin: str | None) -> None:
    assert origin_of(text) == origin


def test_compressed_zones(tmp_path: Path) -> None:
    plain = b". 5 IN SOA a. b. 1 2 3 4 5\n"
    for name, data in (("xz", lzma.compress(plain)), ("gz", gzip.compress(plain))):
        path = tmp_path / name
        path.write_bytes(data)
        assert compression(path) == name
        assert find_origin(path) == "."
        unpack(path, tmp_path / "out")
        assert (tmp_path / "out").read_bytes() == plain


def test_progress_lines() -> None:
    line = "progress read=9 sent=8 answered=7 timed_out=1 failed=0 rate=100 lag_us=12 elapsed_s=3.5"
    word, fields = progress.parse(line)
    assert word == "progress"
    assert progress.describe(fields) == "sent 8, answered 7, not answered 1, 100 q/s, lag 12 us, after 3.5 s"
    assert progress.parse("done clean=false because=host client1 lost; more") == (
        "done", {"clean": "false", "because": "host client1 lost; more"})  # fmt: skip


def test_network_commands_name_each_end_once() -> None:
    net = networks.local(2, 4096)
    lines = netns.link_commands(net, {host.name: 10 + index for index, host in enumerate(net.hosts)})
    assert len(lines) == 4
    assert sum("name data " in line or "peer name data" in line for line in lines) == 2
    server = netns.host_commands(net, "server")
    assert "addr add 198.19.255.53/32 dev lo" in server
    assert not [line for line in server if line.startswith("route")]


def test_certificates_are_for_their_hosts_only() -> None:
    authority = certificates.make_authority()
    pem, key = certificates.issue(authority, "client1", ("198.18.1.2",))
    certificate = x509.load_pem_x509_certificate(pem)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["client1"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["198.18.1.2"]
    certificate.verify_directly_issued_by(authority.certificate)
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert b"PRIVATE KEY" in key


@pytest.mark.parametrize(
    ("name", "addresses", "feeder", "uses"),
    [
        ("controller", (), False, [ExtendedKeyUsageOID.CLIENT_AUTH]),
        ("client1", ("198.18.1.2",), False, [ExtendedKeyUsageOID.SERVER_AUTH]),
        ("client1", ("::1",), True, [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
    ],
)
def test_certificates_name_their_roles(
    name: str, addresses: tuple[str, ...], feeder: bool, uses: list[x509.ObjectIdentifier]
) -> None:
    pem, _ = certificates.issue(certificates.make_authority(), name, addresses, feeder)
    found = x509.load_pem_x509_certificate(pem).extensions.get_extension_for_class(x509.ExtendedKeyUsage)
    assert list(found.value) == uses


def test_keys_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    certificates.write(tmp_path / "tls", {"client1": "127.0.0.1"})
    for path in (tmp_path / "tls").glob("*.key"):
        assert path.stat().st_mode & 0o077 == 0
    assert not (tmp_path / "tls/ca.key").exists()


def test_phases_tell_how_long_they_took(capsys: pytest.CaptureFixture[str]) -> None:
    now = iter((0.0, 0.5, 0.5, 71.0, 71.0))
    told = progress.Progress(sys.stderr, clock=lambda: next(now))
    told.begin("making the network")
    told.begin("replaying")
    told.over()
    told.over()
    assert capsys.readouterr().err.splitlines() == [
        "reprise: making the network",
        "reprise: replaying",
        "reprise: replaying: took 1 min 10 s",
    ]


def test_nft_tells_what_is_wrong_on_its_first_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nft"
    tool.write_text("#!/bin/sh\nprintf 'r.nft:1:1-3: Error: syntax error\\ntabel x\\n^^^^^\\n' >&2; exit 1\n")
    tool.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    monkeypatch.setenv("PATH", environment["PATH"])
    with pytest.raises(RepriseError, match=r"^nft -f r\.nft failed: r\.nft:1:1-3: Error: syntax error$"):
        processes.carry_out([("nft", "-f", "r.nft")], None, str, environment, tmp_path / "log")


def test_a_step_that_is_interrupted_leaves_no_tool(tmp_path: Path) -> None:
    tool = shutil.copy("/bin/sleep", tmp_path / "slow-tool")
    runs = 'until [ "$(cat /proc/$!/comm)" = slow-tool ]; do :; done'
    slow = ("sh", "-c", f"{tool} 60 & {runs}; kill -INT $PPID; wait")
    with pytest.raises(KeyboardInterrupt):
        processes.carry_out([slow], None, str, os.environ, tmp_path / "log")
    wait_for(lambda: not processes.runs("slow-tool"), "the end of the tool")


def test_last_lines_and_exits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_line(part(log)) == ""
    log.write_text("a\nlast words \n\n", encoding="utf-8")
    assert last_line(part(log)) == "last words"
    assert linux.describe_exit(3) == "exit status 3"
    assert linux.describe_exit(-9) == "signal SIGKILL"


@pytest.mark.parametrize(
    ("answer", "state", "words"),
    [
        ("xdp", "ok", "XDP"),
        ("none open an XDP socket: Operation not permitted", "limited", "not permitted); run as root"),
        ("none use BPF, which a build without clang-19 lacks", "limited", "XDP is not built"),
        ("", "limited", "not available"),
    ],
)
def test_fast_mode_as_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, state: str, words: str
) -> None:
    (tmp_path / "reprise-querier").write_text(f"#!/bin/sh\n[ $1 = packet-check ] && echo '{answer}'\n")
    (tmp_path / "reprise-querier").chmod(0o755)
    monkeypatch.setenv("REPRISE_PROGRAMS", str(tmp_path))
    finding = doctor.fast_mode()
    assert finding.state == state
    assert words in finding.line("fast mode")


@pytest.mark.parametrize(
    ("types", "state", "words"),
    [
        (b"\0int\0bpf_sk_assign_tcp_reqsk\0char\0", "ok", "can give connections"),
        (b"\0bpf_sk_assign\0tcp_v4_syn_recv_sock\0", "limited", "front.promote = false"),
        (None, "limited", "no type information (BTF)"),
    ],
)
def test_whether_the_bpf_front_can_promote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, types: bytes | None, state: str, words: str
) -> None:
    monkeypatch.setattr(doctor, "_KERNEL_TYPES", tmp_path / "vmlinux")
    if types is not None:
        (tmp_path / "vmlinux").write_bytes(types)
    finding = doctor.stateless()
    assert (finding.state, bool(finding.hint)) == (state, state != "ok")
    assert words in finding.line("stateless")


def test_the_machines_bounds_on_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_SETTINGS", tmp_path)
    (tmp_path / "fs").mkdir()
    (tmp_path / "net/ipv4").mkdir(parents=True)
    (tmp_path / "fs/file-max").write_text("2466170\n")
    assert doctor.connections().state == "ok"  # in a container, where the others are not shown
    (tmp_path / "net/ipv4/tcp_max_orphans").write_text("131072")
    (tmp_path / "net/ipv4/tcp_mem").write_text("287898 383867 575796")
    assert doctor.connections().state == "ok"
    (tmp_path / "net/ipv4/tcp_mem").write_text("100 200 300")
    bad = doctor.connections()
    assert bad.state == "limited"
    assert bad.line("connections").endswith('sysctl -w net.ipv4.tcp_mem="65536 98304 131072"')


@pytest.mark.parametrize(
    ("versions", "line"),
    [
        ({"NSD": "4.6.1"}, "ok       servers      NSD 4.6.1"),
        (
            {"NSD": "4.99.0", "BIND": "9.18.1"},
            "limited  servers      NSD 4.99.0, BIND 9.18.1; "
            "NSD 4.99.0 is not tested; Reprise is tested with 4.6 and 4.12",
        ),
    ],
)
def test_releases_of_servers(monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], line: str) -> None:
    monkeypatch.setattr(ServerKind, "version", lambda self: versions.get(self.title, ""))
    assert doctor.servers().line("servers") == line


@pytest.mark.parametrize(("works", "state"), [("nft\ntun\n", "ok"), ("nft\n", "limited"), ("", "limited")])
def test_data_paths_as_tried(monkeypatch: pytest.MonkeyPatch, works: str, state: str) -> None:
    monkeypatch.setattr(programs, "find", lambda name: name)
    monkeypatch.setattr(doctor, "_tried", lambda _: (0, works))
    assert doctor.data_paths().state == state


def test_steps_of_several_hosts_are_carried_out_at_the_same_time_also_where_one_fails() -> None:
    together, done = threading.Barrier(2, timeout=60), []

    def carry_out(steps: Sequence[HostStep]) -> None:
        together.wait()
        done.append(steps[0].id)
        if steps[0].id == "a":
            raise RepriseError("a failed", "")

    each = SimpleNamespace(carry_out=carry_out)
    executor: Any = SimpleNamespace(_machine=lambda _host: each)
    with pytest.raises(RepriseError, match="a failed"):
        Executor._at_once(executor, [HostStep("a", "server", ())], [HostStep("b", "client1", ())])
    assert sorted(done) == ["a", "b"]


def test_buffers_may_not_be_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container of Debian 12."""
    monkeypatch.setattr(doctor, "_LARGEST_BUFFER", tmp_path / "none")
    assert doctor.buffers().detail == "receive buffers of a size not shown here"


def test_packages_that_only_some_commands_need_are_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = {"base": ("a", "b"), "run": ("c",), "packet": ("d",), "test": ("e", "f")}
    absent: list[str] = []
    monkeypatch.setattr(packages, "listed", lambda: listed)
    monkeypatch.setattr(packages, "missing", lambda names: [one for one in names if one in absent])
    assert doctor.packages().detail.endswith("6 are installed")
    absent += ["d", "f"]
    some = doctor.packages()
    assert (some.state, some.hint) == ("ok", "")
    assert "those for packet, test come with the commands" in some.detail
    absent[:] = ["c", "d"]
    none = doctor.packages()
    assert (none.state, none.detail, none.hint) == ("missing", "c", "apt-get install c")


def test_what_a_program_of_ours_told_at_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "event=begin\nreprise-x: error: trace x is no pcap file: cut; got 6; copy it again\n"
        '{"error": "trace x is no pcap file: cut; got 6", "hint": "copy it again"}\nevent=end\n'
    )
    step = Step("x", "doing x", ())
    assert ended(step, log) == ("trace x is no pcap file: cut; got 6", "copy it again", True)
    log.write_text("notice: nsd started\n{}\n\n")
    assert ended(step, log) == ("{}", "", False)
    assert ended(step, tmp_path / "none") == ("", "", False)


def test_errors_are_told_in_the_terms_of_the_experiment() -> None:
    def filled(text: str) -> str:
        return text.replace("@run@", "/tmp/x")

    files = [File("@run@/rules.toml", "", places={"@run@/rules.toml": "[mutate]"})]
    for tables, said, told in (
        (
            ("front", "server"),
            "--promote is of --front, not --tun",
            "front.promote is of server.front, not --tun",
        ),
        (("hierarchy.rtt",), "--table and --cpus", "hierarchy.rtt.table and --cpus"),
        ((), "/tmp/x/rules.toml:7: no --kind", "[mutate]: no --kind"),
        (("synth",), "no --tcp-share, see --help", "no synth.tcp_share, see reprise trace synth --help"),
    ):
        assert in_terms(said, keys_of(*tables), files, filled) == told


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            "zone x: loaded\nbad.zone:3: unknown type: failed\nfailed, 1 error\n",
            "bad.zone:3: unknown type: failed",
        ),
        ("\nno such zone\nsee the manual\n", "no such zone"),
    ],
)
def test_a_zone_checkers_first_complaint_is_told(tmp_path: Path, lines: str, words: str) -> None:
    log = tmp_path / "log"
    log.write_text(lines)
    assert ended(Step("checkzone", "checking", (), reason=FIRST_COMPLAINT), log)[0] == words


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("t /run/r-1.conf:35: 'x' redefined\nexiting (due to fatal error)\n", "r-1.conf:35: 'x' redefined"),
        (
            "/r/r-1.conf:8: error: unknown keyword\n[1] fatal error: read failed\n",
            "r-1.conf:8: error: unknown keyword",
        ),
        ("one\n\nbad luck\n", "bad luck"),
        (
            "01-Nov-2026 10:00:00.123 loading configuration: permission denied\n"
            "01-Nov-2026 10:00:00.124 exiting (due to fatal error)\n",
            "loading configuration: permission denied",
        ),
        (
            "[system] error while loading config: ERROR: [ ta ] invalid key algorithm (workdir '/r')\n",
            "ERROR: [ ta ] invalid key algorithm (workdir '/r')",
        ),
        ("[C]: in function 'listen'\n k.conf:1: in main chunk\nERROR: no net\n", "ERROR: no net"),
        (
            "nsd[1]: error: can't bind: Address already in use\nnsd[1]: server could not be started\n",
            "nsd[1]: error: can't bind: Address already in use",
        ),
    ],
)
def test_a_servers_complaint_of_its_configuration_is_told(tmp_path: Path, lines: str, words: str) -> None:
    log = tmp_path / "log"
    log.write_text(lines)
    server = Process("server", "server", "server", (), reason=kinds.REASON)
    assert ended(server, log) == (words, "", False)


def test_what_a_log_said_before_a_restart_counts_no_more(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("event=ready\n")
    wanted = Ready("log", text="event=ready")
    child = Child("p", "proxy", "h", 1, log, log_begin=12)
    assert machine.problem(wanted, child) is not None
    log.write_text("event=ready\nevent=ready\n")
    assert machine.problem(wanted, child) is None


def test_output_that_nobody_reads_stops_nothing() -> None:
    code = (
        "import os\nfrom cli.progress import Progress\nr, w = os.pipe()\nos.close(r)\nos.dup2(w, 2)\n"
        "p = Progress()\np.phase('one')\np.phase('two')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=programs.ROOT, check=False)
    assert done.returncode == 0


@pytest.mark.parametrize(
    ("line", "settling", "is_lacking"),
    [
        ("sleep 100; sleep 101; :", 0, False),  # a successor
        ("sleep 100; read line", 0, True),
        ("sleep 100; read line", 1_000, False),  # it was perhaps leaving when the replay began
    ],
)
def test_a_worker_is_replaced_by_one_of_its_name_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, settling: float, is_lacking: bool
) -> None:
    monkeypatch.setattr(workers, "_SETTLING_S", settling)
    with subprocess.Popen(["sh", "-c", line], stdin=subprocess.PIPE) as shell:

        def sleepers() -> list[int]:
            tree = workers.below(shell.pid)
            return [one.pid for one in tree if one.name == "sleep"]

        wait_for(lambda: bool(sleepers()), "the worker")
        (first,) = sleepers()
        planned = Process("server", "server", "server", (), essential=True)
        watch = workers.Watch([Child("server", "server", "server", shell.pid, tmp_path / "log")], [planned])
        os.kill(first, signal.SIGTERM)
        wait_for(lambda: sleepers() != [first] and bool(sleepers()) == ("101" in line), "its end")
        watch.look()
        text = f"process {first} (sleep) of server ended during the replay"
        assert watch.told() == ([], [text])  # a successor may come until the next look
        watch.look()
        lacking = [f"{text}, and none took its place"]
        assert watch.told() == ((lacking, []) if is_lacking else ([], [text]))
        for pid in (shell.pid, *sleepers()):
            os.kill(pid, signal.SIGKILL)


def test_what_servers_log_of_reloads_has_its_time(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("[2026-11-25 08:04:42.183] nsd[2]: notice: reload before the replay\n", encoding="utf-8")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as server:
        planned = Process("server", "server", "server", (), events="reload", essential=True)
        watch = workers.Watch([Child("server", "server", "server", server.pid, log)], [planned])
        with log.open("a", encoding="utf-8") as file:
            file.write("[2026-11-25 08:04:42.183] nsd[2]: warning: SIGHUP received, reloading...\n")
            file.write("25-Nov-2026 08:04:43.500 reloading configuration succeeded\n")
            file.write("reload without a time\n25-Nov-2026 99:99:99.0 reload\n")
        first, second = watch.events()
    assert (first.process, first.text) == ("server", "nsd[2]: warning: SIGHUP received, reloading...")
    assert time.strftime("%F %T", time.localtime(first.real_ns // 10**9)) == "2026-11-25 08:04:42"
    assert second.real_ns - first.real_ns == 1_317_000_000
    assert second.text == "reloading configuration succeeded"
