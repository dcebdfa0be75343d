from __future__ import annotations

from pathlib import Path

import pytest

from cli.errors import UsageError
from cli.tools import trace_info


def test_plots_are_told_from_what_the_mutator_takes() -> None:
    assert trace_info.wanted(["info", "a.pcap", "--plots", "out"])
    assert trace_info.wanted(["info", "a.pcap", "--plots=out"])
    assert not trace_info.wanted(["info", "a.pcap", "--json"])
    found = trace_info.read_arguments(["a.pcap", "--plots", "out", "--port", "5353", "--json", "-"])
    assert found == (Path("out"), False, ["a.pcap", "--port", "5353", "--json", "-"])
    assert trace_info.read_arguments(["--plots=x", "--pdf", "a"]) == (Path("x"), True, ["a"])
    assert trace_info.read_arguments(["--plots=x", "a"])[0] == Path("x")


def test_plots_want_a_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="needs a folder"):
        trace_info.read_arguments(["a", "--plots="])
    for words in (["a", "--plots"], ["a", "--plots", "--json"]):
        with pytest.raises(SystemExit) as ended:
            trace_info.read_arguments(words)
        assert ended.value.code == 2
        assert "argument --plots: expected one argument; see reprise trace info" in capsys.readouterr().err
