"""Tests run in several processes at once; each has a network of its own, so that their ports never meet."""

import os
import signal
import subprocess

import pytest

from cli import linux, programs

# The files with the longest tests: with these at the end a worker would be left alone.
_LONGEST = (
    "site_test.py",
    "site_faults_test.py",
    "search_test.py",
    "series_test.py",
    "zones_build_test.py",
    "zones_round_trip_test.py",
    "roles_test.py",
    "mutate_forms_test.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest begins first."""
    items.sort(key=lambda item: item.path.name not in _LONGEST)


def pytest_configure(config: pytest.Config) -> None:
    """A worker of root's leaves for a network namespace with nothing but a loopback interface.

    Programs written in Python find the project. A shell's background job ignores SIGINT, which the programs
    under test must not inherit.
    """
    os.environ["PYTHONPATH"] = str(programs.ROOT)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput") or os.geteuid() != 0:
        return
    linux.unshare(linux.CLONE_NEWNET, "network namespace")
    subprocess.run([programs.packaged("ip"), "link", "set", "lo", "up"], check=True)
