"""What programs say of themselves is what Python knows of them."""

from cli.experiment import document
from report.counters import COUNTERS


def test_settings_and_counters_are_those_of_the_programs() -> None:
    told = document.described()
    assert told["counters"] == COUNTERS, "python -m cli.experiment.document"
    assert document.SETTINGS.read_text(encoding="utf-8") == document.settings_module(told["settings"])
