"""What checks came to: numbers, failures and skips with their reasons, and what took how long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from xml.etree import ElementTree

_LINE = 300  # at most of a failure


@dataclass(frozen=True)
class Timed:
    """A single test or check, and its time."""

    seconds: float
    name: str


@dataclass(frozen=True)
class Counts:
    """What a check came to; notes name the skips, failures what failed and why, a line each; remarks say
    what else there is to know.
    """

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    notes: tuple[str, ...] = ()
    times: tuple[Timed, ...] = ()
    remarks: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()

    def __add__(self, other: Counts) -> Counts:
        names = (one.name for one in fields(Counts))
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def text(self) -> str:
        """The form of the last line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def junit(text: str) -> Counts:
    """Counts of a JUnit file, with the reason of every failure and skip and the time of every test."""
    total = Counts()
    for case in ElementTree.fromstring(text).iter("testcase"):
        name, group = case.get("name") or "", case.get("classname") or ""
        name = name if group in ("", name) else f"{group}: {name}"  # the module's for pytest
        times = (Timed(float(case.get("time") or 0), name),)
        output, status = case.findtext("system-out") or "", case.get("status")
        found = [one for kind in ("failure", "error") if (one := case.find(kind)) is not None]
        # GoogleTest: to ctest a program that failed or crashed is skipped when one of its tests is.
        crashed = "[  SKIPPED ]" in output and "[  PASSED  ]" not in output
        if found or status == "fail" or "[  FAILED  ]" in output or crashed:
            said = " ".join((found[0].get("message") or "").split()) if found else ""
            total += Counts(failed=1, times=times, failures=(f"{name}: {said}"[:_LINE].removesuffix(": "),))
        elif (skip := case.find("skipped")) is not None or status in ("notrun", "disabled"):
            reason = (skip.get("message") if skip is not None else None) or "no reason given"
            total += Counts(skipped=1, notes=(f"{case.get('name')}: {' '.join(reason.split())}",))
        else:
            total += Counts(passed=1, times=times)
    return total


def longest(times: Iterable[Timed], most: int = 10) -> list[str]:
    """The lines that say what took longest, longest first; what took no time to speak of is left out."""
    found = sorted(times, key=lambda one: -one.seconds)[:most]
    return [f"{one.seconds:7.1f} s  {one.name}" for one in found if one.seconds >= 0.05]
