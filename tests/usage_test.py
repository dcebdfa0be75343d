"""Names that are no text, and ctrl-C before a command has begun; refusals_test.py has the rest."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cli import programs
from tests import command

QUICK = str(programs.ROOT / "experiments/quickstart.toml")


# --- names that are not UTF-8 ------------------------------------------------------------------------------


def test_names_that_are_no_text_are_refused_in_one_line(tmp_path: Path) -> None:
    name = os.fsdecode(b"n\xff")
    for line in ("run", "report", "compare", "trace info", f"run {QUICK} --set trace="):
        *words, last = line.split()
        words += [f"{last}{name}"] if last.endswith("=") else [last, name]
        done = command.run(*words, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), done.stderr
        assert "error: " in done.stderr and not list(tmp_path.iterdir())


# --- ctrl-C -----------------------------------------------------------------------------------------------

_INTERRUPTED = "reprise: error: interrupted; run it again\n"


@pytest.mark.parametrize("module", ["cli.bootstrap", "cli"])
def test_ctrl_c_before_python_is_ready_is_told_in_one_line(tmp_path: Path, module: str) -> None:
    """It comes before the interpreter starts, and waits for whoever can answer it."""
    line = f'kill -INT $$; exec "{sys.executable}" -P -m {module} doctor'
    done = subprocess.run(
        ["env", "--block-signal=INT", "sh", "-c", line],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(programs.ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr, done.stdout) == (1, _INTERRUPTED, "")


@pytest.mark.parametrize("delay_ms", [0, 30, 60, 100, 150, 200, 300])
def test_ctrl_c_at_any_moment_of_the_start(tmp_path: Path, delay_ms: int) -> None:
    """Wherever it strikes, the shell, the interpreter or an import: no traceback."""
    with subprocess.Popen(
        [str(programs.ROOT / "reprise"), "run", QUICK, "-o", "results"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            started.wait(delay_ms / 1000)
        except subprocess.TimeoutExpired:
            started.send_signal(signal.SIGINT)
        stdout, stderr = started.communicate(timeout=60)
    assert "Traceback" not in stderr
    assert "KeyboardInterrupt" not in stderr
    assert started.returncode in (1, -signal.SIGINT), stderr + stdout
