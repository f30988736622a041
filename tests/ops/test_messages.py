"""Messages are found by id and shown without claiming them, on both stores."""

from __future__ import annotations

import pytest

from tests.conformance.acts import WORK, make_queue, make_tenants, send
from tickwork.core.message.message_list import MessageSelection
from tickwork.core.model import DEFAULT, SYSTEM, Scope
from tickwork.errors import NotFound
from tickwork.ops import messages
from tickwork.ops.context import Context
from tickwork.ops.messages import delete_message, first_messages, get_message, peek
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def test_a_message_is_found_by_its_id_in_whichever_queue(store: Store) -> None:
    await make_queue(store)
    await make_queue(store, "emails")
    message = await send(store, queue="emails")
    found = await get_message(Context(store, DEFAULT), message.id)
    assert found.id == message.id
    assert await get_message(Context(store, DEFAULT), message.id, queue="emails") == found
    assert await get_message(Context(store, SYSTEM), message.id) == found
    with pytest.raises(NotFound):
        await get_message(Context(store, DEFAULT), new_id())


async def test_a_tenant_does_not_find_the_message_of_another(store: Store) -> None:
    await make_tenants(store, "ada")
    await make_queue(store)
    await make_queue(store, "shared", scope=SYSTEM)
    message = await send(store, queue="shared")
    with pytest.raises(NotFound):
        await get_message(Context(store, Scope("ada")), message.id)


async def test_peek_shows_messages_and_leaves_them_ready(store: Store) -> None:
    await make_queue(store)
    first, second = await send(store), await send(store)
    for _ in range(2):
        assert [message.id for message in await peek(Context(store, DEFAULT), WORK)] == [
            first.id,
            second.id,
        ]
    assert [message.id for message in await peek(Context(store, DEFAULT), WORK, limit=1)] == [
        first.id
    ]
    assert await delete_message(Context(store, DEFAULT), WORK, first.id)
    assert not await delete_message(Context(store, DEFAULT), WORK, first.id)


async def test_the_first_messages_are_found_however_many_it_has_to_look_at(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "LOOKED_AT_MAX", 2)
    await make_queue(store)
    sent = [await send(store, type="rare" if number % 4 == 3 else "common") for number in range(9)]
    rare, selection = [sent[3].id, sent[7].id], MessageSelection(type="rare")
    for limit in (1, 2, 3):
        found = await first_messages(Context(store, DEFAULT), WORK, selection, limit=limit)
        assert [message.id for message in found] == rare[:limit]
