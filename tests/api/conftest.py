"""A client of the application in this process, with a fixed clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from litestar import Litestar
from litestar.testing import TestClient

from tickwork.api import create_api
from tickwork.core import when

NOW = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def client() -> Iterator[TestClient[Litestar]]:
    api = create_api(now=lambda: NOW, limits=when.Limits())
    with TestClient(api, raise_server_exceptions=False) as started:
        yield started
