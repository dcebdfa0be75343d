"""Writes the processors' time counters as the kernel gives them, five times a second, until it is ended,
and says `watching` after the first.

Usage: python -m bench.watch FILE

Each line: CLOCK_MONOTONIC ns, CLOCK_REALTIME ns, then a `cpu` line of /proc/stat. The eighth number after the
name is steal, the time that the hypervisor gave to others, in ticks of 1/100 s.
"""

import sys
import time
from pathlib import Path

_PAUSE_S = 0.2


def lines() -> list[str]:
    stamps = f"{time.monotonic_ns()} {time.time_ns()}"
    with Path("/proc/stat").open(encoding="ascii") as file:
        return [f"{stamps} {line}" for line in file if line.startswith("cpu")]


def main(path: str) -> None:
    with Path(path).open("w", encoding="ascii", buffering=1) as out:
        out.writelines(lines())
        print("watching", flush=True)
        while True:
            time.sleep(_PAUSE_S)
            out.writelines(lines())


if __name__ == "__main__":
    main(sys.argv[1])
