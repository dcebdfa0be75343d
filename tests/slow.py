"""Values of a test's parameter that only the long suite tries: in the quick one another shows the same."""

from typing import Any

import pytest


def slow(*values: Any) -> Any:
    """Of one set of parameters."""
    return pytest.param(*values, marks=pytest.mark.slow)
