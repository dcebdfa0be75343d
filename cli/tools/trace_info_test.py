from __future__ import annotations

from pathlib import Path

import pytest

from cli.errors import UsageError
from cli.tools import trace_info


def test_plots_are_told_from_what_the_mutator_takes() -> None:
    assert trace_info.wanted(["info", "a.pcap", "--plots", "out"])
    assert trace_info.wanted(["info", "a.pcap", "--plots=out"])
    assert not trace_info.wanted(["info", "a.pcap", "--json"])
    wish = trace_info.read_arguments(["a.pcap", "--plots", "out", "--port", "5353"])
    assert wish == trace_info.Wish(Path("out"), ("a.pcap", "--port", "5353"))
    assert trace_info.read_arguments(["--plots=x", "a"]).plots == Path("x")


@pytest.mark.parametrize("arguments", [["a", "--plots"], ["a", "--plots="], ["a", "--plots", "--json"]])
def test_plots_want_a_folder(arguments: list[str]) -> None:
    with pytest.raises(UsageError, match="needs a folder"):
        trace_info.read_arguments(arguments)
