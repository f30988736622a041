"""Progress of a claimed message: recorded only by the holder of its claim, one row per name."""

import asyncio

import pytest

from tests.conformance.acts import (
    ack,
    claim_one,
    die,
    make_queue,
    make_tenants,
    pull_one,
    release,
    retry,
    send,
    settle,
)
from tests.stores.clock import VirtualClock
from tickwork.core.model import DEFAULT, SYSTEM, Claim, Message, Scope
from tickwork.errors import InvalidInput
from tickwork.store.contract import Store
from tickwork.store.ids import new_id


async def record(store: Store, message: Message, *, scope: Scope = DEFAULT, **rows: str) -> bool:
    return await store.progress.record(scope, message.current_claim, message.work_key, rows)


async def test_a_holder_records_rows_and_keeps_its_claim(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    assert await store.progress.get(DEFAULT, message.work_key) == {}
    assert await record(store, message, first='{"a": 1}')
    assert await record(store, message, scope=SYSTEM, second="true", third="null")
    found = await store.progress.get(DEFAULT, message.work_key)
    assert found == {"first": '{"a": 1}', "second": "true", "third": "null"}
    assert (await settle(store, ack(message))).refused == ()
    assert await store.progress.get(DEFAULT, message.work_key) == found


async def test_a_repeat_is_one_row_and_the_last_value_stays(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    for value in ("1", "1", "2"):
        assert await record(store, message, step=value)
    assert await store.progress.get(DEFAULT, message.work_key) == {"step": "2"}


async def test_the_rows_stay_for_the_next_attempt(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    await record(store, message, step="1")
    await settle(store, retry(message))
    again = await claim_one(store)
    assert await record(store, again, other="2")
    assert await store.progress.get(DEFAULT, again.work_key) == {"step": "1", "other": "2"}


async def test_a_lost_claim_records_nothing(store: Store, clock: VirtualClock) -> None:
    await make_queue(store)
    await send(store)
    lost = await claim_one(store)
    await die(store, clock)
    assert not await record(store, lost, step="1")
    held = await claim_one(store)
    assert not await record(store, lost, step="1")
    await settle(store, release(held))
    assert not await record(store, held, step="1")
    done = await claim_one(store)
    await settle(store, ack(done))
    assert not await record(store, done, step="1")
    assert await store.progress.get(DEFAULT, lost.work_key) == {}


async def test_only_the_holder_of_the_same_number_records(store: Store) -> None:
    await make_queue(store)
    await send(store)
    message = await claim_one(store)
    held = message.current_claim
    for wrong in (
        Claim(held.tenant, held.id, held.number + 1, held.holder),
        Claim(held.tenant, held.id, held.number, new_id()),
        Claim(held.tenant, new_id(), held.number, held.holder),
        Claim("other", held.id, held.number, held.holder),
        Claim(held.tenant, held.id, -1, held.holder),
    ):
        assert not await store.progress.record(SYSTEM, wrong, message.work_key, {"step": "1"})
    assert await store.progress.get(DEFAULT, message.work_key) == {}


async def test_another_tenant_sees_and_records_nothing(store: Store) -> None:
    await make_tenants(store, "ann", "ben")
    await make_queue(store, scope=SYSTEM)
    await send(store, scope=Scope("ann"))
    message = await claim_one(store, scope=SYSTEM)
    assert not await record(store, message, scope=Scope("ben"), step="1")
    assert await record(store, message, scope=Scope("ann"), step="2")
    assert await store.progress.get(Scope("ben"), message.work_key) == {}
    assert await store.progress.get(Scope("ann"), message.work_key) == {"step": "2"}


async def test_many_record_at_once_and_a_lost_claim_fails_none_of_them(store: Store) -> None:
    await make_queue(store)
    messages = []
    for _ in range(20):
        await send(store)
        messages.append(await pull_one(store))
    await settle(store, *map(ack, messages[::5]))
    recorded = await asyncio.gather(
        *(record(store, message, step=str(at)) for at, message in enumerate(messages))
    )
    assert recorded == [at % 5 > 0 for at in range(20)]
    for at, message in enumerate(messages):
        found = await store.progress.get(DEFAULT, message.work_key)
        assert found == ({"step": str(at)} if at % 5 else {})


@pytest.mark.parametrize(
    ("work", "rows", "field"),
    [
        ("", {"a": "1"}, "work"),
        ("x" * 513, {"a": "1"}, "work"),
        ("x", {}, "rows"),
        ("x", {"": "1"}, "rows"),
        ("x", {"a": "\0"}, "rows.a"),
        ("x", {str(at): "1" for at in range(101)}, "rows"),
    ],
)
async def test_rows_that_cannot_be_kept_are_refused(
    store: Store, work: str, rows: dict[str, str], field: str
) -> None:
    claim = Claim("default", new_id(), 1, new_id())
    with pytest.raises(InvalidInput) as refused:
        await store.progress.record(DEFAULT, claim, work, rows)
    assert field in [error.field for error in refused.value.errors]
