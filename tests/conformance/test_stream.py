"""The stream of a tenant: system events and changes in order, once, and only its own."""

from uuid import UUID

import pytest

from tests.conformance import schedule_acts
from tests.conformance.acts import kill, kill_all, make_queue, make_tenants, pull, send
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS
from tickwork.core.audit import new_record
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.core.stream import STREAM_RETENTION_SECONDS
from tickwork.ops.stream import BEHIND_EVENTS_MAX, StreamBehind, StreamReader
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

pytestmark = pytest.mark.parametrize("home", KINDS, indirect=True)

START = UUID(int=0)


async def change(store: Store, scope: Scope = DEFAULT, action: str = "queue.pause") -> None:
    await store.audit.add(scope, new_record(new_id(), "key k", action, "q", None, {"owner": "ada"}))


async def test_dead_messages_and_changes_are_in_the_stream_of_their_tenant(store: Store) -> None:
    one, two = await make_tenants(store, "one", "two")
    for scope in (one, two):
        await make_queue(store, scope=scope)
        await send(store, scope=scope, type=f"of-{scope.tenant}")
        await kill_all(store, scope=scope)
        await change(store, scope)
    for scope in (one, two):
        found = await store.stream.after(scope, START, 10)
        assert [event.type for event in found] == ["message.dead", "queue.pause"]
        assert {event.tenant for event in found} == {scope.tenant}
        assert found[0].data["type"] == f"of-{scope.tenant}"
        assert found[1].data == {"subject": "q", "actor": "key k"}
    everything = await store.stream.after(SYSTEM, START, 10)
    assert [event.id for event in everything] == sorted(event.id for event in everything)
    assert len(everything) == 4
    assert len(await store.stream.after(SYSTEM, everything[1].id, 1)) == 1


async def test_an_event_about_a_schedule_has_its_owner(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await schedule_acts.created_due(store, clock, owner="ada")
    (due,) = await pull(store)
    await kill(store, due)
    await change(store, action="schedule.pause")
    await change(store)
    found = await store.stream.after(DEFAULT, START, 10)
    owners = {event.type: event.owner for event in found}
    assert owners["firing.dead"] == owners["schedule.pause"] == "ada"
    assert owners["queue.pause"] is None


async def test_a_reader_gets_each_event_once_also_one_that_commits_late(store: Store) -> None:
    reader = StreamReader(store, DEFAULT, None)
    late = new_id()
    await change(store)
    assert len(await reader.new_events()) == 1
    assert await reader.new_events() == []
    await store.audit.add(DEFAULT, new_record(late, "key k", "queue.late", "q", None, None))
    (found,) = await reader.new_events()
    assert found.type == "queue.late"
    resumed = StreamReader(store, DEFAULT, found.id)
    await change(store, action="queue.resume")
    assert [event.type for event in await resumed.new_events()][-1] == "queue.resume"
    assert await resumed.new_events() == []


async def test_a_reader_that_is_too_far_behind_is_told(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tickwork.ops.stream.BEHIND_EVENTS_MAX", 3)
    monkeypatch.setattr("tickwork.ops.stream.PAGE_EVENTS", 2)
    reader = StreamReader(store, DEFAULT, None)
    for _ in range(3):
        await change(store)
    assert len(await reader.new_events()) == 3
    await change(store)
    with pytest.raises(StreamBehind):
        await reader.new_events()
    assert BEHIND_EVENTS_MAX > 1_000


async def test_system_events_are_kept_for_a_day(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    await kill_all(store)
    clock.advance(seconds=STREAM_RETENTION_SECONDS - 1)
    await store.pruner.prune(SYSTEM, 100)
    assert len(await store.stream.after(DEFAULT, START, 10)) == 1
    clock.advance(seconds=1)
    await store.pruner.prune(SYSTEM, 100)
    assert await store.stream.after(DEFAULT, START, 10) == ()
