"""The one error this package raises for bad input; printed as a single line, never as a traceback."""


class ReportError(Exception):
    """`what` is wrong and `mend` is what the operator can do about it."""

    def __init__(self, what: str, mend: str) -> None:
        super().__init__(f"{what}; {mend}")
        self.what = what
        self.mend = mend
