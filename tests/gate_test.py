"""Two builds of a real server, one of which spends a fifth more processor time on each answer: a check of
their runs fails the build, and of the same build twice it does not.
"""

import csv
import json
import statistics
import subprocess
from pathlib import Path

import pytest

from cli import programs
from tests.command import run

pytestmark = [pytest.mark.netns, pytest.mark.slow]

# A library before the server's own: each answer costs NANOSECONDS more.
_SLOWER = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/socket.h>
#include <time.h>
#ifndef NANOSECONDS
#define NANOSECONDS 0
#endif
static void spend(void) {
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000000L + now.tv_nsec - begin.tv_nsec < NANOSECONDS);
}
ssize_t sendto(
    int fd, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    static ssize_t (*next)(int, const void *, size_t, int, const struct sockaddr *, socklen_t);
    if (!next) next = dlsym(RTLD_NEXT, "sendto");
    if (NANOSECONDS) spend();
    return next(fd, data, size, flags, to, length);
}
"""
SETTINGS = (
    "synth.rate=4000", "synth.duration=4", "synth.tcp_share=0", "replay.late_ms=1000", "repeat.n=9",
    "topology.queriers=1",
)  # fmt: skip


def build(folder: Path, name: str, nanoseconds: int) -> Path:
    """A server that is started by this name."""
    source, library, script = folder / f"{name}.c", folder / f"{name}.so", folder / name
    source.write_text(_SLOWER, encoding="ascii")
    argv = ["cc", "-shared", "-fPIC", f"-DNANOSECONDS={nanoseconds}", "-O1", "-o", str(library), str(source)]
    subprocess.run(argv, check=True)
    script.write_text(
        f'#!/bin/sh\nLD_PRELOAD={library} exec {programs.packaged("nsd")} "$@"\n', encoding="ascii"
    )
    for path in (library, script):
        path.chmod(0o755)
    return script


def measure(folder: Path, name: str, *binaries: Path) -> Path:
    """A series, in which the builds take turns."""
    swept = json.dumps([str(one) for one in binaries])
    words = [word for one in (*SETTINGS, f"sweep.server.binary={swept}") for word in ("--set", one)]
    done = run("run", "quickstart", *words, "-o", name, cwd=folder, limit_s=600)
    assert done.returncode == 0, done.stderr
    (series,) = (folder / name).iterdir()
    return series


def cost(series: Path) -> float:
    """Of a query, in microseconds of the server's processor time: the median of the runs."""
    with (series / "series.csv").open(encoding="utf-8") as file:
        return statistics.median(float(row["cpu_us_per_query.server"]) for row in csv.DictReader(file))


def test_a_build_that_costs_a_fifth_more_fails_and_the_same_build_does_not(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    builds = {name: build(tmp_path, name, 0) for name in ("before", "again")}
    extra = round(cost(measure(tmp_path, "first", builds["before"])) * 0.16 * 1000)
    builds["after"] = build(tmp_path, "after", extra)  # reading the clock costs the rest of a fifth
    series = measure(tmp_path, "all", *builds.values())
    limit = ["--expect", "cpu_us_per_query.server <= 110 % of baseline", "--busy", "--junit", "verdict.xml"]
    done = run("check", str(series), *limit, cwd=tmp_path)
    again, after = done.stdout.splitlines()
    assert again.startswith("binary again: met: ") and after.startswith("binary after: missed: "), done.stdout
    assert done.returncode == 1
    verdicts = (tmp_path / "verdict.xml").read_text(encoding="utf-8")
    assert verdicts.count("<failure") == 1 and 'failures="1"' in verdicts
