"""Wake-ups between processes that share only a file."""

from contextlib import AsyncExitStack
from pathlib import Path
from uuid import UUID

import pytest

from tests.kit.process import Arm, Children
from tests.kit.waiting import eventually
from tests.store.acts import WORK, acked, pull, send, writer_held
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.file_watch import POLL_SECONDS_MAX

ONE_SEND = "tests.store.programs.one_send"
SOON_SECONDS = 10.0
QUIET_SECONDS = 3 * POLL_SECONDS_MAX


@pytest.fixture
async def queue_id(store: SqliteStore) -> UUID:
    return (await store.queues.get(DEFAULT, WORK)).id


async def test_a_send_in_another_process_wakes_a_watch_that_began_before(
    store: SqliteStore, queue_id: UUID, path: Path, children: Children
) -> None:
    child = children.spawn(ONE_SEND, path, arms=[Arm("ready", "pause")])
    await child.reached("ready")
    async with store.wakeups.watch([queue_id]) as watch:
        child.release("ready")
        assert await watch.wait(SOON_SECONDS)
    await child.succeeded()


async def test_writes_of_other_processes_without_a_send_wake_nobody(
    store: SqliteStore, queue_id: UUID, path: Path
) -> None:
    for _ in range(3):
        await send(store)
    first, *_ = await pull(store)
    other = await SqliteStore.open(path)
    async with store.wakeups.watch([queue_id]) as watch:
        await other.nodes.join(SYSTEM, new_id(), name="n", roles=(), ttl_seconds=60)
        await other.queues.put(DEFAULT, "another", QueueSettings())
        await other.messages.settle(DEFAULT, acked(first))
        assert not await watch.wait(QUIET_SECONDS)
        await send(other)
        assert await watch.wait(SOON_SECONDS)
    await other.close()


async def test_a_send_wakes_only_watches_of_its_queue(store: SqliteStore, queue_id: UUID) -> None:
    other = await store.queues.put(DEFAULT, "other", QueueSettings())
    async with (
        store.wakeups.watch([other.id]) as others,
        store.wakeups.watch([queue_id]) as watch,
    ):
        await send(store)
        assert await watch.wait(SOON_SECONDS)
        assert not await others.wait(QUIET_SECONDS)


async def test_a_message_sent_again_after_its_ack_wakes_too(
    store: SqliteStore, queue_id: UUID, path: Path
) -> None:
    """The newest message then has the same id as the newest one before."""
    other = await SqliteStore.open(path)
    message_id = await send(store)
    async with store.wakeups.watch([queue_id]) as watch:
        (message,) = await pull(store)
        await store.messages.settle(DEFAULT, acked(message))
        await send(other, id=message_id)
        assert await watch.wait(SOON_SECONDS)
    await other.close()


async def test_a_send_during_a_reconnect_is_not_missed(
    store: SqliteStore, queue_id: UUID, path: Path
) -> None:
    other = await SqliteStore.open(path)
    async with store.wakeups.watch([queue_id]) as watch:
        store._database._writer._managed._identity = None
        await send(other)
        assert await watch.wait(SOON_SECONDS)
    await other.close()


async def test_a_watch_can_start_while_the_file_is_locked(
    path: Path, store: SqliteStore, queue_id: UUID
) -> None:
    impatient = await SqliteStore.open(path, busy_timeout_seconds=0.05)
    async with AsyncExitStack() as watching:
        async with writer_held(store):
            watch = await watching.enter_async_context(impatient.wakeups.watch([queue_id]))
        await send(store)
        assert await watch.wait(SOON_SECONDS)
    await impatient.close()


async def test_the_file_is_not_polled_without_a_watch(store: SqliteStore, queue_id: UUID) -> None:
    watcher = store._database._writer._file_watcher
    assert watcher.seconds_to_next_poll is None
    async with store.wakeups.watch([queue_id]):
        await eventually(lambda: watcher._poll_seconds == POLL_SECONDS_MAX)
    assert watcher.seconds_to_next_poll is None
