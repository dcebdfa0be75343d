"""The front in the kernel on its host: what it changes, puts back and refuses, and some of its options."""

import json
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import dns.flags
import dns.message
import dns.query
import pytest

from bench.veth import SEND_CHECKSUMS, TSO, has_offload
from cli import programs
from tests import packets
from tests.bed import Capture, wait_for
from tests.stateless_bed import BIND, CLIENT, FRONT, NSD, PORT, SERVER, StatelessBed, address

pytestmark = pytest.mark.netns


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[StatelessBed]:
    """BIND and NSD; no front yet."""
    with StatelessBed(tmp_path, front="bpf") as made:
        made.start_servers()
        yield made


def computes(bed: StatelessBed, what: int) -> bool:
    """Whether the server's interface has an offload turned on."""
    return has_offload(bed.hosts.of(SERVER), "data1", what)


def left_on_host(bed: StatelessBed) -> str:
    """What tc shows of the interface."""
    tc = programs.packaged("tc")
    return bed.output(SERVER, tc, "qdisc", "show", "dev", "data1") + bed.output(
        SERVER, tc, "filter", "show", "dev", "data1", "ingress"
    )


def ask(
    bed: StatelessBed, name: str = "ab.re.test.", server: str = BIND, family: int = 4
) -> dns.message.Message:
    with bed.inside(CLIENT):
        return dns.query.tcp(dns.message.make_query(name, "A"), address(server, FRONT, family), timeout=5)


def refusal(bed: StatelessBed, *words: str) -> str:
    """The one line with which it does not start."""
    argv = [programs.own("reprise-proxy"), "stateless", "--front", "bpf", *words]
    with bed.inside(SERVER):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    return done.stderr.strip()


def test_it_leaves_the_host_as_it_was(bed: StatelessBed) -> None:
    before = left_on_host(bed)
    assert computes(bed, SEND_CHECKSUMS)
    bed.start_front()
    assert "clsact" in left_on_host(bed)
    assert not computes(bed, SEND_CHECKSUMS)
    assert ask(bed).answer
    assert bed.stop_front()["replies"] == 1
    assert left_on_host(bed) == before
    assert computes(bed, SEND_CHECKSUMS)
    assert computes(bed, TSO)
    assert ask(bed).answer


def test_hooks_of_others_stay(bed: StatelessBed) -> None:
    bed.output(SERVER, programs.packaged("tc"), "qdisc", "add", "dev", "data1", "clsact", check=True)
    bed.start_front()
    bed.stop_front()
    assert "clsact" in left_on_host(bed)
    assert "stateless" not in left_on_host(bed)


def test_filters_of_others_stay(bed: StatelessBed) -> None:
    bed.start_front()
    words = ["filter", "add", "dev", "data1", "ingress", "pref", "7", "protocol", "all", "bpf", "bytecode"]
    bed.output(SERVER, programs.packaged("tc"), *words, "1,6 0 0 4294967295", check=True)
    bed.stop_front()
    assert "pref 7 bpf" in left_on_host(bed)
    assert "stateless" not in left_on_host(bed)


@pytest.mark.parametrize("rights", ["+all", "-all,+net_admin,+perfmon,+bpf"], ids=["root", "of a run"])
def test_the_next_start_puts_right_what_a_killed_one_left(bed: StatelessBed, rights: str) -> None:
    bed.before_front = (programs.packaged("setpriv"), f"--bounding-set={rights}")
    before = left_on_host(bed)
    bed.start_front()
    assert bed.process is not None
    bed.process.stop(signal.SIGKILL)
    bed.started.remove(bed.process)
    assert "stateless_in" in left_on_host(bed)
    assert ask(bed).answer, "the programs go on serving"
    bed.start_front()
    assert ask(bed).answer
    assert bed.stop_front()["replies"] == 1
    assert left_on_host(bed) == before
    assert computes(bed, SEND_CHECKSUMS)


def test_a_link_that_vanishes(bed: StatelessBed) -> None:
    bed.start_front()
    assert bed.process is not None
    bed.ip(SERVER, "link", "del", "data1")
    assert bed.process.wait() == 1
    assert bed.process.last_line().endswith(
        "interface data1 has vanished, and the front with it; start it again when the interface is back"
    )


def test_what_it_refuses(bed: StatelessBed) -> None:
    bed.ip(SERVER, "tuntap", "add", "dev", "tun7", "mode", "tun")
    for device in ("lo", "tun7"):
        assert refusal(bed, "--interface", device).endswith(
            f"--interface {device}: its packets have no Ethernet header, which --front bpf needs; "
            "give an Ethernet or veth interface, or --front reference"
        )
    assert "this host has no such interface" in refusal(bed, "--interface", "data9")
    bed.ip(SERVER, "link", "add", "bridge0", "type", "bridge")
    bed.ip(SERVER, "link", "set", "data2", "master", "bridge0")
    assert "it is a port of another interface" in refusal(bed, "--interface", "data2")
    bed.start_front()
    assert "another front serves it; stop that one first" in refusal(bed, "--interface", "data1")
    assert ask(bed).answer
    bed.stop_front()


def test_without_syn_cookies_nothing_is_promoted(bed: StatelessBed) -> None:
    with bed.inside(SERVER):
        Path("/proc/sys/net/ipv4/tcp_syncookies").write_text("0", encoding="ascii")
    assert "`sysctl -w net.ipv4.tcp_syncookies=1`, or give --promote=false" in refusal(
        bed, "--interface", "data1"
    )
    bed.start_front("--no-promote")
    assert ask(bed).answer
    with bed.inside(CLIENT), pytest.raises((ConnectionResetError, EOFError)):
        dns.query.tcp(dns.message.make_query("re.test.", "AXFR"), address(BIND, FRONT, 4), timeout=5)
    counted = bed.stop_front()
    assert counted["not_promoted"] == {"transfer": 1}
    assert (counted["promoted"], counted["reset"], counted["replies"]) == ({}, 1, 1)


def test_datagrams_have_checksums_where_segments_came_without(bed: StatelessBed) -> None:
    """Clients on the same machine leave theirs to a network card that is not there."""
    bed.start_front()
    with bed.inside(SERVER):
        listener = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
    with listener:
        for letters in range(1, 64):
            ask(bed, "a" * letters + ".re.test.")
        listener.setblocking(False)
        received = [listener.recv(65535) for _ in range(63)]
    for one in received:
        pseudo = one[12:20] + struct.pack("!HH", socket.IPPROTO_UDP, len(one) - 20)
        data = pseudo + one[20:] + bytes(len(one) % 2)
        assert sum(struct.unpack(f"!{len(data) // 2}H", data)) % 0xFFFF == 0
    assert {one[26:28] for one in received} != {bytes(2)}


@pytest.mark.slow
def test_no_client_is_left_at_the_end_of_its_connection(bed: StatelessBed) -> None:
    """One number in 16,384 fits another connection by chance, one sum in 65,536 a checksum."""
    query = dns.message.make_query("ab.re.test.", "A").to_wire(prepend_length=True)
    bed.start_front()
    with bed.inside(CLIENT):
        for number in range(120_000):
            with socket.socket() as client:
                client.settimeout(10)
                try:
                    client.bind(("", 2_000 + number % 60_000))
                except OSError:
                    continue  # waits for the end of the connection before
                client.connect((address(NSD, FRONT, 4), PORT))
                client.sendall(query)
                assert client.recv(65535)
        wait_for(lambda: not in_last_ack(), "the end of all connections", 10)
        assert "TcpInCsumErrors                 0 " in bed.output(CLIENT, "nstat", "-asz", "TcpInCsumErrors")


def in_last_ack() -> list[str]:
    lines = Path("/proc/thread-self/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    return [line for line in lines if line.split()[3] == "09"]


def test_a_user_without_rights(bed: StatelessBed) -> None:
    user = [programs.packaged("setpriv"), "--reuid=nobody", "--clear-groups", "--bounding-set=-all"]
    argv = [*user, programs.own("reprise-proxy"), "stateless", "--front", "bpf", "--interface", "data1"]
    with bed.inside(SERVER):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "run as root" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("family", [4, 6])
def test_an_early_acknowledgment(bed: StatelessBed, family: int) -> None:
    bed.start_front("--early-ack")
    capture = Capture(bed, SERVER, "data1", "early", "tcp")
    assert ask(bed, family=family).answer
    wait_for(lambda: bed.statistics()["fin"] == 1, "the client's FIN", 5)
    capture.stop()
    ours = [one for one in packets.read(capture.path) if one.source_port == PORT]
    assert [bool(one.payload) for one in ours] == [
        False,
        False,
        True,
        False,
    ]  # SYN/ACK, ACK, answer, ACK of FIN
    assert ours[1].acknowledged == ours[2].acknowledged
    bed.stop_front()


@pytest.mark.parametrize("family", [4, 6])
def test_long_replies_over_udp_become_truncated(bed: StatelessBed, family: int) -> None:
    bed.start_front("--truncate-udp")
    for server in ("bind", "nsd"):
        target = address(server, FRONT, family)
        query = dns.message.make_query("s4000.re.test.", "TXT", use_edns=0, payload=4096)
        with bed.inside(CLIENT):
            small = dns.query.udp(dns.message.make_query("ab.re.test.", "A"), target, timeout=5)
            cut = dns.query.udp(query, target, timeout=5)
            whole, by_tcp = dns.query.udp_with_fallback(query, target, timeout=5)
            over_tcp = dns.query.tcp(
                dns.message.make_query("s1000.re.test.", "TXT", use_edns=0), target, timeout=5
            )
        assert small.answer
        assert not small.flags & dns.flags.TC
        assert cut.flags & dns.flags.TC
        assert not cut.answer
        assert by_tcp
        assert whole.answer
        assert over_tcp.answer
        assert not over_tcp.flags & dns.flags.TC
    counted = bed.stop_front()
    assert counted["truncated"] == 4
    assert counted["promoted"] == {"long": 2} or counted["promoted"] == {"truncated": 2}


def test_the_statistics_say_what_the_map_takes(bed: StatelessBed) -> None:
    bed.start_front("--entries", "1000")
    counted = json.loads(bed.stats_file.read_text(encoding="utf-8"))
    assert counted["bytes_per_entry"] <= 110
    assert counted["entries_limit"] == 1000
    assert counted["memory_bytes"] < 1000 * 110 * 1.5
    bed.stop_front()
