"""The list of a queue's messages: in order, filtered, page by page."""

from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from tests.conformance.acts import new
from tests.stores.clock import VirtualClock
from tickwork.core.message.message_list import LOOKED_AT_MAX, MessageSelection, ShownState
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Message,
    QueueSettings,
    Scope,
    State,
    Tenant,
)
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

EVERY = MessageSelection()


async def pages(
    store: Store,
    selection: MessageSelection = EVERY,
    size: int = 2,
    scope: Scope = DEFAULT,
    looked_at_max: int = LOOKED_AT_MAX,
) -> list[Message]:
    found: list[Message] = []
    after = None
    while True:
        page = await store.messages.list(
            scope, "q", selection, size, after=after, looked_at_max=looked_at_max
        )
        found += page.messages
        after = page.next
        if after is None:
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
        assert [names[page.id] for page in await pages(store, size=size)] == expected

    async def of(state: ShownState) -> list[str]:
        return [names[page.id] for page in await pages(store, MessageSelection(state=state), 2)]

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
        assert [page.id for page in await pages(store, selection)] == [old.id]
    of_key = await pages(store, MessageSelection(key="k"))
    assert [message.id for message in of_key] == [old.id, blocked.id]
    assert await pages(store, MessageSelection(type="c")) == []


async def test_a_tenant_lists_only_its_own_messages_of_a_shared_queue(store: Store) -> None:
    await store.queues.put(SYSTEM, "q", QueueSettings())
    await store.tenants.put(SYSTEM, Tenant(id="acme"))
    await store.messages.send(DEFAULT, "q", new())
    own = new()
    await store.messages.send(Scope("acme"), "q", own)
    assert [page.id for page in await pages(store, scope=Scope("acme"))] == [own.id]


SENT = 12
NAMES = {"type": "rare", "key": "k2", "correlation_id": "c"}


async def fill(store: Store, clock: VirtualClock) -> tuple[list[Message], datetime]:
    """Messages of every state and priority, of which one in four is of the type `rare`, and the
    time at which half of them were sent."""
    await store.queues.put(DEFAULT, "q", QueueSettings())
    await store.queues.put(DEFAULT, "other", QueueSettings())
    half = clock.now()
    for number in range(SENT):
        await store.messages.send(
            DEFAULT,
            "q",
            new(
                type="rare" if number % 4 == 0 else "common",
                priority=(9, 4, 0)[number % 3],
                key=f"k{number % 3}" if number % 2 else None,
                correlation_id="c" if number % 5 == 0 else None,
                delay_seconds=60.0 if number % 7 == 0 else 0.0,
            ),
        )
        await store.messages.send(DEFAULT, "other", new(type="rare", key="k2", correlation_id="c"))
        if number == SENT // 2:
            half = clock.now()
            clock.advance(seconds=1)
    request = ClaimRequest(queue="q", holder=new_id(), limit=3, lease_seconds=600)
    await store.messages.claim(DEFAULT, request)
    return await pages(store, size=100), half


def is_selected(message: Message, selection: MessageSelection, now: datetime) -> bool:
    named = {name: getattr(selection, name) for name in NAMES}
    return (
        all(value in (None, getattr(message, name)) for name, value in named.items())
        and (selection.state is None or is_of(message, selection.state, now))
        and (selection.sent_until is None or message.sent_at <= selection.sent_until)
    )


def is_of(message: Message, state: ShownState, now: datetime) -> bool:
    match state:
        case ShownState.DELAYED:
            return message.state is State.READY and message.visible_at > now
        case ShownState.READY:
            return message.state is State.READY and message.visible_at <= now
        case ShownState.CLAIMED:
            return message.state is State.CLAIMED
        case ShownState.BLOCKED:
            return message.state is State.BLOCKED


@pytest.mark.parametrize("looked_at_max", [1, 5])
async def test_every_message_that_matches_is_found_once_over_the_pages(
    store: Store, clock: VirtualClock, looked_at_max: int
) -> None:
    every, half = await fill(store, clock)
    assert len({message.id for message in every}) == SENT
    now = clock.now()
    states: list[ShownState | None] = [None, *ShownState]
    each_alone = ({name: value} for name, value in NAMES.items())
    filters: list[dict[str, Any]] = [{}, *each_alone, NAMES, {"sent_until": half}]
    for state, fields in product(states, filters):
        selection = MessageSelection(state=state, **fields)
        found = await pages(store, selection, 3, looked_at_max=looked_at_max)
        expected = {message.id for message in every if is_selected(message, selection, now)}
        assert len(found) == len(expected), selection
        assert {message.id for message in found} == expected, selection


async def test_a_page_looks_at_a_limited_number_of_messages(
    store: Store, clock: VirtualClock
) -> None:
    await fill(store, clock)  # 3 claimed, 6 ready or delayed, 3 blocked; 6 have a key
    for selection, looked_at in (
        (MessageSelection(type="none"), 6 + 6),
        (MessageSelection(sent_until=datetime(2000, 1, 1, tzinfo=UTC)), 6 + 6),
        (MessageSelection(key="k1", type="none"), 2),
        (MessageSelection(correlation_id="c", type="none"), 3),
    ):
        number, after = 0, None
        while True:
            page = await store.messages.list(
                DEFAULT, "q", selection, 100, after=after, looked_at_max=2
            )
            assert page.messages == ()
            number, after = number + 1, page.next
            if after is None:
                break
        # Messages of other queues with the same correlation id may be looked at too.
        assert number >= looked_at // 2, selection


async def test_messages_of_a_key_are_listed_as_they_wait_in_line(store: Store) -> None:
    await store.queues.put(DEFAULT, "q", QueueSettings())
    sent = [new(key="k", priority=number % 3) for number in range(5)]
    for message in sent:
        await store.messages.send(DEFAULT, "q", message)
    found = await pages(store, MessageSelection(key="k"))
    assert [message.id for message in found] == [message.id for message in sent]
