"""Opening a SQLite store: paths and URLs, and errors for what cannot be opened."""

import os
from pathlib import Path

import pytest

from tests.store.acts import send, waiting
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.errors import InvalidInput, StoreBroken
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.file import locate
from tickwork.store.sqlite.engine.migrate import migrate


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("tickwork.db", "tickwork.db"),
        ("sqlite:///tickwork.db", "tickwork.db"),
        ("sqlite:///var/tickwork.db", "var/tickwork.db"),
        ("sqlite:////var/tickwork.db", "/var/tickwork.db"),
        (Path("/var/tickwork.db"), "/var/tickwork.db"),
    ],
)
def test_a_file_is_given_by_path_or_url(given: str | Path, path: str) -> None:
    assert locate(given) == Path(path)


@pytest.mark.parametrize(
    "given",
    ["", ":memory:", "sqlite://", "sqlite:///", "sqlite:///:memory:", "sqlite::memory:",
     "file::memory:?cache=shared", "sqlite:///file:x?mode=memory"],
)  # fmt: skip
async def test_an_in_memory_database_is_refused(given: str) -> None:
    for use in (SqliteStore.open, migrate):
        with pytest.raises(InvalidInput, match="database: must be a file"):
            await use(given)


async def test_a_relative_path_is_resolved_when_the_store_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await migrate("sqlite:///here.db")
    store = await SqliteStore.open("sqlite:///here.db")
    (tmp_path / "elsewhere").mkdir()
    os.chdir("elsewhere")
    await store.queues.put(DEFAULT, "work", QueueSettings())
    await send(store)
    assert await waiting(store) == 1
    await store.close()
    assert (tmp_path / "here.db").stat().st_size > 0


@pytest.mark.parametrize("name", ["odd name?#%41.db", "ünï🜨.db"])
async def test_a_file_can_have_any_name(tmp_path: Path, name: str) -> None:
    await migrate(tmp_path / name)
    store = await SqliteStore.open(f"sqlite:///{tmp_path / name}")
    assert (await store.meta()).schema_version > 0
    await store.close()
    assert names_in(tmp_path) == [name]


async def test_an_error_names_the_missing_file_or_folder(tmp_path: Path) -> None:
    with pytest.raises(
        StoreBroken,
        match=r"database .*missing\.db does not exist: run `tickwork migrate --database ",
    ):
        await SqliteStore.open(tmp_path / "missing.db")
    with pytest.raises(StoreBroken, match="nowhere does not exist"):
        await migrate(tmp_path / "nowhere" / "tickwork.db")
    with pytest.raises(StoreBroken, match="not a file"):
        await SqliteStore.open(tmp_path)
    assert names_in(tmp_path) == []
