"""The tables for people."""

import pytest

from bench import table

RESULT = {
    "bench": "udp",
    "steal_s": 0.25,
    "seconds": 60,
    "seconds_with_steal": 3,
    "table": [
        {"row": "few", "tool": "dnsperf", "unit": "s/M", "values": [3.0, 2.5, 2.75]},
        {"row": "few", "tool": "reprise", "unit": "s/M", "values": []},
    ],
    "ratios": [{"row": "few", "tool": "dnsperf / reprise", "unit": "times", "values": [1.5, 1.25]}],
    "checks": [
        {"name": "cost, at most", "value": 0.61, "want": 0.6, "ok": False, "absolute": 1.7, "unit": "s/M"},
        {"name": "sources, at least", "value": 100000, "want": 100000, "ok": True},
    ],
}

TEXT = """\
udp: 0.25 s of steal in 60 s, 3 seconds with steal

row  tool               unit     min  median    max  n
few  dnsperf            s/M    2.500   2.750      3  3
few  reprise            s/M        -       -      -  0
few  dnsperf / reprise  times  1.250   1.375  1.500  2

check               value    want          absolute
cost, at most       0.610   0.600  SHORT  1.700 s/M
sources, at least  100000  100000     ok
"""


def test_the_head_says_what_the_figures_hold_for() -> None:
    text = table.render({**RESULT, "note": "server's key rsa-2048"})
    assert text.startswith("udp (server's key rsa-2048): 0.25 s of steal in 60 s")


def test_every_row_has_minimum_median_and_maximum() -> None:
    assert table.render(RESULT) == TEXT


def test_without_rows_there_is_no_head() -> None:
    assert table.render({**RESULT, "table": [], "ratios": [], "checks": []}).splitlines() == [
        "udp: 0.25 s of steal in 60 s, 3 seconds with steal"
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.000"),
        (5.0, "5"),
        (1.23456, "1.235"),
        (123.456, "123.5"),
        (-2.5, "-2.500"),
        (100000.0, "100000"),
    ],
)
def test_numbers_have_as_many_digits_as_they_are_good_for(value: float, text: str) -> None:
    assert table.number(value) == text
