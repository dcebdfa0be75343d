"""Queries over TLS: servers, versions, certificates, resumption and early data, as a capture shows them."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from cli import programs
from cli.plan import network
from cli.process import Process
from report.rqfile import TRANSPORTS
from tests import command, packets
from tests.bed import Bed, MakeBed, synth
from tests.slow import slow
from tests.streams import (
    MARK_EARLY_DATA,
    MARK_OPENED,
    MARK_RESUMED,
    NAME,
    TLS_PORT,
    Capture,
    Certified,
    Flow,
    Play,
    certify,
    few_stalls,
    flows,
    marked,
    misbehave,
    only_headers_fail,
    rounds,
    start_bind,
    start_nsd,
    start_unbound,
)

pytestmark = pytest.mark.netns

TLS = ("--transport", "tls", "--tls-name", NAME)
IN_TURN = "--dependent"  # an answer on a busy machine may take longer than until the source's next query
SOURCES, ROUNDS = 8, 5
ALERT, HANDSHAKE, DATA, CHANGE_CIPHER = 21, 22, 23, 20  # types of records
LARGEST_RECORD = 1_200  # of ours, with what goes before the first query
CLOSE_NOTIFY_SIZE = 19  # TLS 1.3, encrypted: two bytes, the type, the tag
VERSIONS = {"1.2": "0x0303", "1.3": "0x0304"}
STARTS: dict[str, Callable[[Bed, Certified], Process]] = {
    "nsd": start_nsd,
    "bind": start_bind,
    "unbound": start_unbound,
}
ALL_SERVERS = pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("nsd", "1.2"),
        ("nsd", "1.3"),
        ("unbound", "1.3"),
        slow("unbound", "1.2"),
        slow("bind", "1.2"),
        slow("bind", "1.3"),
    ],
)


@pytest.fixture
def certified(tmp_path: Path) -> Certified:
    return certify(tmp_path / "service")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Eight sources, each asking five times in an eighth of a second."""
    return rounds(tmp_path / "trace.pcap", SOURCES, ROUNDS, 0.03)


def trusting(certified: Certified) -> tuple[str, ...]:
    return (*TLS, "--tls-ca", str(certified.authority))


def types(payload: bytes) -> list[int]:
    """Types of the TLS records of a segment, which must be whole. Handshake records in a row count once: with
    the ML-KEM key that OpenSSL 3.5 offers, a ClientHello takes two of ours.
    """
    found: list[int] = []
    while payload:
        if found[-1:] != [HANDSHAKE] or payload[0] != HANDSHAKE:
            found.append(payload[0])
        size = 5 + int.from_bytes(payload[3:5], "big")
        assert len(payload) >= size
        payload = payload[size:]
    return found


def query_types(segment: bytes) -> list[int]:
    """A query's records: one, or two where it is large."""
    return [DATA] * (1 + (len(segment) > LARGEST_RECORD))


def sent_types(flow: Flow) -> list[list[int]]:
    return [types(one.payload) for one in flow.sent()]


# --- servers and versions ---------------------------------------------------------------------------------


def hello(capture: Capture, server: bool, *fields: str) -> Counter[tuple[str, ...]]:
    """What ClientHellos or ServerHellos said, by tshark."""
    rows = capture.tshark(f"tls.handshake.type == {2 if server else 1}", *fields)
    return Counter(tuple(row) for row in rows)


@ALL_SERVERS
def test_servers_are_asked_over_tls(
    make_bed: MakeBed, trace: Path, certified: Certified, kind: str, version: str
) -> None:
    bed = make_bed()
    STARTS[kind](bed, certified)
    capture = Capture(bed)
    play = Play(bed, trace, *trusting(certified), "--tls-version", version, IN_TURN)
    play.answers_all()
    assert play.connections()["opened"] == SOURCES
    assert play.failures() == {}
    assert set(play.records()["transport"].tolist()) == {TRANSPORTS.index("tls")}
    flows = capture.flows(TLS_PORT)
    assert len(flows) == SOURCES
    assert not capture.flows(53)
    said = hello(capture, False, "tls.handshake.extensions_server_name", "tls.handshake.extensions_alpn_str")
    assert said == {(NAME, "dot"): SOURCES}
    spoken = hello(capture, True, "tls.handshake.version", "tls.handshake.extensions.supported_version")
    want = (VERSIONS["1.2"], VERSIONS["1.3"] if version == "1.3" else "")
    assert spoken == {want: SOURCES}
    queries = [[DATA]] * ROUNDS
    for one in flows:
        seen = sent_types(one)
        if version == "1.3":  # the first query travels with the end of the handshake
            assert seen[:2] == [[HANDSHAKE], [CHANGE_CIPHER, DATA, DATA]]
            assert seen[2 : 1 + ROUNDS] == queries[1:]
        else:
            assert seen[:2] == [[HANDSHAKE], [HANDSHAKE, CHANGE_CIPHER, HANDSHAKE]]
            assert seen[2 : 2 + ROUNDS] == queries
        assert one.stalls() == 0


def test_another_port_and_the_highest_version(make_bed: MakeBed, trace: Path, certified: Certified) -> None:
    bed = make_bed()
    start_nsd(bed, certified, tls_port=8853)
    capture = Capture(bed)
    Play(bed, trace, *trusting(certified), "--tls-port", "8853").answers_all()
    assert len(capture.flows(8853)) == SOURCES
    spoken = capture.tshark(
        "tls.handshake.type == 2", "tls.handshake.extensions.supported_version", decode="tcp.port==8853,tls"
    )
    assert spoken == [["0x0304"]] * SOURCES


def test_groups_as_asked(make_bed: MakeBed, trace: Path, certified: Certified) -> None:
    bed = make_bed()
    start_nsd(bed, certified)
    capture = Capture(bed)
    Play(bed, trace, *trusting(certified), "--set", "tls.groups=P-384:X25519").answers_all()
    said = hello(capture, False, "tls.handshake.extensions_supported_group")
    assert said == {("0x0018,0x001d",): SOURCES}


@pytest.mark.parametrize("version", ["1.2", "1.3"])
def test_a_connection_that_is_used_up_is_closed_in_order(
    make_bed: MakeBed, trace: Path, certified: Certified, version: str
) -> None:
    bed = make_bed()
    start_nsd(bed, certified)
    capture = Capture(bed)
    options = ("--tls-version", version, "--queries-per-connection", "1")
    play = Play(bed, trace, *trusting(certified), *options)
    play.answers_all()
    flows = capture.flows(TLS_PORT)
    assert len(flows) == SOURCES * ROUNDS == play.connections()["closed_used_up"]
    for one in flows:
        last = one.sent()[-1].payload  # close_notify
        assert types(last) == [ALERT if version == "1.2" else DATA]
        assert version == "1.2" or len(last) == 5 + CLOSE_NOTIFY_SIZE
        assert one.ended_by() == "client"
    records = play.records()
    assert marked(records, MARK_OPENED) == len(records)
    assert (records["connect_ns"] > 0).all()
    # nothing is resumed unless told to: no ticket (35), no pre-shared key (41)
    assert marked(records, MARK_RESUMED) == play.connections()["resumed"] == 0
    offers = capture.tshark("tls.handshake.type == 1", "tls.handshake.extension.type")
    assert not any({"41", "35"} & set(row[0].split(",")) for row in offers)


# --- certificates -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("expired", "certificate has expired"),
        ("name", "hostname mismatch"),
        ("authority", "unable to get local issuer certificate"),
        ("address", "IP address mismatch"),
    ],
)
def test_a_certificate_that_is_not_to_be_trusted(
    make_bed: MakeBed, tmp_path: Path, trace: Path, fault: str, reason: str
) -> None:
    bad = certify(
        tmp_path / "service",
        "other.example" if fault in ("name", "address") else NAME,
        expired_s=600 if fault == "expired" else 0,
    )
    trusted = certify(tmp_path / "other") if fault == "authority" else bad
    bed = make_bed()
    start_nsd(bed, bad)
    named = TLS if fault != "address" else TLS[:2]
    play = Play(bed, trace, *named, "--tls-ca", str(trusted.authority))
    queries = play.ends()
    assert queries["connection_failed"] == queries["read"] == SOURCES * ROUNDS
    failed = play.connections()["failed"]
    assert play.failures() == {reason: failed}
    assert failed > 0
    warnings = [line for line in play.log().splitlines() if "event=connection_failed" in line]
    assert len(warnings) == 1
    assert reason in warnings[0]


@pytest.mark.parametrize("fault", ["expired", "address"])
def test_a_certificate_that_serves(make_bed: MakeBed, tmp_path: Path, trace: Path, fault: str) -> None:
    """Nothing is checked where told so; without a name the server's address is."""
    served = certify(tmp_path / "service", expired_s=600 if fault == "expired" else 0)
    checks = ("--tls-verify=false",) if fault == "expired" else ("--tls-ca", str(served.authority))
    bed = make_bed()
    start_nsd(bed, served)
    capture = Capture(bed)
    named = TLS if fault != "address" else TLS[:2]
    Play(bed, trace, *named, *checks).answers_all()
    names = {name for (name,) in hello(capture, False, "tls.handshake.extensions_server_name")}
    assert names == ({NAME} if fault != "address" else {""})


def test_a_server_that_speaks_no_tls(make_bed: MakeBed, trace: Path, certified: Certified) -> None:
    bed = make_bed()
    misbehave(bed, "garbage", TLS_PORT)
    play = Play(bed, trace, *trusting(certified), "--timeout-s", "0.5")
    queries = play.ends()
    assert queries["connection_failed"] == queries["read"]
    assert sum(play.failures().values()) > 0


def test_a_server_that_never_shakes_hands(make_bed: MakeBed, trace: Path, certified: Certified) -> None:
    bed = make_bed()
    misbehave(bed, "deaf", TLS_PORT)
    play = Play(bed, trace, *trusting(certified), "--timeout-s", "0.5")
    queries = play.ends()
    assert queries["connection_failed"] == queries["read"]
    assert play.failures() == {"TLS handshake timed out": SOURCES}


# --- resumption -------------------------------------------------------------------------------------------


@ALL_SERVERS
def test_a_source_resumes_its_session(
    make_bed: MakeBed, trace: Path, certified: Certified, kind: str, version: str
) -> None:
    bed = make_bed()
    STARTS[kind](bed, certified)
    capture = Capture(bed)
    options = ("--tls-version", version, "--queries-per-connection", "1", "--tls-resume")
    play = Play(bed, trace, *trusting(certified), *options, IN_TURN)
    play.answers_all()
    resumed = SOURCES * (ROUNDS - 1)
    flows = capture.flows(TLS_PORT)
    assert len(flows) == play.connections()["opened"] == SOURCES * ROUNDS
    assert play.connections()["resumed"] == marked(play.records(), MARK_RESUMED) == resumed
    if version == "1.3":  # the server chose a pre-shared key
        said = capture.tshark("tls.handshake.type == 2", "tls.handshake.extension.type")
        assert sum("41" in row[0].split(",") for row in said) == resumed
    else:  # and sent no certificate
        assert len(capture.tshark("tls.handshake.type == 11", "frame.number")) == SOURCES
        short = [one for one in flows if sent_types(one)[1:2] == [[CHANGE_CIPHER, HANDSHAKE, DATA]]]
        assert len(short) == resumed


# --- early data -------------------------------------------------------------------------------------------


def early_server(bed: Bed, certified: Certified, behavior: str) -> Process:
    endpoint = f"{network.SERVICE_V4}:{TLS_PORT}"
    argument = f"{behavior},{certified.certificate},{certified.key}"
    return bed.start_dns_server(network.SERVER, endpoint, f"early-data={argument}")


@pytest.mark.parametrize("accepted", [True, False])
def test_queries_as_early_data(make_bed: MakeBed, trace: Path, certified: Certified, accepted: bool) -> None:
    bed = make_bed()
    server = early_server(bed, certified, "accept" if accepted else "reject")
    capture = Capture(bed)
    options = ("--queries-per-connection", "1", "--tls-resume", "--tls-early-data")
    play = Play(bed, trace, *trusting(certified), *options, IN_TURN)
    play.answers_all()
    early = SOURCES * (ROUNDS - 1)
    connections, records = play.connections(), play.records()
    assert connections["resumed"] == early
    assert connections["early_data"] == (early if accepted else 0)
    assert connections["early_data_rejected"] == (0 if accepted else early)
    assert marked(records, MARK_EARLY_DATA) == (early if accepted else 0)
    said = Counter(line for line in server.text().splitlines() if line.startswith("connection"))
    first, later = "connection early=0", f"connection early={int(accepted)}"
    assert said == Counter({first: SOURCES}) + Counter({later: early})
    # tshark: the client's hello offers it (42), and so do the server's encrypted words
    offers = capture.tshark("tls.handshake.type == 1", "tls.handshake.extension.type")
    assert sum("42" in row[0].split(",") for row in offers) == early
    flight = [
        one for one in capture.flows(TLS_PORT) if sent_types(one)[0] == [HANDSHAKE, CHANGE_CIPHER, DATA]
    ]
    assert len(flight) == early  # the query is in the client's first segment


@pytest.mark.slow
def test_early_data_needs_a_server_that_offers_it(
    make_bed: MakeBed, trace: Path, certified: Certified
) -> None:
    bed = make_bed()
    start_nsd(bed, certified)
    options = ("--queries-per-connection", "1", "--tls-resume", "--tls-early-data")
    play = Play(bed, trace, *trusting(certified), *options, IN_TURN)
    play.answers_all()
    connections = play.connections()
    assert connections["resumed"] == SOURCES * (ROUNDS - 1)
    assert connections["early_data"] == connections["early_data_rejected"] == 0


# --- alerts -----------------------------------------------------------------------------------------------


def test_an_alert_in_the_middle_costs_one_retry(make_bed: MakeBed, trace: Path, certified: Certified) -> None:
    """A proxy spoils the second query of each connection; the server ends it with an alert."""
    bed = make_bed()
    start_nsd(bed, certified, tls_port=8853)
    misbehave(bed, "flip=8853", TLS_PORT)
    play = Play(bed, trace, *trusting(certified), IN_TURN)
    queries = play.ends()
    assert queries["answered"] == queries["read"] == SOURCES * ROUNDS
    # the first query of a connection passes, the second is spoilt and becomes the next one's first
    spoilt = SOURCES * (ROUNDS - 1)
    assert queries["retried"] == spoilt
    (reason, count) = next(iter(play.failures().items()))
    assert "bad record mac" in reason
    assert count == spoilt
    assert set(play.records()["retries"].tolist()) == {0, 1}


# --- source modes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mode",
    ["mapped", *(slow(mode) for mode in ("addresses", "packet"))],
)
def test_source_modes(make_bed: MakeBed, tmp_path: Path, certified: Certified, mode: str) -> None:
    bed = make_bed(mode)
    start_nsd(bed, certified)
    capture = Capture(bed)
    options = ("--rate", "200", "--duration", "0.5", "--clients", "20", "--ipv6-share", "0.3", "--seed", "3")
    trace = synth(tmp_path / "t.pcap", *options)
    words = tuple(word for prefix in network.source_prefixes(1, 1) for word in ("--source-prefix", prefix))
    settings = ("--source-mode", mode)
    play = Play(bed, trace, *trusting(certified), *settings, distributor=words if mode == "mapped" else ())
    play.answers_all()
    flows = capture.flows(TLS_PORT)
    assert len(flows) == play.connections()["opened"]
    addresses = len({one.client[0] for one in flows})
    assert addresses > 10


# --- through the command ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["nsd", "bind"])
def test_a_run_over_tls(tmp_path: Path, kind: str) -> None:
    """The plan makes the server's certificate, and the querier checks it."""
    words = ["run", str(programs.ROOT / "experiments/quickstart.toml")]
    settings = ("replay.transport=tls", f"server.kind={kind}", "sample.capture=true", "synth.duration=1")
    for one in (*settings, "replay.queries_per_connection=2", "tls.resume=true", "synth.clients=50"):
        words += ["--set", one]
    done = command.run(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder,) = (tmp_path / "results").iterdir()
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    connections = summary["connections"]
    assert summary["queries"]["answered"] == summary["queries"]["read"]
    assert connections["opened"] > 50
    assert connections["failures"] == {}
    assert 0 < connections["resumed"] < connections["opened"]
    found = flows(packets.read(folder / "capture.pcap"), TLS_PORT)
    assert len(found) == connections["opened"]
    assert all(len(one.sent()) >= 2 for one in found)
    assert summary["leaked_packets"] == 0


# --- a real trace -----------------------------------------------------------------------------------------


@pytest.mark.data
@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--queries-per-connection", "1")])
def test_the_real_minute_over_tls(
    make_bed: MakeBed, real: tuple[Path, Path], certified: Certified, options: tuple[str, ...]
) -> None:
    trace, zone = real
    bed = make_bed()
    start_nsd(bed, certified, zone=str(zone))
    capture = Capture(bed)
    play = Play(bed, trace, *trusting(certified), *options)
    only_headers_fail(play)
    found = capture.flows(TLS_PORT)
    assert len(found) == play.connections()["opened"]
    for one in found:
        first, flight, *later = one.sent()
        assert types(first.payload) == [HANDSHAKE]
        assert types(flight.payload) == [CHANGE_CIPHER, DATA, *query_types(flight.payload)]
        assert all(types(each.payload) == query_types(each.payload) for each in later)
    assert few_stalls(found)
