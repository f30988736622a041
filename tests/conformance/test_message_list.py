"""The list of a queue's messages: in order, filtered, page by page."""

from tests.conformance.acts import new
from tests.stores.clock import VirtualClock
from tickwork.core.message.message_list import (
    MessageSelection,
    ShownState,
    position_of,
)
from tickwork.core.model import DEFAULT, SYSTEM, ClaimRequest, Message, QueueSettings, Scope, Tenant
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

EVERY = MessageSelection()


async def pages(
    store: Store, selection: MessageSelection = EVERY, size: int = 2, scope: Scope = DEFAULT
) -> list[Message]:
    found: list[Message] = []
    while True:
        after = position_of(found[-1]) if found else None
        page = await store.messages.list(scope, "q", selection, size, after=after)
        found += page
        if len(page) < size:
            return found


async def test_messages_are_listed_claimed_first_then_as_they_are_claimed_then_blocked(
    store: Store, clock: VirtualClock
) -> None:
    await store.queues.put(DEFAULT, "q", QueueSettings())
    names: dict[object, str] = {}

    async def send(name: str, **options: object) -> None:
        message = new(**options)
        names[message.id] = name
        await store.messages.send(DEFAULT, "q", message)

    await send("claimed", priority=9)
    request = ClaimRequest(queue="q", holder=new_id(), limit=1, lease_seconds=30)
    await store.messages.claim(DEFAULT, request)
    for number in range(3):
        clock.advance(seconds=1)
        await send(f"ready {number}")
    await send("urgent", priority=7)
    await send("delayed", delay_seconds=60)
    await send("first of its key", key="k")
    await send("second of its key", key="k")
    expected = ["claimed", "urgent", "ready 0", "ready 1", "ready 2", "first of its key", "delayed",
                "second of its key"]  # fmt: skip
    for size in (1, 2, 3, 100):
        assert [names[each.id] for each in await pages(store, size=size)] == expected

    async def of(state: ShownState) -> list[str]:
        return [names[each.id] for each in await pages(store, MessageSelection(state=state), 2)]

    assert await of(ShownState.CLAIMED) == ["claimed"]
    assert await of(ShownState.DELAYED) == ["delayed"]
    assert await of(ShownState.BLOCKED) == ["second of its key"]
    assert await of(ShownState.READY) == expected[1:6]


async def test_a_list_is_filtered_by_type_key_correlation_and_age(
    store: Store, clock: VirtualClock
) -> None:
    await store.queues.put(DEFAULT, "q", QueueSettings())
    old = new(type="a", key="k", correlation_id="c")
    await store.messages.send(DEFAULT, "q", old)
    sent_at = clock.now()
    clock.advance(seconds=10)
    await store.messages.send(DEFAULT, "q", new(type="b", key="other"))
    blocked = new(type="b", key="k")
    await store.messages.send(DEFAULT, "q", blocked)
    for selection in (
        MessageSelection(type="a"),
        MessageSelection(correlation_id="c"),
        MessageSelection(sent_until=sent_at),
    ):
        assert [each.id for each in await pages(store, selection)] == [old.id]
    of_key = await pages(store, MessageSelection(key="k"))
    assert [each.id for each in of_key] == [old.id, blocked.id]
    assert await pages(store, MessageSelection(type="c")) == []


async def test_a_tenant_lists_only_its_own_messages_of_a_shared_queue(store: Store) -> None:
    await store.queues.put(SYSTEM, "q", QueueSettings())
    await store.tenants.put(SYSTEM, Tenant(id="acme"))
    await store.messages.send(DEFAULT, "q", new())
    own = new()
    await store.messages.send(Scope("acme"), "q", own)
    assert [each.id for each in await pages(store, scope=Scope("acme"))] == [own.id]
