"""Fixtures of the command line's tests."""

from pathlib import Path

import pytest

from tests.cli.kit import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """Commands on a database of the test's own."""
    return Desk(tmp_path)
