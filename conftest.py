"""Tests run in several processes at once; each has a network of its own, so that their ports never meet."""

import itertools
import os
import signal
import subprocess

import pytest

from cli import linux, programs

# The files that take longest: with one of these at the end a worker would be left alone.
_LONGEST = (
    "site_test.py",
    "hierarchy_test.py",
    "mutate_forms_test.py",
    "bench_test.py",
    "stateless_experiment_test.py",
    "stateless_faults_test.py",
    "site_faults_test.py",
    "stateless_reference_test.py",
    "fault_matrix_test.py",
    "timetable_test.py",
    "run_test.py",
    "zones_build_test.py",
    "search_test.py",
    "faults_test.py",
    "ordinary_user_test.py",
    "servers_test.py",
    "zones_round_trip_test.py",
    "roles_test.py",
)


@pytest.hookimpl(trylast=True)  # behind what -m and -k leave out
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes longest begins first, a file with each worker: each gets an equal part of the list, and who
    has done his takes from the end of another's.
    """
    count = getattr(config, "workerinput", {}).get("workercount", 1)
    parts: list[list[pytest.Item]] = [[] for _ in range(count)]
    others: list[pytest.Item] = []
    for item in items:
        name = item.path.name
        (parts[_LONGEST.index(name) % count] if name in _LONGEST else others).append(item)
    left, rest = len(items), iter(others)
    for number, part in enumerate(parts):
        size = left // (count - number)
        part.extend(itertools.islice(rest, max(0, size - len(part))))
        left -= size
    items[:] = [*itertools.chain.from_iterable(parts), *rest]


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
