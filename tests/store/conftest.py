"""A SQLite file and a store on it, with the clock of this machine."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.acts import WORK
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.migrate import migrate


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A migrated file with one queue, not opened by anyone."""
    found = tmp_path / "tickwork.db"
    await migrate(found)
    opened = await SqliteStore.open(found)
    await opened.queues.put(DEFAULT, WORK, QueueSettings())
    await opened.close()
    return found


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """A store on that file."""
    opened = await SqliteStore.open(path)
    yield opened
    await opened.close()
