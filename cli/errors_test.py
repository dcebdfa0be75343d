"""Messages hold text from hosts and servers, and never send commands to a terminal."""

import io

import pytest

from cli.errors import RepriseError, complain, one_line
from cli.executor import run
from cli.progress import Progress

EVIL = "\x1b]0;owned\x07\x9b2J\u202e"
SHOWN = r"\x1b]0;owned\x07\x9b2J\u202e"


def test_what_others_said_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    assert one_line(f"a\n{EVIL}") == f"a {SHOWN}"
    assert RepriseError(EVIL, EVIL).line() == f"reprise: error: {SHOWN}; {SHOWN}"
    complain(f"reprise: {EVIL}\nnext")
    assert capsys.readouterr().err == f"reprise: {SHOWN}\nnext\n"


def test_progress_and_table_are_escaped() -> None:
    stream = io.StringIO()
    progress = Progress(stream)
    progress.phase(EVIL)
    progress.show(EVIL)
    progress.end(EVIL)
    assert stream.getvalue() == f"reprise: {SHOWN}\n" * 3
    assert SHOWN in run.table({"rcode": {EVIL: 1}})
