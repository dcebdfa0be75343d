"""The replay tree with real programs between real hosts, and its faults: nothing is lost from the count.

What only needs time and messages is played in tests/scenario/tree.
"""

from pathlib import Path

import numpy as np
import pytest

from cli.plan import certificates, network
from tests.bed import PORT, Bed, accounted, synth, wait_for
from tests.small_disk import fill, thin_disk

pytestmark = pytest.mark.netns

QUICKLY = ("--speed", "4")  # where nothing happens on the way


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """4 s of 500 q/s from 300 clients, some by TCP and IPv6."""
    options = ("--rate", "500", "--duration", "4", "--clients", "300", "--tcp-share", "0.1", "--seed", "7")
    return synth(tmp_path_factory.mktemp("trace") / "short.pcap", *options)


def test_one_host_answers_everything(bed: Bed, trace: Path) -> None:
    bed.start_server()
    distributor = bed.start_distributor(1)
    controller = bed.start_controller(trace, extra=QUICKLY)
    assert controller.wait() == 0, controller.text()
    assert distributor.wait() == 0, distributor.text()
    queries = bed.account()["queries"]
    assert queries["answered"] == queries["read"] == queries["handed"] > 1500
    records = np.concatenate([np.asarray(file.records["seq"]) for file in bed.records()])
    assert sorted(records.tolist()) == list(range(queries["read"]))
    check_refused(bed, trace)


def check_refused(bed: Bed, trace: Path) -> None:
    """A folder with results takes no other run's."""
    before = {path.name: path.read_bytes() for path in bed.results.iterdir()}
    again = bed.start_controller(trace)
    assert again.wait() == 2
    assert "holds the results of a run; give --results another folder" in again.text()
    assert {path.name: path.read_bytes() for path in bed.results.iterdir()} == before


def test_a_source_stays_with_one_querier_and_hosts_share_the_load(bed: Bed, trace: Path) -> None:
    bed.start_server()
    bed.start_distributor(1)
    bed.start_distributor(2)
    controller = bed.start_controller(trace, clients=(1, 2), extra=QUICKLY)
    assert controller.wait() == 0, controller.text()
    account = bed.account()
    assert accounted(account["queries"]) == account["queries"]["read"] == account["queries"]["answered"]
    assert all(child["assigned"] > 0 and child["same_clock"] for child in account["children"])
    assert account["imbalance"] < 1.3
    sources = [set(np.asarray(file.records["source"]).tolist()) for file in bed.records()]
    assert len(sources) == 4
    assert sum(len(one) for one in sources) == len(set().union(*sources))


def test_a_distributor_feeds_another(bed: Bed, trace: Path) -> None:
    """Depth three: the controller's one child has a querier of its own and feeds a second distributor."""
    bed.start_server()
    host = network.client(1)
    bed.ip(host, "addr", "add", f"{network.control_address(2)}/32", "dev", "lo")
    bed.start_distributor(2, queriers=1, host=host)
    top = bed.start_distributor(1, queriers=1, feeds=(f"client2={network.control_address(2)}:{PORT}",))
    controller = bed.start_controller(trace, extra=QUICKLY)
    assert controller.wait() == 0, controller.text() + top.text()
    account = bed.account()
    assert account["queries"]["answered"] == account["queries"]["read"]
    hosts = {report["host"] for report in account["children"][0]["reports"]}
    assert hosts == {"client1", "client2"}
    assert account["children"][0]["queriers"] == 2


def test_strangers_are_refused(bed: Bed, trace: Path) -> None:
    distributor = bed.start_distributor(1)
    certificates.write(bed.folder / "other", {"client1": network.control_address(1)})
    stranger = bed.start_controller(trace, tls=bed.folder / "other")
    assert stranger.wait() == 1
    assert "client1" in stranger.text()
    assert not distributor.has_ended(), "it keeps listening for its own controller"
    wait_for(lambda: "event=refused" in distributor.text(), "refused")


def test_no_distributor_is_a_clear_error(bed: Bed, trace: Path) -> None:
    controller = bed.start_controller(trace)
    assert controller.wait() == 1
    last = controller.text().strip().splitlines()[-1]
    assert "client1" in last
    assert "is the distributor started" in last


def test_a_lower_distributor_that_is_not_there_is_a_clear_error(bed: Bed) -> None:
    upper = bed.start_distributor(1, queriers=0, feeds=(f"lower={network.control_address(1)}:{PORT + 1}",))
    assert upper.wait() == 1
    last = upper.text().strip().splitlines()[-1]
    assert last == "reprise-querier: error: lower was lost before the start: Connection refused"


def test_a_port_in_use_is_a_clear_error(bed: Bed) -> None:
    bed.start_distributor(1)
    second = bed.start_distributor(1, results=bed.folder)
    assert second.wait() == 1
    assert "is the port in use" in second.text()


def test_a_disk_that_fails_at_the_end_makes_the_run_unclean(bed: Bed, trace: Path) -> None:
    """The disk has taken every record and loses them when they are synchronized."""
    with thin_disk(bed.folder / "thin") as (thin, below):
        bed.start_server()
        distributor = bed.start_distributor(1, queriers=1, results=thin)
        fill(below)
        controller = bed.start_controller(trace, extra=QUICKLY)
        assert controller.wait() == 1
        assert distributor.wait() == 1
        assert f"results: write {thin}/queries-client1-0.rq: " in controller.text()
        queries = bed.account()["queries"]
        assert queries["answered"] == queries["read"]
        assert not bed.account()["clean"]
