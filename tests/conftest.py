"""Fixtures of the tests that cross components."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bed import Bed


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Bed]:
    """Two clients, a controller and a server in namespaces of their own."""
    made = Bed(tmp_path)
    yield made
    made.close()
