"""Every message that ends leaves one record, whatever ends it, and no other message does."""

import gzip
import json
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tests.conformance.acts import (
    ALL,
    WORK,
    ack,
    ack_all,
    claim_one,
    create_batch,
    dead,
    join,
    kill_holders,
    make_queue,
    make_tenants,
    news,
    pull,
    pull_one,
    release,
    retry,
    send,
    send_many,
    sending,
    settle,
)
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.message.history import (
    REASON_DUPLICATE,
    EndedRecord,
    HistoryDefault,
    HistoryKept,
    HistoryPosition,
    HistorySelection,
)
from tickwork.core.model import (
    DEFAULT,
    LOST_CLAIMS_MAX,
    REASON_MAX_RETRIES,
    REASON_WORKER_LOST,
    SYSTEM,
    Scope,
    Settlement,
)
from tickwork.core.schedule.firing import FiringResult, FiringStatus
from tickwork.errors import NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.shared.archive import Archive

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

EVERYTHING = HistorySelection()
Ended = tuple[UUID, str, str | None, int]
"""The id of a message, its outcome, the reason, and the number of its attempts."""


async def history(
    store: Store, *, scope: Scope = DEFAULT, **filters: Any
) -> tuple[EndedRecord, ...]:
    """All records, newest first, read in pages of two."""
    records: list[EndedRecord] = []
    after: HistoryPosition | None = None
    while True:
        page = await store.history.page(scope, HistorySelection(**filters), 2, after=after)
        records += page.records
        after = page.next
        if after is None:
            return tuple(records)


async def acked(store: Store, clock: VirtualClock) -> set[Ended]:
    sent = await send_many(store, 3)
    clock.advance(seconds=1)
    await settle(store, *map(ack, await pull(store)))
    return {(message.id, "done", None, 1) for message in sent}


async def acked_one_by_one(store: Store, _clock: VirtualClock) -> set[Ended]:
    sent = await send_many(store, 3, correlation_id="order-7")
    await ack_all(store)
    return {(message.id, "done", None, 1) for message in sent}


async def acked_in_order(store: Store, _clock: VirtualClock) -> set[Ended]:
    sent = await send_many(store, 3, key="a")
    await ack_all(store)
    return {(message.id, "done", None, 1) for message in sent}


async def acked_with_sends(store: Store, _clock: VirtualClock) -> set[Ended]:
    await make_queue(store, "other")
    sent = await send(store)
    await settle(store, ack(await pull_one(store), sending("other")))
    return {(sent.id, "done", None, 1)}


async def acked_after_retries(store: Store, _clock: VirtualClock) -> set[Ended]:
    sent = await send(store)
    await settle(store, retry(await pull_one(store)))
    await settle(store, release(await pull_one(store)))
    assert await history(store) == ()
    await settle(store, ack(await pull_one(store)))
    return {(sent.id, "done", None, 2)}


async def duplicates(store: Store, _clock: VirtualClock) -> set[Ended]:
    """Two in one settlement, and one that a claim finds."""
    first, second = await send(store, event_id="e"), await send(store, event_id="e")
    claimed = {message.id: message for message in await pull(store)}
    await settle(store, ack(claimed[first.id]), ack(claimed[second.id]))
    third = await send(store, event_id="e")
    assert await pull(store) == ()
    doubled = {(id_, "discarded", REASON_DUPLICATE, 0) for id_ in (second.id, third.id)}
    return {(first.id, "done", None, 1), *doubled}


async def batch_items(store: Store, _clock: VirtualClock) -> set[Ended]:
    """One is handled, the other cancelled."""
    items = news(2)
    batch = await create_batch(store, items)
    (claimed,) = await pull(store, limit=1)
    await settle(store, ack(claimed))
    await store.batches.cancel(DEFAULT, batch.id, publish_event=False)
    (other,) = (item.id for item in items if item.id != claimed.id)
    return {(claimed.id, "done", None, 1), (other, "discarded", "cancelled", 0)}


async def settled_with_rows(store: Store, _clock: VirtualClock) -> set[Ended]:
    sent = await send(store)

    async def no_rows(_: object) -> None:
        pass

    settlement = Settlement((ack(await pull_one(store)),))
    write: Any = (lambda _: None) if store.writes_alone else no_rows
    await store.messages.settle_jointly(DEFAULT, settlement, write)
    return {(sent.id, "done", None, 1)}


async def failed(store: Store, _clock: VirtualClock) -> set[Ended]:
    sent = await send(store)
    await settle(store, dead(await pull_one(store), reason="permanent", error="no such user"))
    return {(sent.id, "dead", "permanent", 1)}


async def failed_into_another_queue(store: Store, clock: VirtualClock) -> set[Ended]:
    """It ends twice: in its queue, and in the dead-letter queue."""
    await make_queue(store, "other")
    await make_queue(store, dead_letter_queue="other")
    sent = await send(store)
    await settle(store, dead(await pull_one(store), reason="permanent"))
    clock.advance(seconds=1)
    await ack_all(store, queue="other")
    return {(sent.id, "dead", "permanent", 1), (sent.id, "done", None, 1)}


async def expired(store: Store, clock: VirtualClock) -> set[Ended]:
    sent = await send(store, expires_after_seconds=10)
    clock.advance(seconds=11)
    await store.reaper.reap(SYSTEM, ALL)
    return {(sent.id, "expired", "expired", 0)}


async def kept_too_long(store: Store, clock: VirtualClock) -> set[Ended]:
    await make_queue(store, retention_seconds=60)
    sent = await send(store)
    clock.advance(seconds=61)
    await store.reaper.reap(SYSTEM, ALL)
    return {(sent.id, "expired", "expired", 0)}


async def lost_with_workers(store: Store, clock: VirtualClock) -> set[Ended]:
    sent = await send(store)
    await kill_holders(store, clock, LOST_CLAIMS_MAX)
    return {(sent.id, "dead", REASON_WORKER_LOST, 0)}


async def lost_with_a_lease(store: Store, clock: VirtualClock) -> set[Ended]:
    await make_queue(store, max_retries=0)
    sent = await send(store)
    await pull(store, lease_seconds=5)
    clock.advance(seconds=6)
    await store.reaper.reap(SYSTEM, ALL)
    return {(sent.id, "dead", REASON_MAX_RETRIES, 1)}


async def removed_by_people(store: Store, clock: VirtualClock) -> set[Ended]:
    one, *others = await send_many(store, 3, key="a")
    await store.messages.delete(DEFAULT, WORK, one.id)
    clock.advance(seconds=1)
    await store.queues.purge(DEFAULT, WORK)
    purged = {(other.id, "discarded", "purged", 0) for other in others}
    return {(one.id, "discarded", "deleted", 0), *purged}


async def slots(store: Store, _clock: VirtualClock) -> set[Ended]:
    """One succeeds, one is skipped."""
    one, other = [await send(store, schedule_id=new_id(), slot=await store.now()) for _ in range(2)]
    claimed = {message.id: message for message in await pull(store)}
    success = FiringResult(status=FiringStatus.SUCCEEDED, took_seconds=2.0)
    skipped = FiringResult(status=FiringStatus.SKIPPED, reason="skipped_missed", is_attempt=False)
    await settle(store, ack(claimed[one.id], effects=(success,)))
    await settle(store, ack(claimed[other.id], effects=(skipped,)))
    return {(one.id, "done", None, 1), (other.id, "discarded", "skipped_missed", 0)}


async def calls_of_entities(store: Store, clock: VirtualClock) -> set[Ended]:
    """One is withdrawn while it waits, the other lost with its process."""
    node = await join(store)
    first, second = news(2, key=new_id().hex)
    await store.entities.enter(DEFAULT, WORK, first, node)
    await store.entities.enter(DEFAULT, WORK, second, node)
    await store.entities.withdraw(DEFAULT, second.id)
    clock.advance(seconds=60)
    await store.reaper.reap(SYSTEM, ALL)
    return {(message.id, "discarded", "deleted", 0) for message in (first, second)}


ENDINGS = [
    acked,
    acked_one_by_one,
    acked_in_order,
    acked_with_sends,
    acked_after_retries,
    duplicates,
    batch_items,
    settled_with_rows,
    failed,
    failed_into_another_queue,
    expired,
    kept_too_long,
    lost_with_workers,
    lost_with_a_lease,
    removed_by_people,
    slots,
    calls_of_entities,
]
"""Every way in which messages end. Each returns what became of them."""


@pytest.mark.parametrize("end", ENDINGS)
async def test_whatever_ends_leaves_one_record(
    store: Store, clock: VirtualClock, end: Callable[[Store, VirtualClock], Awaitable[set[Ended]]]
) -> None:
    await make_queue(store)
    ended = await end(store, clock)
    records = await history(store)
    assert {
        (record.id, record.outcome, record.reason, record.attempts) for record in records
    } == ended
    assert len(records) == len(ended)


async def test_a_record_says_what_became_of_its_message(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    sent = await send(
        store,
        type="order.placed",
        source="shop",
        event_id="e-17",
        correlation_id="c-17",
        causation_id="x",
        key="17",
    )
    sent_at = clock.now()
    node = await join(store)
    clock.advance(seconds=7)
    message = await claim_one(store, node)
    clock.advance(seconds=5)
    await settle(store, ack(message, took_seconds=2.0))
    record = await store.history.get(DEFAULT, sent.id)
    assert record == EndedRecord(
        tenant="default",
        queue=WORK,
        node="node",
        ended_at=clock.now(),
        id=sent.id,
        outcome="done",
        reason=None,
        attempts=1,
        sent_at=sent_at,
        started_at=clock.now() - timedelta(seconds=2),
        type="order.placed",
        source="shop",
        key="17",
        event_id="e-17",
        correlation_id="c-17",
        causation_id="x",
        batch_id=None,
        schedule_id=None,
        slot=None,
        run=None,
        content_type=None,
        body=None,
    )


async def test_a_record_has_a_body_if_the_queue_keeps_bodies(store: Store) -> None:
    await make_queue(store, history_bodies=True)
    plain, keyed, failing = [
        await send(store, body=body, key=key)
        for body, key in ((b"1", None), (b"2", "a"), (b"3", "b"))
    ]
    claimed = {message.id: message for message in await pull(store)}
    await settle(store, ack(claimed[plain.id]))
    await settle(store, ack(claimed[keyed.id]))
    await settle(store, dead(claimed[failing.id], reason="x"))
    bodies = {record.id: (record.body, record.content_type) for record in await history(store)}
    assert bodies == {message.id: (message.body, "json") for message in (plain, keyed, failing)}


def id_made_at(seconds: float) -> UUID:
    """A UUIDv7."""
    return UUID(int=int(seconds * 1_000) << 80 | 7 << 76 | 2 << 62 | 1)


async def test_the_newest_record_of_a_message_is_found_whenever_and_wherever_it_ended(
    store: Store, clock: VirtualClock
) -> None:
    """Also long after its id was made, in queues that keep records for another time, and if it
    ended twice."""
    now = (await store.now()).timestamp()
    since = (-86_400, -3_600, -3_599, 0, 10, 3_600)
    ids = [UUID(int=7), UUID(int=2**128 - 1), id_made_at(0), id_made_at(2**48 / 1_000 - 1)]
    ids += [id_made_at(now + seconds) for seconds in since]
    await make_queue(store, "other", history_seconds=30 * 86_400)
    await make_queue(store, dead_letter_queue="other")
    for id_ in ids:
        await send(store, id=id_)
        await settle(store, dead(await pull_one(store), reason="x"))
        assert (await store.history.get(DEFAULT, id_)).outcome == "dead"
    clock.advance(seconds=10)
    await ack_all(store, queue="other")
    for id_ in ids:
        assert (await store.history.get(DEFAULT, id_)).outcome == "done"


async def test_a_record_is_found_at_any_time_after_its_id_was_made(
    store: Store, clock: VirtualClock
) -> None:
    await make_queue(store)
    now = (await store.now()).timestamp()
    ids = [id_made_at(now), id_made_at(now - 0.001), id_made_at(now + 9_000)]
    for seconds in (0, 3_599, 1, 1, 7_200, 100_000):
        clock.advance(seconds=seconds)
        for id_ in ids:
            await send(store, id=id_)
        await ack_all(store)
        for id_ in ids:
            assert (await store.history.get(DEFAULT, id_)).ended_at == clock.now()
        for _ in range(3):
            clock.advance(seconds=2 * 86_400)
            await store.pruner.prune(SYSTEM, ALL)


@pytest.mark.parametrize(
    ("default", "own", "kept"),
    [
        ("all", None, {"done", "dead"}),
        ("failures", None, {"dead"}),
        ("off", None, set()),
        ("off", "all", {"done", "dead"}),
        ("all", "failures", {"dead"}),
        ("all", "off", set()),
    ],
)
async def test_a_queue_keeps_what_its_setting_or_the_default_says(
    store: Store, default: HistoryKept, own: HistoryKept | None, kept: set[str]
) -> None:
    await store.history.set_default(SYSTEM, HistoryDefault(default))
    await make_queue(store, history=own)
    await send_many(store, 2, key="a")
    await send_many(store, 2)
    for message in await pull(store):
        await settle(store, ack(message) if message.key is None else dead(message, reason="x"))
    assert {record.outcome for record in await history(store)} == kept


async def test_queues_of_tickwork_itself_keep_failures(store: Store) -> None:
    for queue in ("tickwork.deliveries", "tickwork.alerts", "tickwork.entities.Brand"):
        await make_queue(store, queue)
        await send(store, queue=queue)
        await ack_all(store, queue=queue)
    assert [record.queue for record in await history(store)] == ["tickwork.entities.Brand"]


async def test_records_are_found_by_what_they_have(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await make_queue(store, "other")
    own: dict[str, dict[str, Any]] = {
        "queue": {"queue": "other"},
        "type": {"type": "a"},
        "key": {"key": "k"},
        "event_id": {"event_id": "e"},
        "correlation_id": {"correlation_id": "c"},
    }
    sent = {name: await send(store, **fields) for name, fields in own.items()}
    await ack_all(store)
    await ack_all(store, queue="other")
    clock.advance(seconds=10)
    later = await send(store)
    await settle(store, dead(await pull_one(store), reason="x"))
    for name, fields in own.items():
        assert [record.id for record in await history(store, **fields)] == [sent[name].id], name
    assert [record.id for record in await history(store, outcome="dead")] == [later.id]
    assert [record.id for record in await history(store, since=clock.now())] == [later.id]
    early = {record.id for record in await history(store, until=clock.now())}
    assert early == {message.id for message in sent.values()}


async def test_pages_have_every_record_once_newest_first(
    store: Store, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where many end at one time, and where a page looks at few of them."""
    monkeypatch.setattr("tickwork.store.nouns.history.CHUNKS_LOOKED_AT_MAX", 3)
    await make_queue(store)
    sent: list[UUID] = []
    for _ in range(4):
        messages = await send_many(store, 5, type="a")
        await ack_all(store)
        clock.advance(seconds=1)
        sent += sorted((message.id for message in messages), reverse=True)
    in_order = [record.id for record in await history(store)]
    assert sorted(in_order) == sorted(sent)
    assert in_order == [id_ for start in (15, 10, 5, 0) for id_ in sent[start : start + 5]]
    assert [record.id for record in await history(store, type="a")] == in_order
    assert await history(store, type="b") == ()


async def test_a_tenant_sees_only_its_own_records(store: Store) -> None:
    await make_queue(store, scope=SYSTEM)
    scopes = await make_tenants(store, "one", "two")
    sent = {
        scope: await send(store, scope=scope, correlation_id="c", event_id="e", key="k")
        for scope in scopes
    }
    await settle(store, *map(ack, await pull(store, scope=SYSTEM)), scope=SYSTEM)
    one, two = scopes
    for scope, other in ((one, two), (two, one)):
        for filters in ({}, {"correlation_id": "c"}, {"event_id": "e"}, {"key": "k"}):
            found = await history(store, scope=scope, **filters)
            assert [record.id for record in found] == [sent[scope].id]
        with pytest.raises(NotFound):
            await store.history.get(scope, sent[other].id)


async def test_records_are_dropped_when_their_time_is_over(
    store: Store, clock: VirtualClock
) -> None:
    """Each at the end of the hour in which it is over, and none before."""
    await make_queue(store, history_seconds=7_200)
    await make_queue(store, "other", history_seconds=30 * 86_400)
    await store.pruner.prune(SYSTEM, ALL)
    for queue in (WORK, "other"):
        await send(store, queue=queue, key="k")
        await ack_all(store, queue=queue)
    seconds = 0
    for after_seconds, left in (
        (7_199, [WORK, "other"]),
        (7_200 + 3_600, ["other"]),
        (30 * 86_400 - 1, ["other"]),
        (31 * 86_400, []),
    ):
        clock.advance(seconds=after_seconds - seconds)
        seconds = after_seconds
        for _ in range(3):
            await store.pruner.prune(SYSTEM, ALL)
        assert sorted(record.queue for record in await history(store)) == sorted(left)
        assert sorted(record.queue for record in await history(store, key="k")) == sorted(left)


async def test_records_are_archived_before_they_are_dropped(
    store: Store, clock: VirtualClock, tmp_path: Path
) -> None:
    """Those in a partition of their hour, and those in the default one."""
    await make_queue(store, history_seconds=7_200, history_bodies=True)
    early = await send(store, body=b'{"a":1}')
    await ack_all(store)
    archive = Archive(tmp_path)
    await store.pruner.prune(SYSTEM, ALL, archive=archive)
    clock.advance(seconds=3_600)
    late = await send(store, body=b"2")
    await ack_all(store)
    clock.advance(seconds=4 * 3_600)
    for _ in range(3):
        await store.pruner.prune(SYSTEM, ALL, archive=archive)
    assert await history(store) == ()
    lines = [
        json.loads(line)
        for file in sorted(tmp_path.glob("history-*.jsonl.gz"))  # noqa: ASYNC240
        for line in gzip.decompress(file.read_bytes()).splitlines()
    ]
    bodies = {(line["id"], json.dumps(line["body"]), line["outcome"]) for line in lines}
    assert bodies == {(str(early.id), '{"a": 1}', "done"), (str(late.id), "2", "done")}
    assert len(lines) == 2
