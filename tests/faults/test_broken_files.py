"""SQLite files that are corrupt, closed, locked or full: a clear error, and no partial write.

When the fault is over, an open store continues.
"""

import asyncio
import os
import shutil
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.faults import tables
from tests.faults.programs.out_of_space import BATCH, Report
from tests.faults.steps import OUTPUTS, QUEUE, claim, ending, join, put_queues, send
from tests.faults.steps import settle as settled
from tests.kit.postgres_binaries import server_user
from tests.kit.process import ROOT, Arm, Child, Children
from tests.kit.waiting import delay
from tests.kit.work_dirs import WorkDir
from tickwork.core.model import DEFAULT, SettleResult
from tickwork.errors import StoreBroken, StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.migrate import migrate

SLEEPER = "tests.faults.programs.sleeper"
ORDINARY = "tests.faults.programs.unprivileged"
CRAMPED = "tests.faults.programs.out_of_space"
PATIENCE_SECONDS = 0.3
BOUND_SECONDS = 180.0


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A migrated file with its queues, not opened by anyone."""
    found = tmp_path / "tickwork.db"
    await make(found)
    return found


async def make(path: Path) -> None:
    await migrate(path)
    store = await SqliteStore.open(path)
    await put_queues(store)
    await store.close()


@pytest.fixture
async def store(path: Path) -> AsyncIterator[Store]:
    """A store with a short busy timeout."""
    opened = await SqliteStore.open(path, busy_timeout_seconds=PATIENCE_SECONDS)
    yield opened
    await opened.close()


def contents(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def allow(path: Path, mode: int) -> None:
    path.chmod(mode)


def overwrite_all(path: Path) -> None:
    path.write_bytes(b"This is a letter to a friend.\n" * 1_000)


def overwrite_pages(path: Path) -> None:
    """The first page stays: it looks like a database, but the rest is garbage."""
    with path.open("r+b") as file:
        size = file.seek(0, 2)
        file.seek(4_096)
        file.write(b"\xa5" * (size - 4_096))


def cut_off(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(4_096 + 100)


BREAKING = (overwrite_all, overwrite_pages, cut_off)


@pytest.mark.parametrize("break_it", BREAKING)
async def test_a_broken_file_is_reported_and_not_changed(
    path: Path, break_it: Callable[[Path], None]
) -> None:
    break_it(path)
    as_it_was = contents(path)
    for use in (SqliteStore.open, migrate):
        with pytest.raises(StoreBroken, match=str(path)):
            await use(path)
    assert contents(path) == as_it_was


@pytest.mark.parametrize("break_it", BREAKING)
async def test_a_file_that_breaks_while_open_is_reported_until_it_is_repaired(
    path: Path, store: Store, break_it: Callable[[Path], None]
) -> None:
    whole, broken = path.with_name("whole"), path.with_name("broken")
    shutil.copy(path, whole)
    shutil.copy(path, broken)
    break_it(broken)
    _put_in_place(broken, path)
    with pytest.raises(StoreBroken, match=str(path)):
        await send(store)
    with pytest.raises(StoreBroken, match=str(path)):
        await store.queues.counts(DEFAULT, QUEUE)
    _put_in_place(whole, path)
    (message_id,) = await send(store)
    assert await tables.inputs_in(f"sqlite:///{path}", QUEUE) == [str(message_id)]


def _put_in_place(file: Path, place: Path) -> None:
    """As a restore does: another file under the same name, without the old WAL."""
    for suffix in ("-wal", "-shm"):
        place.with_name(place.name + suffix).unlink(missing_ok=True)
    file.rename(place)


async def test_a_missing_file_is_not_created(path: Path, store: Store) -> None:
    await send(store)
    shutil.move(path, path.with_name("elsewhere"))
    with pytest.raises(StoreBroken, match="does not exist"):
        await send(store)
    assert contents(path) is None


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that belongs to the unprivileged user of `programs/unprivileged.py`."""
    work = WorkDir.take("files")
    server_user().own(work.path)
    yield work.path
    work.remove()


async def tried(child: Child, number: int) -> str:
    """The next result; the child then waits to be released."""
    await child.reached("tried", BOUND_SECONDS)
    return child.lines()[number]


@pytest.mark.parametrize("closed", ["file", "folder"])
async def test_a_read_only_file_is_reported_until_it_is_writable(
    closed: str, open_folder: Path, children: Children
) -> None:
    path = open_folder / "tickwork.db"
    await make(path)
    server_user().own(path)
    target, mode = (path, 0o644) if closed == "file" else (open_folder, 0o755)
    allow(target, mode & 0o555)
    pauses = [Arm("tried", "pause")]
    child = children.spawn(ORDINARY, f"sqlite:///{path}", "send", "2", arms=pauses)
    answer = await tried(child, 0)
    assert answer.startswith("StoreBroken")
    assert str(path) in answer
    allow(target, mode)
    child.release("tried")
    assert await tried(child, 1) == "done"
    assert len(await tables.inputs_in(f"sqlite:///{path}", QUEUE)) == 1


async def test_a_read_only_folder_gets_no_file(open_folder: Path, children: Children) -> None:
    allow(open_folder, 0o555)
    path = open_folder / "tickwork.db"
    pauses = [Arm("tried", "pause")]
    child = children.spawn(ORDINARY, f"sqlite:///{path}", "migrate", "2", arms=pauses)
    answer = await tried(child, 0)
    assert answer.startswith("StoreBroken")
    assert str(path) in answer
    allow(open_folder, 0o755)
    child.release("tried")
    assert await tried(child, 1) == "done"


async def test_these_tests_run_in_a_checkout_that_only_its_owner_may_enter(
    tmp_path: Path, open_folder: Path, children: Children
) -> None:
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("src", "tests"):
        shutil.copytree(ROOT / name, checkout / name, ignore=ignored)
    allow(checkout, 0o700)
    allow(open_folder, 0o555)
    script = checkout / "tests" / "faults" / "programs" / "unprivileged.py"
    found = os.pathsep.join((str(checkout), str(checkout / "src")))
    path = open_folder / "tickwork.db"
    child = children.spawn(
        script,
        f"sqlite:///{path}",
        "migrate",
        "2",
        env={"PYTHONPATH": found},
        arms=[Arm("tried", "pause")],
    )
    assert (await tried(child, 0)).startswith("StoreBroken")
    allow(open_folder, 0o755)
    child.release("tried")
    assert await tried(child, 1) == "done"


async def frozen_in_its_transaction(children: Children, store: Store, path: Path) -> Child:
    """Another process that holds the write lock in the middle of a settlement."""
    url = f"sqlite:///{path}"
    await tables.fetch(url, tables.EFFECTS)
    await send(store)
    child = children.spawn(SLEEPER, url, "joint", "600", arms=[Arm("writing", "stop")])
    await child.reached("writing", BOUND_SECONDS)
    return child


async def refused_for_the_lock(store: Store) -> None:
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="locked by another process"):
        await send(store)
    assert time.monotonic() - began < BOUND_SECONDS
    # Readers do not wait.
    assert (await store.queues.counts(DEFAULT, QUEUE)).claimed == 1


async def test_a_lock_of_a_frozen_process_is_reported_and_freed_by_its_death(
    path: Path, store: Store, children: Children
) -> None:
    child = await frozen_in_its_transaction(children, store, path)
    await refused_for_the_lock(store)
    child.kill9()
    await send(store)
    url = f"sqlite:///{path}"
    assert await tables.effects_of(url) == []
    assert await tables.inputs_in(url, OUTPUTS) == []
    assert await tables.states_in(url, QUEUE) == {"claimed": 1, "ready": 1}


async def test_a_lock_of_a_frozen_process_is_reported_and_freed_when_it_continues(
    path: Path, store: Store, children: Children
) -> None:
    child = await frozen_in_its_transaction(children, store, path)
    await refused_for_the_lock(store)
    child.cont()
    await child.succeeded(BOUND_SECONDS)
    assert child.lines()[0] == "settled"
    await send(store)
    url = f"sqlite:///{path}"
    assert len(await tables.effects_of(url)) == len(await tables.inputs_in(url, OUTPUTS)) == 1
    assert await tables.states_in(url, QUEUE) == {"ready": 1}


async def test_a_lock_released_in_time_is_waited_for(path: Path) -> None:
    patient = await SqliteStore.open(path)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(send(patient))
            await delay(PATIENCE_SECONDS)
            assert not sending.done()
            other.execute("COMMIT")
    (held,) = await claim(patient, await join(patient))
    assert await settled(patient, ending(held)) == SettleResult()
    await patient.close()


@pytest.mark.parametrize("room", ["disk", "limit"])
async def test_a_full_disk_stores_nothing_partially_and_the_store_continues_with_free_space(
    room: str, tmp_path: Path, children: Children
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    child = children.spawn(CRAMPED, folder, room)
    await child.succeeded(BOUND_SECONDS)
    report = msgspec.json.decode(child.lines()[0], type=Report)
    assert report.errors
    assert all(str(folder / "tickwork.db") in error for error in report.errors)
    assert len(report.accepted) > BATCH
    found = set(report.found)
    assert len(found) == len(report.found) == report.counted
    assert found >= set(report.accepted)
    refused = [report.refused[n : n + BATCH] for n in range(0, len(report.refused), BATCH)]
    assert all(found.isdisjoint(batch) for batch in refused)
