"""The pruner deletes what is older than its retention, in bounded passes, and nothing else."""

import errno
import gzip
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    counts,
    create_batch,
    kill_all,
    letters,
    make_queue,
    new,
    news,
    pull,
    pull_one,
    send,
    send_many,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS as HOMES
from tickwork.core.message.batch import BATCH_RETENTION_SECONDS, ItemStatus
from tickwork.core.message.dead_letter import DEAD_LETTER_RETENTION_SECONDS, Pace, Selection
from tickwork.core.message.progress import PROGRESS_KEPT_SECONDS
from tickwork.core.model import (
    DEFAULT,
    EVENT_RETENTION_SECONDS,
    SYSTEM,
    ContentType,
    Counts,
    Ending,
    Fate,
    Pruned,
)
from tickwork.core.queue.stats import COUNTER_RETENTION_SECONDS
from tickwork.core.schedule.firing import FIRINGS_KEPT_SECONDS, FiringResult, FiringStatus
from tickwork.errors import InvalidInput, NotFound, StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.shared.archive import Archive

DAY_SECONDS = 86_400
SCHEDULE = new_id()


async def make_letters(store: Store, number: int) -> None:
    await send_many(store, number)
    await kill_all(store)


async def make_events(store: Store, number: int) -> None:
    for _ in range(number):
        await send(store, event_id=str(new_id()))
    await settle(store, *map(ack, await pull(store)))


async def make_batches(store: Store, number: int) -> None:
    for _ in range(number):
        await create_batch(store, [])


async def make_firings(store: Store, number: int) -> None:
    for run in range(number):
        await send(store, schedule_id=SCHEDULE, slot=await store.now(), run=run)
        firing = FiringResult(status=FiringStatus.SUCCEEDED)
        await settle(store, ack(await pull_one(store), effects=(firing,)))


async def make_counters(store: Store, number: int) -> None:
    for index in range(number):
        await send(store, type=f"type-{index}")
    await store.stats.flush(SYSTEM)


async def make_progress(store: Store, number: int) -> None:
    await send(store)
    held = (await pull_one(store)).current_claim
    for index in range(number):
        assert await store.progress.record(DEFAULT, held, str(held.id), {f"step-{index}": "1"})
    await settle(store, Ending(claim=held, fate=Fate.ACK))


KINDS: dict[str, tuple[Callable[[Store, int], Awaitable[None]], int]] = {
    "dead_letters": (make_letters, DEAD_LETTER_RETENTION_SECONDS),
    "events": (make_events, EVENT_RETENTION_SECONDS),
    "batches": (make_batches, BATCH_RETENTION_SECONDS),
    "firings": (make_firings, FIRINGS_KEPT_SECONDS),
    "progress": (make_progress, PROGRESS_KEPT_SECONDS),
    "counters": (make_counters, COUNTER_RETENTION_SECONDS),
}


async def pruned(store: Store, kind: str, limit: int = ALL) -> int:
    found = await store.pruner.prune(SYSTEM, limit)
    number: int = getattr(found, kind)
    return number


@pytest.mark.parametrize("kind", KINDS)
async def test_each_kind_of_row_is_kept_for_its_retention_and_no_longer(
    store: Store, clock: VirtualClock, kind: str
) -> None:
    make, kept_seconds = KINDS[kind]
    await make_queue(store)
    await make(store, 2)
    await store.stats.flush(SYSTEM)
    # A minute is as old as its start.
    clock.advance(seconds=kept_seconds - 61)
    assert await pruned(store, kind) == 0
    clock.advance(seconds=30)
    await make(store, 1)
    await store.stats.flush(SYSTEM)
    clock.advance(seconds=91)
    assert await pruned(store, kind) >= 2
    assert await pruned(store, kind) == 0
    # A day stored as one partition is dropped when all of it is old.
    clock.advance(seconds=kept_seconds + 86_400)
    assert await pruned(store, kind) >= 1


@pytest.mark.parametrize("kind", ["dead_letters", "events", "firings", "progress"])
async def test_a_pass_prunes_at_most_its_limit_and_the_next_one_continues(
    store: Store, clock: VirtualClock, kind: str
) -> None:
    make, kept_seconds = KINDS[kind]
    await make_queue(store)
    await make(store, 7)
    clock.advance(seconds=kept_seconds + 1)
    assert [await pruned(store, kind, 3) for _ in range(4)] == [3, 3, 1, 0]


async def test_open_and_resolved_dead_letters_are_pruned(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await make_letters(store, 3)
    first, second, third = await letters(store)
    await store.dead_letters.replay(DEFAULT, WORK, Selection(ids=(first.id,)), Pace())
    await store.dead_letters.discard(DEFAULT, WORK, Selection(ids=(second.id,)))
    clock.advance(seconds=DEAD_LETTER_RETENTION_SECONDS + 1)
    assert await pruned(store, "dead_letters") == 3
    for letter in (first, second, third):
        with pytest.raises(NotFound):
            await store.dead_letters.get(DEFAULT, letter.id)
    assert await counts(store) == Counts(ready=1)


async def test_a_completed_batch_is_pruned_with_its_items(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store, retention_seconds=14 * DAY_SECONDS)
    ended, running = [await create_batch(store, news(3)) for _ in range(2)]
    await settle(store, *map(ack, await pull(store, limit=3)))
    clock.advance(seconds=BATCH_RETENTION_SECONDS + 1)
    for _ in range(5):
        await store.pruner.prune(SYSTEM, ALL)
    with pytest.raises(NotFound):
        await store.batches.get(DEFAULT, ended.id)
    assert (await store.batches.get(DEFAULT, running.id)).pending == 3
    assert await store.batches.list(DEFAULT, ALL) == (await store.batches.get(DEFAULT, running.id),)
    # Its id can be used again, and nothing of the old batch is left.
    again = await create_batch(store, [new()], batch_id=ended.id)
    assert (again.total, again.completed, again.pending) == (1, 0, 1)
    found = await store.batches.items(DEFAULT, again.id, ItemStatus.COMPLETED, ALL)
    assert found == ()


async def test_a_batch_larger_than_a_pass_is_pruned_in_several_passes(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    batch = await create_batch(store, news(25))
    await settle(store, *map(ack, await pull(store)))
    clock.advance(seconds=BATCH_RETENTION_SECONDS + 1)
    for _ in range(20):
        await store.pruner.prune(SYSTEM, 3)
    with pytest.raises(NotFound):
        await store.batches.get(DEFAULT, batch.id)
    again = await create_batch(store, [], batch_id=batch.id)
    assert (again.total, again.completed) == (0, 0)


async def test_unfinished_rows_are_not_pruned(store: Store, clock: VirtualClock) -> None:
    await make_queue(store, retention_seconds=14 * DAY_SECONDS)
    await send(store, delay_seconds=300 * DAY_SECONDS)
    await send(store, key="a", delay_seconds=300 * DAY_SECONDS)
    await send(store, key="a")
    clock.advance(seconds=100 * DAY_SECONDS)
    found = await store.pruner.prune(SYSTEM, ALL)
    assert found == Pruned(receipts=found.receipts)
    assert await counts(store) == Counts(delayed=2, blocked=1)


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_receipts_of_sends_are_pruned_after_a_day(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    for _ in range(3):
        await send(store)
    # Their age is in their ids, which come from the local clock.
    clock.advance(seconds=20 * 365 * DAY_SECONDS)
    assert await pruned(store, "receipts") >= 3
    assert await pruned(store, "receipts") == 0


async def test_only_the_system_prunes(store: Store) -> None:
    with pytest.raises(InvalidInput, match="system"):
        await store.pruner.prune(DEFAULT, ALL)


def archived(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """The records in an archive, by their kind."""
    found: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.iterdir()):
        assert path.name.endswith(".jsonl.gz")
        lines = gzip.decompress(path.read_bytes()).splitlines()
        found.setdefault(path.name.partition("-")[0], []).extend(map(json.loads, lines))
    return found


@pytest.mark.parametrize("home", HOMES, indirect=True)
async def test_what_is_pruned_was_archived_before(
    store: Store, clock: VirtualClock, tmp_path: Path
) -> None:
    await make_queue(store)
    await send(store, body=b'{"a": [1, 2]}')
    await send(store, body=b"\xff\x00", content_type=ContentType.BYTES)
    await kill_all(store)
    await make_firings(store, 2)
    letters_before = await letters(store)
    firings_before = await store.firings.list(DEFAULT, SCHEDULE, ALL)
    clock.advance(seconds=FIRINGS_KEPT_SECONDS + 2 * DAY_SECONDS)
    found = await store.pruner.prune(SYSTEM, ALL, archive=Archive(tmp_path))
    assert (found.dead_letters, found.firings) == (2, 2)
    kept = archived(tmp_path)
    bodies = {letter["id"]: letter["body"] for letter in kept["dead_letters"]}
    assert bodies == {
        str(letter.id): {"a": [1, 2]} if letter.content_type is ContentType.JSON else "/wA="
        for letter in letters_before
    }
    assert {firing["id"] for firing in kept["firings"]} == {
        str(firing.id) for firing in firings_before
    }
    assert {firing["status"] for firing in kept["firings"]} == {"succeeded"}
    assert {row["tenant"] for group in kept.values() for row in group} == {"default"}
    await store.pruner.prune(SYSTEM, ALL, archive=Archive(tmp_path))
    assert archived(tmp_path) == kept


@pytest.mark.parametrize("home", HOMES, indirect=True)
async def test_what_cannot_be_archived_is_kept(
    store: Store, clock: VirtualClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await make_queue(store)
    await make_letters(store, 2)
    await make_firings(store, 2)
    await make_counters(store, 1)
    clock.advance(seconds=FIRINGS_KEPT_SECONDS + 2 * DAY_SECONDS)

    def full(_descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    archive = Archive(tmp_path / "archive")
    archive.check()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(
            StoreUnavailable, match=r"archive_directory .*: No space left on device"
        ):
            await store.pruner.prune(SYSTEM, ALL, archive=archive)
    assert archived(archive.directory) == {}
    assert len(await letters(store)) == 2
    assert len(await store.firings.list(DEFAULT, SCHEDULE, ALL)) == 2
    found = await store.pruner.prune(SYSTEM, ALL, archive=archive)
    # What is not archived was pruned before.
    assert (found.dead_letters, found.firings, found.counters) == (2, 2, 0)
