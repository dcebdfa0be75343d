from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from report.events import Event, stalls, summarize_stalls
from report.run import Json, Run
from report.tally import Rate, Tally
from report.tests.writers import write_run
from report.timing import steady

MS = 1_000_000


def stall(at_s: float, seconds: float, sent: int) -> Json:
    return {"at_s": at_s, "seconds": seconds, "sent": sent}


def rate(*times: NDArray[np.int64]) -> Rate:
    made = Rate()
    for one in times:
        made.add(one)
    return made


def every_ms(begin: int, end: int) -> NDArray[np.int64]:
    return np.arange(begin, end, dtype=np.int64) * MS


def test_a_time_without_answers_while_queries_are_sent_is_a_stall() -> None:
    sent = rate(every_ms(0, 60_000))
    answered = rate(every_ms(20, 50_000), every_ms(50_200, 60_000))
    assert stalls(sent, answered) == [stall(50.0, 0.2, 200)]


def test_where_nothing_is_sent_no_answer_is_missed() -> None:
    both = [rate(every_ms(0, 100), every_ms(400, 500)) for _ in range(2)]
    assert stalls(*both) == []


def test_neither_the_first_wait_nor_a_short_one_is_a_stall() -> None:
    answered = rate(every_ms(200, 500), every_ms(540, 1_000))
    assert stalls(rate(every_ms(0, 1_000)), answered) == []
    assert stalls(rate(every_ms(0, 1_000)), Rate()) == []


def test_a_server_that_answers_no_more_stalls_to_the_last_query() -> None:
    assert stalls(rate(every_ms(0, 1_000)), rate(every_ms(0, 500))) == [stall(0.5, 0.5, 500)]


def test_events_of_about_that_time_are_told_with_a_stall() -> None:
    happened = [Event(4.5, "server", "reloading"), Event(20.0, "server", "read")]
    told = summarize_stalls([stall(5.0, 0.3, 70), stall(9.0, 0.1, 12)], happened)
    assert (told["count"], told["longest_s"], told["total_s"]) == (2, 0.3, 0.4)
    assert [one["events"] for one in told["spans"]] == [["server: reloading"], []]


def test_of_many_the_longest_are_told_in_the_order_of_time() -> None:
    told = summarize_stalls([stall(float(at), 0.9 if at == 120 else 0.1, 10) for at in range(150)], [])
    assert told["longest_s"] == max(one["seconds"] for one in told["spans"]) == 0.9
    assert [one["at_s"] for one in told["spans"]] == [*range(99), 120]


def test_a_damaged_time_is_no_long_replay(tmp_path: Path) -> None:
    """What is looked at for steadiness ends with the last known moment, and takes no memory beyond."""
    tally = Tally(span_ns=2**60)
    tally.due.add(every_ms(0, 20_000))
    tally.sends.add(every_ms(0, 20_000))
    found = steady(Run(write_run(tmp_path / "run", [])), tally, 0)
    assert found == {"sent": {"change": 0.0, "steady": True}}


def test_times_apart_are_counted_each() -> None:
    sparse = rate(np.array([0, 5, 7_000_000, 50_000, 41 * 10**9 + 1, 90_000 * 10**9], np.int64))
    steps, counts = sparse.steps()
    assert (steps.tolist(), counts.tolist()) == ([0, 4_100, 9_000_000], [4, 1, 1])
