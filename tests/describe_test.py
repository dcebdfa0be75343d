"""What programs say of themselves is what Python knows of them."""

import re

from cli import programs
from cli.experiment import document
from report.rqfile import COUNTERS
from report.transports import TRANSPORTS


def test_settings_and_counters_are_those_of_the_programs() -> None:
    told = document.described()
    assert told["counters"] == COUNTERS, "python -m cli.experiment.document"
    assert document.SETTINGS.read_text(encoding="utf-8") == document.settings_module(told["settings"])


def test_transports_are_those_of_the_programs_in_the_order_of_their_values() -> None:
    played = document.described()["settings"]["replay"]["transport"]["words"].split(", ")
    assert played == ["trace", *(one.name for one in TRANSPORTS.values() if one.played)]
    text = (programs.ROOT / "core/wire/query.hh").read_text(encoding="utf-8")
    names = text.partition("kNames{")[2].partition("}")[0]
    assert re.findall(r'"([a-z-]+)"', names) == list(TRANSPORTS)
