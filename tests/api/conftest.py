"""A client of the application in this process, with a key and a fixed clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.kit.api import Client, api_client

NOW = datetime(2026, 11, 15, 3, 0, tzinfo=UTC)


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with api_client(tmp_path_factory.mktemp("api"), now=lambda: NOW) as started:
        yield started
