"""What recompute.py and recompute_stream.py share: the kernel's readings turned into seconds, and checks."""

import bisect
import decimal
import json
import pathlib
import re
from typing import Any

TICK_S = 0.01  # of /proc/stat and /proc/PID/stat
NS = 10**9

Run = dict[str, Any]
Table = dict[tuple[str, str, str], list[float]]


def check(name: str, value: float, want: float, least: bool) -> dict[str, Any]:
    """`least`: the value must not be lower than wanted; otherwise not higher."""
    value = round(value, 6)
    good = value >= want if least else value <= want
    words = "at least" if least else "at most"
    return {"name": f"{name}, {words}", "value": value, "want": want, "ok": good}


def touched(spans: list[tuple[int, int]], begin: int, end: int) -> bool:
    """Whether some steal lies between the two moments; spans are in order and apart."""
    after = bisect.bisect_left(spans, (begin, begin))
    near = spans[max(0, after - 1) : after + 1]
    return any(first < end and last > begin for first, last in near)


def nanoseconds(text: str) -> int:
    """Of seconds with a decimal point; exact."""
    return int(decimal.Decimal(text) * NS)


def quantile(ordered: list[int], share: float) -> float:
    """The smallest value that at least `share` of the sample does not exceed."""
    index = -(-int(len(ordered) * share * 10**6) // 10**6) - 1
    return float(ordered[max(0, min(index, len(ordered) - 1))])


# --- processor time ---------------------------------------------------------------------------------------


def readings(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The raw readings of one run."""
    return [json.loads(line) for line in (folder / "readings.jsonl").read_text().splitlines()]


def one(rows: list[dict[str, Any]], **want: str) -> dict[str, Any]:
    """The only reading of that kind."""
    (found,) = [row for row in rows if all(row[key] == value for key, value in want.items())]
    return found


def used_with_children(rows: list[dict[str, Any]], who: str) -> float:
    """Seconds of a process with all its threads and the children it waited for."""
    row = one(rows, who=who, kind="rusage")
    return float(row["user_s"] + row["system_s"])


def used_alone(rows: list[dict[str, Any]], who: str) -> float:
    """Seconds of a process without its children.

    schedstat is exact but of the first thread only: where the ticks of the whole process tell of more, they
    are taken.
    """
    exact = int(one(rows, who=who, kind="schedstat", when="end")["text"].split()[0]) / NS
    fields = one(rows, who=who, kind="stat", when="end")["text"].rpartition(")")[2].split()
    ticks = (int(fields[11]) + int(fields[12])) * TICK_S
    return exact if abs(exact - ticks) < 5 * TICK_S else ticks


def softirq(rows: list[dict[str, Any]], side: str) -> float:
    """Seconds of the side's NAPI thread during the run."""
    both = [one(rows, who=f"napi-{side}", kind="schedstat", when=when) for when in ("before", "after")]
    if both[0]["pid"] != both[1]["pid"]:
        raise SystemExit(f"napi-{side}: another thread at the end; its time is not known")
    before, after = (int(row["text"].split()[0]) for row in both)
    if before == after:
        raise SystemExit(f"napi-{side} did nothing: somebody else was charged for what came in")
    return (after - before) / NS


def interface_gain(rows: list[dict[str, Any]], side: str, counter: str) -> int:
    """How much a counter of the side's interface rose during the run."""
    before, after = (one(rows, who=side, kind="interface", when=when) for when in ("before", "after"))
    return int(after["values"][counter]) - int(before["values"][counter])


def answered(folder: pathlib.Path, tool: str, sink: dict[str, int]) -> tuple[int, int]:
    """Queries sent and answered, as the tool counts them; kxdpgun does not receive."""
    if tool == "dnsperf":
        text = (folder / "dnsperf.out").read_text()
        sent, done = (int(found) for found in re.findall(r"Queries (?:sent|completed): +(\d+)", text))
        return sent, done
    if tool == "kxdpgun":
        return sink["queries4"], sink["queries4"]
    queries = json.loads((folder / "controller.json").read_text())["queries"]
    return queries["handed"], queries["answered"]
