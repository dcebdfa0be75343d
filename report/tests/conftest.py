"""Fixtures of the report's tests."""

import pytest
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from tests.command import save_blank


@pytest.fixture
def unrendered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots are painted and not rendered, for tests of what is around them."""
    monkeypatch.setattr(Figure, "savefig", save_blank)
    monkeypatch.setattr(ConstrainedLayoutEngine, "execute", lambda *_: None)
