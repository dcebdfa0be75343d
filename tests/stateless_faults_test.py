"""What fails between clients and a front, without GRO: every query is answered as by the kernel's TCP or its
client sees the connection closed, within a bound; no byte is ever wrong; no entry outlives its timeout.

The front in user space promises less, as the report says of its own: what it loses is asserted as well.
"""

import itertools
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from tests.bed import wait_for
from tests.dns_server import echo, framed, messages
from tests.packets import ACK, FIN, PSH, RST, SYN, Packet
from tests.slow import slow
from tests.stateless_bed import (
    BIND,
    CLIENT,
    FRONT,
    MOSTLY_FRONTS,
    NSD,
    OWN_PORTS,
    PORT,
    SERVER,
    TEST,
    FaultyBed,
    address,
)
from tests.stateless_cases import wire
from tests.stateless_client import End, Exchange, HalfClose, Outcome, split, together, whole
from tests.stateless_faults import carry_out, contradictions, fate, segment, segments, truth

pytestmark = pytest.mark.netns

ACTS = ("drop", "duplicate", "swap", "delay")
BOUND_S = 15.0
SECRET_S = 1  # period of the secret, where it is changed
_ports = iter(OWN_PORTS)


@pytest.fixture(scope="module", params=MOSTLY_FRONTS)
def bed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultyBed]:
    """BIND and NSD behind a front, and a bridge before it."""
    folder = tmp_path_factory.mktemp(request.param)
    with FaultyBed(folder, request.param) as made:
        made.start_servers()
        made.start_front()
        yield made
        made.stop_front()


@pytest.fixture(autouse=True)
def nothing_wrong_on_the_wire(bed: FaultyBed) -> Iterator[None]:
    """In the capture of each test."""
    bed.bridge.begin_capture()
    yield
    assert contradictions(bed.bridge.packets())[:5] == []


def one_segment() -> Exchange:
    return whole(wire("ab"), limit_s=BOUND_S)


def promoted() -> Exchange:
    """Its query comes in two segments."""
    return split(wire("two", "TXT", 1232), 2, limit_s=BOUND_S)


def long_reply() -> Exchange:
    return whole(wire("s4000", "TXT", 4096), limit_s=BOUND_S)


def pipelined() -> Exchange:
    return together(*(wire(name) for name in ("ab", "two", "alias", "missing", "x.wild")), limit_s=BOUND_S)


def apart() -> Exchange:
    """The second comes while the first is in flight, or later."""
    return whole(wire("ab"), wire("two"), limit_s=BOUND_S)


def half_closed() -> Exchange:
    return whole(wire("ab"), half_close=HalfClose.WITH, limit_s=BOUND_S)


def small_segments() -> Exchange:
    return whole(wire("s1200", "TXT", 4096), mss=536, limit_s=BOUND_S)


KINDS = {"one segment": one_segment, "promoted": promoted, "long reply": long_reply}
ALL_KINDS = KINDS | {
    "pipelined": pipelined,
    "pipelined in segments": apart,
    "half-closed": half_closed,
    "small segments": small_segments,
}


# --- each packet in turn ----------------------------------------------------------------------------------


def without_faults(bed: FaultyBed, server: str, family: int, kind: str) -> dict[str, int]:
    """How many segments such a connection has in each direction."""
    port = next(_ports)
    (seen,) = carry_out(bed, server, family, [replace(KINDS[kind](), source_port=port)])
    assert seen.end is not End.SILENT
    return segments(bed.bridge.packets(), port)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("server", "family"), [(BIND, 4), slow(NSD, 6)])
def test_each_packet_in_turn(bed: FaultyBed, server: str, family: int, kind: str) -> None:
    counts = without_faults(bed, server, family, kind)
    faults = [(to, n, act) for to in counts for n in range(1, counts[to] + 1) for act in ACTS]
    work = {next(_ports): fault for fault in faults}
    what = KINDS[kind]()
    bed.bridge.set({port: [fault] for port, fault in work.items()})
    seen = carry_out(bed, server, family, [replace(what, source_port=port) for port in work])
    true = truth(bed, server, what)
    fates = {fault: fate(true, one) for fault, one in zip(faults, seen, strict=True)}
    judge(bed, fates)
    bed.wait_for_no_entries()


def judge(bed: FaultyBed, fates: dict[tuple[str, int, str], str]) -> None:
    """A fault costs time, no answers; the front in user space loses what is lost behind its early ACK."""
    bad = {fault: one for fault, one in fates.items() if one != "answered"}
    if bed.front == "reference":
        assert bad
        assert all(fault[0] == "client" and fault[1] >= 3 and fault[2] == "drop" for fault in bad), bad
        return
    assert bad == {}


@pytest.mark.slow
@pytest.mark.parametrize("bed", ["kernel", "bpf"], indirect=True)
@pytest.mark.parametrize(("server", "family"), [(BIND, 4), (BIND, 6), (NSD, 4)])
@pytest.mark.parametrize("seed", range(3))
def test_several_faults_at_once(bed: FaultyBed, server: str, family: int, seed: int) -> None:
    """Each connection meets up to four. What the front in user space loses is seen one by one."""
    chance = random.Random(seed)
    made = {kind: make() for kind, make in ALL_KINDS.items()}
    work: dict[int, str] = {}
    rules: dict[int, list[tuple[str, int, str]]] = {}
    for port in itertools.islice(_ports, 300):
        work[port] = chance.choice(list(made))
        rules[port] = [
            (chance.choice(("server", "client")), chance.randint(1, 8), chance.choice(ACTS))
            for _ in range(chance.randint(1, 4))
        ]
    bed.bridge.set(rules)
    exchanges = [replace(made[kind], source_port=port, limit_s=30) for port, kind in work.items()]
    seen = carry_out(bed, server, family, exchanges)
    true = {kind: truth(bed, server, one) for kind, one in made.items()}
    found = [
        (fate(true[kind], one), kind, rules[port])
        for (port, kind), one in zip(work.items(), seen, strict=True)
    ]
    assert [one for one in found if one[0] not in ("answered", "closed")] == []
    assert sum(one[0] == "answered" for one in found) > 150
    bed.wait_for_no_entries()


# --- the server -------------------------------------------------------------------------------------------


@contextmanager
def own_server(bed: FaultyBed, behavior: str) -> Iterator[str]:
    """The server that tests start for themselves."""
    program = bed.start_dns_server(SERVER, f"{address(TEST, FRONT, 4)}:{PORT}", behavior)
    try:
        yield TEST
    finally:
        program.kill()
        bed.started.remove(program)


def echoed(asked: Exchange, seen: Outcome) -> bool:
    """Whether the test server's answers came, and nothing else."""
    queries = list(messages(b"".join(asked.pieces)))
    return seen.messages == [echo(one) for one in queries] and not seen.rest


def is_clean(asked: Exchange, seen: Outcome) -> bool:
    return echoed(asked, seen) or (not seen.messages and seen.end in (End.CLOSED, End.RESET))


def test_a_server_slower_by_a_second(bed: FaultyBed) -> None:
    """Clients send their queries again meanwhile, and are answered once."""
    work = [one_segment() for _ in range(20)]
    begin = time.monotonic()
    with own_server(bed, "late=1000") as server:
        seen = carry_out(bed, server, 4, work)
    assert [one for asked, one in zip(work, seen, strict=True) if not echoed(asked, one)] == []
    assert 1.0 <= time.monotonic() - begin < BOUND_S
    bed.wait_for_no_entries()


@pytest.mark.parametrize(
    "kind",
    ["one segment", *(slow(one) for one in ("promoted", "long reply"))],
)
def test_a_server_killed_with_queries_in_flight(bed: FaultyBed, kind: str) -> None:
    """It stands still when they come, is killed, and is started again half a second later."""
    what = KINDS[kind]()
    true = truth(bed, BIND, what)
    old = bed.bind
    old.send(signal.SIGSTOP)
    meanwhile = [(0.3, old.kill), (0.8, bed.restart_bind)]
    seen = carry_out(bed, BIND, 4, [what] * 10, meanwhile=meanwhile)
    fates = Counter(fate(true, one) for one in seen)
    if bed.front == "reference":
        assert set(fates) <= {"answered", "closed", "silent (0 of 1)"}
    else:
        assert set(fates) <= {"answered", "closed"}, fates
    bed.wait_for_no_entries()
    (after,) = carry_out(bed, BIND, 4, [what])
    assert fate(true, after) == "answered"


# --- what others send -------------------------------------------------------------------------------------


def raw_socket(bed: FaultyBed) -> socket.socket:
    """For whole IPv4 packets of the client's host."""
    with bed.inside(CLIENT):
        return socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)


def test_a_flood_of_syns(bed: FaultyBed) -> None:
    """Strangers' SYNs, which nobody follows, leave the others their answers and cost no entries."""
    bed.ip(SERVER, "route", "replace", "10.0.0.0/8", "via", "198.19.1.1")
    target = (address(BIND, FRONT, 4), PORT)
    chance = random.Random(3)

    def slice_of_flood() -> None:
        for _ in range(100):
            source = (f"10.{chance.randrange(256)}.{chance.randrange(256)}.1", chance.randrange(1024, 65536))
            raw.sendto(segment(source, target, SYN, chance.randrange(1 << 32)), target)

    what = one_segment()
    true = truth(bed, BIND, what)
    with raw_socket(bed) as raw:
        meanwhile = [(0.02 * n, slice_of_flood) for n in range(50)]
        seen = carry_out(
            bed, BIND, 4, [replace(what, idle_s=0.02 * n) for n in range(50)], meanwhile=meanwhile
        )
    assert Counter(fate(true, one) for one in seen) == {"answered": 50}
    if bed.front == "bpf":
        now = bed.statistics()
        assert now["syn"] >= 5_000
        assert now["entries_peak"] <= 64
    bed.wait_for_no_entries()


def test_data_without_a_handshake(bed: FaultyBed) -> None:
    """Nobody is answered who has not shown that he gets what is sent to his address; the front in user space
    keeps nothing that it could compare with, as the report's.
    """
    target = (address(BIND, FRONT, 4), PORT)
    chance = random.Random(5)
    with raw_socket(bed) as raw:
        for number in range(500):
            numbers = chance.randrange(1 << 32), chance.randrange(1 << 32)
            packet = segment(("198.19.1.1", 1024 + number), target, ACK | PSH, *numbers, framed(wire("ab")))
            raw.sendto(packet, target)
    (seen,) = carry_out(bed, BIND, 4, [replace(one_segment(), source_port=next(_ports))])
    assert seen.messages
    blind = range(1024, 1024 + 500)

    def sent() -> int:
        return sum(one.source_port in blind and bool(one.payload) for one in bed.bridge.packets())

    wait_for(lambda: sent() == 500, "all on the bridge")
    told = [one for one in bed.bridge.packets() if one.destination_port in blind and one.payload]
    if bed.front == "reference":
        assert told
        return
    assert told == []
    if bed.front == "bpf":
        assert bed.statistics()["refused_cookies"] >= 490  # one of 16,384 looks like a later one by chance


# --- ports, resets, ends ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lost", [False, True], ids=["reset", "reset lost"])
def test_the_same_port_again_at_once(bed: FaultyBed, lost: bool) -> None:
    """Each connection ends with a reset by the client, which may be lost; the next has the same port."""
    port = next(_ports)
    for kind in ("one segment", "one segment", "promoted", "one segment", "long reply", "one segment"):
        what = replace(KINDS[kind](), source_port=port, abort=True)
        bed.bridge.set({port: [("server reset", 1, "drop")] if lost else []})
        (seen,) = carry_out(bed, BIND, 4, [what])
        assert fate(truth(bed, BIND, what), seen) == "answered", kind
    bed.wait_for_no_entries()


def test_a_reset_while_the_query_is_in_flight(bed: FaultyBed) -> None:
    """Nothing is sent to that client any more."""
    ports = [next(_ports) for _ in range(20)]
    with own_server(bed, "late=500") as server:
        gone = [replace(one_segment(), source_port=port, abort=True, limit_s=0.2) for port in ports]
        carry_out(bed, server, 4, gone)
        (after,) = carry_out(bed, server, 4, [one_segment()])  # answered when the others would have been
    assert after.messages
    told = [one for one in bed.bridge.packets() if one.destination_port in ports and one.payload]
    if bed.front != "reference":
        assert told == []
    bed.wait_for_no_entries()


def test_another_query_after_the_servers_fin(bed: FaultyBed) -> None:
    """The kernel's connection stays open and carries both; a front's is reset, or says no more."""
    first, second = wire("ab"), wire("two")
    with bed.socket(4) as sock:
        sock.settimeout(3)
        sock.connect((address(BIND, FRONT, 4), PORT))
        sock.send(framed(first))
        assert len(sock.recv(4096)) > len(first)
        if bed.front == "bpf":
            assert sock.recv(4096) == b""
        sock.send(framed(second))
        if bed.front == "bpf":
            port = sock.getsockname()[1]
            wait_for(
                lambda: any(one.destination_port == port and one.flags & RST for one in bed.bridge.packets()),
                "RST",
                5,
            )
        else:
            assert len(sock.recv(4096)) > len(second)


def test_data_behind_the_clients_fin(bed: FaultyBed) -> None:
    """Whatever a client sends after its own FIN is no query."""
    port = next(_ports)
    what = replace(one_segment(), source_port=port, half_close=HalfClose.AFTER)
    (seen,) = carry_out(bed, BIND, 4, [what])
    assert len(seen.messages) == 1

    def mine() -> list[Packet]:
        return [one for one in bed.bridge.packets() if one.source_port == port]

    wait_for(lambda: any(one.flags & FIN for one in mine()), "the client's FIN on the bridge")
    fin = next(one for one in mine() if one.flags & FIN)
    last = mine()[-1]
    queries = bed.statistics()["queries"] if bed.front == "bpf" else 0
    payload = framed(wire("two"))
    target = (address(BIND, FRONT, 4), PORT)
    with raw_socket(bed) as raw:
        sequence = fin.sequence + len(fin.payload) + 1
        packet = segment(("198.19.1.1", port), target, ACK | PSH, sequence, last.acknowledged, payload)
        raw.sendto(packet, target)
    wait_for(lambda: any(one.payload == payload for one in bed.bridge.packets()), "the segment on the bridge")
    (after,) = carry_out(bed, BIND, 4, [one_segment()])
    assert after.messages
    told = {one.payload for one in bed.bridge.packets() if one.destination_port == port and one.payload}
    if bed.front != "reference":
        assert b"".join(told) == framed(seen.messages[0])
    if bed.front == "bpf":
        assert bed.statistics()["queries"] == queries + 1


# --- limits of the front ----------------------------------------------------------------------------------


@contextmanager
def front_with(bed: FaultyBed, *options: str) -> Iterator[None]:
    """The front with options of its own, for a time."""
    bed.restart_front(*options)
    try:
        yield
    finally:
        bed.restart_front()


def test_more_queries_in_flight_than_entries(bed: FaultyBed) -> None:
    """What has no room is given to the kernel's TCP, or made again when its client sends again."""
    entries = 16
    options = ("--entries", str(entries)) if bed.front == "bpf" else ()
    work = [one_segment() for _ in range(4 * entries)]
    with front_with(bed, *options), own_server(bed, "late=600") as server:
        seen = carry_out(bed, server, 4, work)
        assert [one for asked, one in zip(work, seen, strict=True) if not is_clean(asked, one)] == []
        bed.wait_for_no_entries()
        if bed.front == "bpf":
            now = bed.statistics()
            assert now["evictions"] + now["promoted"].get("full", 0) > 0
            assert now["entries_peak"] == now["entries_limit"] == entries


def test_no_entry_outlives_its_timeout(bed: FaultyBed) -> None:
    """The server never answers, and the clients vanish."""
    timeout_s = 0.5
    ports = [next(_ports) for _ in range(20)]
    options = ("--timeout-ms", str(int(timeout_s * 1000)))
    with front_with(bed, *options), own_server(bed, "mute") as server:
        bed.bridge.set({port: [("server reset", 1, "drop")] for port in ports})
        gone = [replace(one_segment(), source_port=port, abort=True, limit_s=0.15) for port in ports]
        carry_out(bed, server, 4, gone)
        bed.wait_for_no_entries(timeout_s)
        if bed.front == "bpf":
            assert bed.statistics()["expired"] == 20


def test_the_secret_changes_during_connections(bed: FaultyBed) -> None:
    """A connection is good for one period at least; an older one is reset."""
    options = ("--rotate", str(SECRET_S)) if bed.front == "bpf" else ()
    what = one_segment()
    true = truth(bed, BIND, what)
    pauses = [0.1 * n for n in range(30)]
    with front_with(bed, *options):
        seen = carry_out(bed, BIND, 4, [replace(what, idle_s=pause) for pause in pauses])
        fates = [fate(true, one) for one in seen]
        assert set(fates) <= {"answered", "closed"}, fates
        young = [one for one, pause in zip(fates, pauses, strict=True) if pause < SECRET_S / 2]
        assert set(young) == {"answered"}
        if bed.front == "bpf":
            assert fates[-1] == "closed"
        end = time.monotonic() + 2.5 * SECRET_S
        while time.monotonic() < end:
            assert {fate(true, one) for one in carry_out(bed, BIND, 4, [what] * 4)} == {"answered"}
        bed.wait_for_no_entries()
