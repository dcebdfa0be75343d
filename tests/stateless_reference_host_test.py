"""What the front of statelessTCP in user space changes on its host, and ends of connections."""

import os
import re
import socket
import struct
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bench.veth import SEND_CHECKSUMS, has_offload
from cli import programs
from cli.hosts import leftovers
from cli.tools import doctor
from tests.bed import Capture, wait_for
from tests.stateless_reference_bed import (
    ACTIVE,
    ADDRESSES,
    CLIENT,
    CLIENT_IF,
    SERVER,
    SERVER_IF,
    SERVICE4,
    ReferenceBed,
    Stopped,
    answer,
    ask,
    forged,
    query,
    served,
    server_of,
    until_counted,
)

pytestmark = pytest.mark.netns

FORWARDING = (f"net.ipv4.conf.{SERVER_IF}.forwarding", "net.ipv6.conf.all.forwarding")


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[ReferenceBed]:
    """With a server that takes connections."""
    with served(tmp_path) as made:
        yield made


# --- ends of connections ----------------------------------------------------------------------------------


def test_a_client_that_says_no_more_still_gets_its_answer(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--timeout-ms", "20000")
    with bed.connect(timeout=1.0) as connection, Stopped(server_of(bed)):
        connection.sendall(query())
        connection.shutdown(socket.SHUT_WR)
        until_counted(bed, "fin")
    with bed.connect(timeout=1.0) as connection:
        connection.sendall(query())
        connection.shutdown(socket.SHUT_WR)
        assert answer(connection).answer
        with pytest.raises(TimeoutError):
            connection.recv(1)  # the front never ends a connection
    assert bed.finish(front)["fin"] == 2


def test_a_reset_forgets_the_query(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE, "--timeout-ms", "20000")
    with Stopped(server_of(bed)):
        connection = bed.connect()
        connection.sendall(query())
        until_counted(bed, "entries")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
        until_counted(bed, "rst")
        assert bed.statistics()["entries"] == 0
    until_counted(bed, "late")
    counted = bed.finish(front)
    assert (counted["rst"], counted["late"], counted["replies"]) == (1, 1, 0)


# --- the host ---------------------------------------------------------------------------------------------


def host_state(bed: ReferenceBed) -> str:
    """Rules, routes, devices and forwarding of the server's host, without link-local addresses, which may
    still be being made.
    """
    commands = (
        ("ip", "rule"),
        ("ip", "-6", "rule"),
        ("ip", "route", "show", "table", "all"),
        ("ip", "-6", "route", "show", "table", "all"),
        ("ip", "-br", "link"),
        ("sysctl", *FORWARDING),
    )
    text = "\n".join(bed.output(SERVER, *words) for words in commands)
    return "\n".join(line for line in text.splitlines() if not re.search(r"\bf[ef][0-9a-f]{2}::", line))


def test_the_host_is_as_before_after_the_end(bed: ReferenceBed) -> None:
    before = host_state(bed)
    front = bed.start_front(*ACTIVE)
    assert ask(bed, query()).answer
    assert host_state(bed) != before
    bed.finish(front)
    assert host_state(bed) == before
    assert ask(bed, query()).answer  # by the kernel's TCP


def test_after_a_kill_the_kernel_serves_and_the_next_start_puts_things_right(bed: ReferenceBed) -> None:
    before = host_state(bed)
    bed.start_front(*ACTIVE).kill()
    assert bed.output(SERVER, "ip", "rule") not in before
    for address in ADDRESSES:
        assert ask(bed, query(), address).answer
    front = bed.start_front(*ACTIVE)
    assert front.text().count("event=repaired") == 2
    assert ask(bed, query()).answer
    assert bed.finish(front)["replies"] == 1
    assert host_state(bed) == before


def test_after_a_kill_the_kernel_serves_also_where_the_device_stays(bed: ReferenceBed) -> None:
    bed.ip(SERVER, "tuntap", "add", "dev", "stateless0", "mode", "tun")
    bed.ip(SERVER, "link", "set", "stateless0", "up")
    before = host_state(bed)
    bed.start_front(*ACTIVE).kill()

    def answers() -> bool:
        try:
            return all(ask(bed, query(), address).answer for address in ADDRESSES)
        except OSError:
            return False

    wait_for(answers, "answers of the kernel's TCP", 15)
    front = bed.start_front(*ACTIVE)
    assert ask(bed, query()).answer
    assert bed.finish(front)["replies"] == 1
    assert host_state(bed) == before
    assert ask(bed, query()).answer


def undo(bed: ReferenceBed, words: Sequence[str]) -> None:
    """What a line with a hint says about a killed front."""
    bed.output(SERVER, programs.own("reprise-proxy"), *words, check=True)


def settings(bed: ReferenceBed) -> str:
    """All on forwarding and routers' routes; of an interface that the host forwards by, too."""
    every = bed.output(SERVER, "sysctl", "-a").splitlines()
    return "\n".join(one for one in every if "forwarding = " in one or "accept_ra = " in one)


@pytest.mark.parametrize("kernel", ["new", "old"])
@pytest.mark.parametrize("front", ["reference", "bpf"])
def test_what_a_killed_front_leaves_is_found_and_undone_by_the_command_that_is_named(
    bed: ReferenceBed, front: str, kernel: str
) -> None:
    """Before Linux 6.17 there is no force_forwarding of an interface; a mount hides it here."""
    if os.geteuid() != 0:
        pytest.skip("BPF programs need root")
    before, offloads = (
        (host_state(bed), settings(bed)),
        has_offload(bed.hosts.of(SERVER), SERVER_IF, SEND_CHECKSUMS),
    )
    argv = [programs.own("reprise-proxy"), "stateless", "--front", front, "--interface", SERVER_IF]
    argv += ACTIVE if front == "reference" else ()
    if kernel == "old":
        hide = f"mount -t tmpfs none /proc/sys/net/ipv6/conf/{SERVER_IF}"
        argv = ["unshare", "-m", "sh", "-c", f'{hide} && exec "$@"', "sh", *argv]
    bed.start(SERVER, argv, "front").until("event=ready").kill()
    if front == "reference":
        assert (settings(bed).count("accept_ra = 2") > 0) == (kernel == "old")
        assert ("all.forwarding = 1" in settings(bed)) == (kernel == "old")
    with bed.inside(SERVER):
        (left,) = leftovers.found(SERVER_IF)
        assert leftovers.ours() == [left] and left.ours
        assert doctor.interfaces().state == "limited"
    undo(bed, left.command.split()[1:])
    assert (host_state(bed), settings(bed)) == before
    assert has_offload(bed.hosts.of(SERVER), SERVER_IF, SEND_CHECKSUMS) == offloads
    with bed.inside(SERVER):
        assert leftovers.found(SERVER_IF) == []
        assert doctor.interfaces().state == "ok"
    assert ask(bed, query()).answer


def test_a_note_of_a_killed_front_alone_is_its_own(bed: ReferenceBed) -> None:
    """What says where accept_ra became 2, if the other rules are gone."""
    bed.output(SERVER, "ip", "-6", "rule", "add", "pref", "3", "iif", SERVER_IF, "nop", check=True)
    with bed.inside(SERVER):
        (left,) = leftovers.found(SERVER_IF)
    assert left.ours
    assert left.command.endswith(f"stateless --front reference --interface {SERVER_IF} --undo")


def test_programs_and_rules_of_others_are_found(bed: ReferenceBed, tmp_path: Path) -> None:
    """Each is removed by the command that is named."""
    for words in (
        ("tc", "qdisc", "add", "dev", SERVER_IF, "clsact"),
        ("tc", "filter", "add", "dev", SERVER_IF, "egress", "pref", "7", "u32", "match", "u32", "0", "0"),
        ("ip", "-6", "rule", "add", "pref", "9", "iif", SERVER_IF, "blackhole"),
    ):
        bed.output(SERVER, *words, check=True)
    with bed.inside(SERVER):
        found = leftovers.found(SERVER_IF)
        assert [one.what for one in found] == [
            f"{SERVER_IF} has a tc filter (egress, preference 7)",
            f"a routing rule, preference 9, is for {SERVER_IF}",
        ]
        assert leftovers.ours() == []
    for one in found:
        bed.output(SERVER, *one.command.split(), check=True)
    with bed.inside(SERVER):
        assert leftovers.found(SERVER_IF) == []


def test_an_interface_that_vanishes_ends_the_front(bed: ReferenceBed) -> None:
    rules = bed.output(SERVER, "ip", "rule")
    front = bed.start_front(*ACTIVE)
    bed.ip(SERVER, "link", "del", SERVER_IF)
    assert front.wait(10) == 1
    assert front.last_line().endswith(
        f"interface {SERVER_IF} has vanished, and the front with it; "
        "start it again when the interface is back"
    )
    assert bed.output(SERVER, "ip", "rule") == rules


def test_connections_that_are_open_at_the_start_or_the_end_break(bed: ReferenceBed) -> None:
    with bed.connect(timeout=1.0) as before:
        before.sendall(query())
        assert answer(before).answer
        front = bed.start_front(*ACTIVE)
        before.sendall(query())
        with pytest.raises(TimeoutError):  # it has timestamps, which the front does not send
            before.recv(1)
    with bed.connect(timeout=1.0) as during:
        during.sendall(query())
        assert answer(during).answer
        bed.finish(front)
        during.sendall(query())
        with pytest.raises(ConnectionResetError):
            during.recv(1)


def test_inactive_it_leaves_the_host_alone(bed: ReferenceBed) -> None:
    before = host_state(bed)
    front = bed.start_front(ready="event=inactive")
    assert host_state(bed) == before
    capture = Capture(bed, CLIENT, CLIENT_IF)
    assert ask(bed, query("s3900.example.", "TXT")).answer
    wait_for(
        lambda: bool(capture.rows("tcp.srcport == 53 && tcp.flags.fin == 1", "ip.ttl")), "the server's FIN"
    )
    capture.stop()
    assert {ttl for (ttl,) in capture.rows("tcp.srcport == 53", "ip.ttl")} == {"64"}
    counted = bed.finish(front)
    assert "event=ready" not in front.text()
    assert (counted["syn"], counted["queries"]) == (0, 0)


def refused(bed: ReferenceBed, *words: str, user: tuple[str, ...] = (), front: str = "reference") -> str:
    """The one line of an error; the exit status is not 0."""
    argv = [*user, programs.own("reprise-proxy"), "stateless", "--front", front, *words]
    program = bed.start(SERVER, argv, "refused")
    assert program.wait() != 0, program.text()
    (line,) = program.text().splitlines()
    return line


def test_bad_options_and_hosts_are_refused_in_one_line(bed: ReferenceBed) -> None:
    before = host_state(bed)
    assert "no such interface; `ip link`" in refused(bed, "--interface", "none0", *ACTIVE)
    assert "give the interface toward the clients" in refused(bed, "--interface", "lo", *ACTIVE)
    assert "write /nowhere/front.json" in refused(
        bed, "--interface", SERVER_IF, *ACTIVE, "--stats", "/nowhere/front.json"
    )
    assert "is an option of --front bpf" in refused(bed, "--interface", SERVER_IF, "--entries", "9")
    assert "give 1 to 15 letters" in refused(bed, "--interface", SERVER_IF, *ACTIVE, "--tun", "x" * 16)
    assert "is not a TUN device" in refused(bed, "--interface", SERVER_IF, *ACTIVE, "--tun", SERVER_IF)
    nobody = (programs.packaged("setpriv"), "--reuid=65534", "--clear-groups", "--bounding-set=-all")
    assert "run as root" in refused(bed, "--interface", SERVER_IF, *ACTIVE, user=nobody)
    assert host_state(bed) == before
    bed.start_front(*ACTIVE)
    again = refused(bed, "--interface", SERVER_IF, *ACTIVE, "--tun", "other0")
    assert "another one runs on this host; stop it first" in again


@pytest.mark.skipif(os.geteuid() != 0, reason="BPF programs need root")
def test_an_interface_has_one_front_of_either_kind(bed: ReferenceBed) -> None:
    first = bed.start_front(*ACTIVE)
    taken = f"--interface {SERVER_IF}: another front serves it; stop that one first"
    assert taken in refused(bed, "--interface", SERVER_IF, front="bpf")
    bed.finish(first)
    second = bed.start_front(front="bpf")
    assert taken in refused(bed, "--interface", SERVER_IF, *ACTIVE)
    second.kill()
    left = refused(bed, "--interface", SERVER_IF, *ACTIVE)
    assert "programs of a killed --front bpf still serve it" in left
    again = bed.start_front(front="bpf")
    assert f"event=repaired interface={SERVER_IF} " in again.text()
    assert f"{SERVER_IF}: another front serves it" in refused(
        bed, "--interface", SERVER_IF, "--undo", front="bpf"
    )
    again.kill()
    undo(bed, left.split("`reprise-proxy ")[1].rstrip("`").split())
    third = bed.start_front(*ACTIVE)
    assert ask(bed, query()).answer
    assert bed.finish(third)["replies"] == 1


def test_log_levels_say_more_and_more(bed: ReferenceBed) -> None:
    for level, seconds, segments in ((0, False, False), (1, False, False), (2, True, False), (3, True, True)):
        front = bed.start_front(*ACTIVE, "--loglevel", str(level))
        assert ask(bed, query()).answer
        asked = time.time_ns()
        wait_for(lambda: bed.stats.stat().st_mtime_ns > asked, "the counts of a second", 5)  # noqa: B023
        bed.finish(front)
        assert ("event=second syn=" in front.text()) == seconds
        assert ("event=segment from=" in front.text()) == segments


def test_answers_that_cannot_be_sent_are_told_of(bed: ReferenceBed) -> None:
    front = bed.start_front(*ACTIVE)
    with bed.inside(CLIENT), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        raw.sendto(
            forged("203.0.113.9", SERVICE4, data=query()), (SERVICE4, 0)
        )  # the server has no route back
    front.until("event=not_sent packets=", 5)
    assert 'because="Network is unreachable"' in front.text()
    assert bed.finish(front)["unsent"] == 2  # the acknowledgement and the answer
