"""What programs say of themselves is what Python knows of them."""

import json
import subprocess

from cli import programs
from report.counters import COUNTERS


def test_counters_are_those_of_the_programs() -> None:
    told = subprocess.run(
        [programs.own("reprise-controller"), "--describe"], check=True, capture_output=True, text=True
    )
    assert json.loads(told.stdout) == COUNTERS, "reprise-controller --describe > report/counters.json"
