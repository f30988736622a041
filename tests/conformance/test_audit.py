"""The audit log: stored per tenant, listed newest first, kept for a year."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import date

import pytest
from msgspec import structs

from tests.conformance import schedule_acts
from tests.conformance.acts import kill_all, make_queue, news, send
from tests.conformance.endpoint_acts import make_endpoint
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.access import Permission
from tickwork.core.api_key import NewApiKey
from tickwork.core.audit import AUDIT_RETENTION_SECONDS, AuditRecord, NewAuditRecord
from tickwork.core.message.batch import NewBatch
from tickwork.core.message.dead_letter import Pace, Selection
from tickwork.core.model import DEFAULT, SYSTEM, ContentType, QueueSettings, Scope, Tenant
from tickwork.core.queue.named_limit import NamedLimit
from tickwork.core.schedule.model import ScheduleSelection
from tickwork.errors import NotFound
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)


def change(action: str = "queue.put") -> NewAuditRecord:
    return NewAuditRecord(id=new_id(), actor="key k1", action=action, subject="q", after='{"a":1}')


def new_key(key_id: str) -> NewApiKey:
    return NewApiKey(
        id=key_id, name="k", scopes=(Permission.READ,), secret_hash=b"s" * 32, owner=None,
        expires_at=None,
    )  # fmt: skip


async def test_a_record_is_stored_as_given(store: Store, clock: VirtualClock) -> None:
    new = change()
    await store.audit.add(DEFAULT, new)
    assert await store.audit.list(DEFAULT, 10) == (
        AuditRecord(
            id=new.id,
            tenant="default",
            at=clock.now(),
            actor="key k1",
            action="queue.put",
            subject="q",
            before=None,
            after={"a": 1},
        ),
    )


async def test_records_are_listed_newest_first_in_pages_of_their_tenant(store: Store) -> None:
    await store.tenants.put(SYSTEM, Tenant(id="other"))
    made = [change() for _ in range(5)]
    for record in made:
        await store.audit.add(DEFAULT, record)
    await store.audit.add(Scope("other"), change())
    first = await store.audit.list(DEFAULT, 3)
    rest = await store.audit.list(DEFAULT, 3, before=first[-1].id)
    assert [record.id for record in (*first, *rest)] == [record.id for record in reversed(made)]
    assert len(await store.audit.list(Scope("other"), 10)) == 1
    with pytest.raises(NotFound):
        await store.audit.add(Scope("nobody"), change())


async def test_records_are_kept_for_a_year(store: Store, clock: VirtualClock) -> None:
    await store.audit.add(DEFAULT, change())
    clock.advance(seconds=AUDIT_RETENTION_SECONDS - 1)
    await store.pruner.prune(SYSTEM, 100)
    assert len(await store.audit.list(DEFAULT, 10)) == 1
    clock.advance(seconds=1)
    await store.pruner.prune(SYSTEM, 100)
    assert await store.audit.list(DEFAULT, 10) == ()


Act = Callable[[Store], Awaitable[object]]


class Refused(Exception):
    """The record cannot be made, so the change must not be stored."""


def refuse() -> NewAuditRecord:
    raise Refused


async def state_of(store: Store) -> list[object]:
    """Everything that the changes below touch."""
    queues = await store.queues.list(DEFAULT)
    schedules = await store.schedules.list(DEFAULT, ScheduleSelection(), 10)
    return [
        await store.tenants.list(SYSTEM, 10), queues, schedules,
        [await store.queues.counts(DEFAULT, queue.name) for queue in queues],
        await store.limits.list(DEFAULT), await store.subscriptions.list(DEFAULT),
        await store.calendars.list(DEFAULT), await store.keys.list(DEFAULT, 10),
        await store.endpoints.list(DEFAULT, 10), await store.secrets.get(DEFAULT, "o", "f"),
        (await store.dead_letters.list(DEFAULT, "work", Selection(limit=10))).letters,
        await store.batches.list(DEFAULT, 10), len(await store.shards.list(SYSTEM)),
    ]  # fmt: skip


async def changes(store: Store, clock: VirtualClock) -> dict[str, Act]:
    """Every change that is recorded, in a store with something to change."""
    await make_queue(store)
    await make_queue(store, "empty")
    waiting = await send(store)
    await kill_all(store)
    waiting = await send(store)
    (letter,) = (await store.dead_letters.list(DEFAULT, "work", Selection(limit=10))).letters
    known = await schedule_acts.create(store, clock)
    endpoint = await make_endpoint(store)
    limit, batch = NamedLimit(name="l", rate=1.0), NewBatch(id=new_id(), queue="empty")
    await store.limits.put(DEFAULT, NamedLimit(name="gone", rate=1.0))
    await store.subscriptions.put(DEFAULT, "gone.*", "empty")
    await store.calendars.put(DEFAULT, "gone", [date(2027, 1, 1)])
    await store.keys.create(DEFAULT, new_key("old"))
    await store.secrets.put(DEFAULT, "o", "f", b"secret")
    await store.batches.open(DEFAULT, batch)
    await store.batches.add(DEFAULT, batch, news(2))
    settings = QueueSettings(max_retries=9)
    other = structs.replace(endpoint, id=new_id(), name="other")
    return {
        "tenant": lambda s: s.tenants.put(SYSTEM, Tenant(id="new")),
        "queue": lambda s: s.queues.put(DEFAULT, "work", settings),
        "pause": lambda s: s.queues.pause(DEFAULT, "work"),
        "delete queue": lambda s: s.queues.delete(DEFAULT, "gone"),
        "purge": lambda s: s.queues.purge(DEFAULT, "work"),
        "delete message": lambda s: s.messages.delete(DEFAULT, "work", waiting.id),
        "limit": lambda s: s.limits.put(DEFAULT, limit),
        "delete limit": lambda s: s.limits.delete(DEFAULT, "gone"),
        "subscribe": lambda s: s.subscriptions.put(DEFAULT, "a.*", "work"),
        "unsubscribe": lambda s: s.subscriptions.delete(DEFAULT, "gone.*", "empty"),
        "calendar": lambda s: s.calendars.put(DEFAULT, "c", [date(2027, 1, 1)]),
        "delete calendar": lambda s: s.calendars.delete(DEFAULT, "gone"),
        "key": lambda s: s.keys.create(DEFAULT, new_key("new")),
        "rotate": lambda s: s.keys.rotate(DEFAULT, "old", b"h" * 32, keep_seconds=0),
        "revoke": lambda s: s.keys.revoke(DEFAULT, "old"),
        "secret": lambda s: s.secrets.rotate(DEFAULT, "o", "f", b"new", keep_seconds=0),
        "delete secret": lambda s: s.secrets.delete(DEFAULT, "o"),
        "endpoint": lambda s: s.endpoints.create(DEFAULT, other),
        "disable": lambda s: s.endpoints.disable(DEFAULT, endpoint.id, "r"),
        "delete endpoint": lambda s: s.endpoints.delete(DEFAULT, endpoint.id),
        "edit": lambda s: s.dead_letters.edit(DEFAULT, letter.id, b"{}", ContentType.JSON),
        "replay": lambda s: s.dead_letters.replay(DEFAULT, "work", Selection(limit=1), Pace()),
        "discard": lambda s: s.dead_letters.discard(DEFAULT, "work", Selection(limit=1)),
        "cancel": lambda s: s.batches.cancel(DEFAULT, batch.id),
        "close": lambda s: s.batches.close(DEFAULT, batch.id),
        "schedule": lambda s: schedule_acts.create(s, clock),
        "bulk": lambda s: s.schedules.create_bulk(DEFAULT, [schedule_acts.new_schedule(clock)]),
        "pause schedule": lambda s: schedule_acts.pause(s, known),
        "reshard": lambda s: s.shards.replace(SYSTEM, 8),
    }


async def test_a_change_and_its_record_are_stored_together_or_not_at_all(
    store: Store, clock: VirtualClock
) -> None:
    acts = await changes(store, clock)
    await make_queue(store, "gone")
    before = await state_of(store)
    for name, act in acts.items():
        with pytest.raises(Refused):
            async with store.audit.joined(DEFAULT, refuse):
                await act(store)
        assert await state_of(store) == before, f"{name} changed something without its record"


@pytest.mark.parametrize(
    "name", ["purge", "delete message", "unsubscribe", "replay", "discard", "schedule", "reshard"]
)
async def test_a_change_has_one_record(store: Store, clock: VirtualClock, name: str) -> None:
    act = (await changes(store, clock))[name]
    async with store.audit.joined(DEFAULT, change):
        await act(store)
        await act(store)
    assert len(await store.audit.list(DEFAULT, 10)) == 1


@pytest.mark.parametrize("name", ["purge", "unsubscribe", "replay", "discard", "message", "limit"])
async def test_what_changes_nothing_has_no_record(store: Store, name: str) -> None:
    await make_queue(store)
    acts: dict[str, Act] = {
        "purge": lambda s: s.queues.purge(DEFAULT, "work"),
        "unsubscribe": lambda s: s.subscriptions.delete(DEFAULT, "a.*", "work"),
        "replay": lambda s: s.dead_letters.replay(DEFAULT, "work", Selection(limit=1), Pace()),
        "discard": lambda s: s.dead_letters.discard(DEFAULT, "work", Selection(limit=1)),
        "message": lambda s: s.messages.delete(DEFAULT, "work", new_id()),
        "limit": lambda s: s.limits.delete(DEFAULT, "nothing"),
    }
    with suppress(NotFound):
        async with store.audit.joined(DEFAULT, change):
            await acts[name](store)
    assert await store.audit.list(DEFAULT, 10) == ()
