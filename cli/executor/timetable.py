"""Faults of a plan, carried out at their times of the replay."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cli.errors import RepriseError
from cli.plan.planned import Fault, HostStep

_LOOK_S = 0.02


@dataclass
class Happened:
    """The plan's fault of this number, from 1: it began `at_s` seconds after the start of the replay and
    lasted for `seconds`.
    """

    number: int
    at_s: float
    seconds: float
    text: str


class Timetable:
    """The faults of a run; those that last when it ends are ended with it."""

    def __init__(
        self,
        faults: Sequence[Fault],
        carry_out: Callable[[Sequence[HostStep]], None],
        clock: Callable[[], float],
    ) -> None:
        begins = [(one.at_s, False, number) for number, one in enumerate(faults)]
        self._left = sorted([*begins, *((at + faults[one].for_s, True, one) for at, _, one in begins)])
        self._faults = faults
        self._carry_out = carry_out
        self._clock = clock
        self.start = math.inf  # when the replay starts, by the clock
        self._lasting: dict[int, Happened] = {}
        self.happened: list[Happened] = []

    def due_s(self) -> float:
        """Seconds until something is to be done, or to be looked for: the start is told in advance."""
        if not self._left:
            return math.inf
        left = self.start + self._left[0][0] - self._clock()
        return max(0.0, left) if math.isfinite(left) else _LOOK_S

    def go_on(self) -> None:
        """Begins and ends the faults whose time has come."""
        while self._left and self.due_s() == 0:
            _, is_end, number = self._left.pop(0)
            if is_end:
                self._end(number)
                continue
            fault = self._faults[number]
            told = Happened(number + 1, round(self._clock() - self.start, 3), fault.for_s, fault.text)
            self._lasting[number] = told
            self.happened.append(told)
            self._carry_out(fault.begin)

    def _end(self, number: int) -> None:
        self._carry_out(self._faults[number].end)
        told = self._lasting.pop(number)
        if self._faults[number].end:
            told.seconds = round(self._clock() - self.start - told.at_s, 3)

    def end(self) -> list[str]:
        """The run ends, in any way. Returns the faults that it had no time for."""
        for number, told in list(self._lasting.items()):
            with contextlib.suppress(RepriseError):  # a process may have ended
                self._end(number)
            told.seconds = min(told.seconds, round(self._clock() - self.start - told.at_s, 3))
        missed = [self._faults[number].text for _, is_end, number in self._left if not is_end]
        self._left = []
        return missed
