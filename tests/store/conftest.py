"""A SQLite file and a store on it, with the clock of this machine."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.store.acts import WORK
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.migrate import migrate


@pytest.fixture(scope="session")
async def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file with one queue, to be copied: migrating takes longer than most tests."""
    made = tmp_path_factory.mktemp("template") / "tickwork.db"
    await migrate(made)
    opened = await SqliteStore.open(made)
    await opened.queues.put(DEFAULT, WORK, QueueSettings())
    await opened.close()
    return made


@pytest.fixture
def path(template: Path, tmp_path: Path) -> Path:
    """A migrated file with one queue, not opened by anyone."""
    return Path(shutil.copy(template, tmp_path / "tickwork.db"))


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    """A store on that file."""
    opened = await SqliteStore.open(path)
    yield opened
    await opened.close()
