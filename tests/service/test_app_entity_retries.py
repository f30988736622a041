"""A send that fails keeps later sends of its entity waiting, and nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import ClassVar

import pytest

from tickwork import Entity, EntityBusy, read
from tickwork.core.entity.call import queue_of
from tickwork.core.model import DEFAULT, SYSTEM, Counts
from tickwork.facade.app import Tickwork
from tickwork.ops.context import Context
from tickwork.ops.entity_edits import put_value
from tickwork.testing import Harness, harness


class Account(Entity):
    """Holds money. Its bank may be down."""

    bank_is_down: ClassVar[bool]
    active: ClassVar[int]
    entered: ClassVar[asyncio.Event]
    leave: ClassVar[asyncio.Event]

    async def deposit(self, amount: int, *, through_bank: bool = False) -> int:
        type(self).active += 1
        try:
            assert self.active == 1, "two calls run at once"
            balance: int = await self.storage.get("balance", 0) + amount
            await asyncio.sleep(0)
            if through_bank and self.bank_is_down:
                raise ConnectionError("the bank is down")
            await self.storage.put("balance", balance)
            entries = await self.storage.get("entries", [])
            await self.storage.put("entries", [*entries, amount])
            return balance
        finally:
            type(self).active -= 1

    async def stay(self) -> None:
        self.entered.set()
        await self.leave.wait()

    async def remind(self, seconds: float) -> None:
        await self.set_alarm(self.now + timedelta(seconds=seconds))

    async def alarm(self, _info: object) -> None:
        await self.deposit(1_000)

    @read
    async def entries(self) -> list[int]:
        entries: list[int] = await self.storage.get("entries", [])
        return entries


@pytest.fixture
async def h(app: Tickwork, database: str | None) -> AsyncIterator[Harness]:
    app.entities.register(Account)
    Account.bank_is_down, Account.active = True, 0
    Account.entered, Account.leave = asyncio.Event(), asyncio.Event()
    async with harness(app, database=database) as made:
        yield made


async def test_a_direct_call_does_not_wait_for_the_retry_of_a_send(
    app: Tickwork, h: Harness
) -> None:
    ada = app.entity(Account, "ada")
    await ada.send.deposit(100, through_bank=True)
    await ada.send.deposit(7)
    await h.drain()
    assert await ada.deposit(1) == 1
    assert await asyncio.gather(*(ada.deposit(1) for _ in range(5))) == [2, 3, 4, 5, 6]
    await put_value(Context(h.store, DEFAULT), "Account", "ada", "note", "an operator passes, too")
    assert await ada.entries() == [1] * 6
    Account.bank_is_down = False
    await h.advance(seconds=30)
    assert await ada.entries() == [*[1] * 6, 100, 7]  # Sends keep their order.
    assert await h.store.queues.counts(SYSTEM, queue_of("Account")) == Counts()


async def test_an_alarm_passes_a_waiting_retry_and_waits_for_a_call_that_runs(
    app: Tickwork, h: Harness
) -> None:
    ada = app.entity(Account, "ada")
    await ada.remind(seconds=3)
    await ada.send.deposit(100, through_bank=True)
    await h.drain()  # The first retry is due after 2 seconds, the second after 6.
    await h.advance(seconds=4)
    assert await ada.entries() == [1_000]
    Account.bank_is_down = False
    await h.advance(seconds=10)
    assert await ada.entries() == [1_000, 100]


async def test_why_names_the_call_that_keeps_an_entity_and_until_when(
    app: Tickwork, h: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada = app.entity(Account, "ada")
    await ada.deposit(1)
    await ada.send.deposit(100, through_bank=True)
    await ada.send.deposit(7)
    await h.drain()
    retrying, blocked = await app.entities.why("Account", "ada")
    assert (retrying.code, retrying.until) == ("retrying", h.now + timedelta(seconds=2))
    assert "direct calls do not wait for it, later sends do" in retrying.details
    assert "waits for the call of deposit of Account 'ada' (msg_" in blocked.answer
    assert "which waits for its retry until 2026-" in blocked.answer

    staying = asyncio.ensure_future(ada.stay())
    await Account.entered.wait()
    running, retrying, blocked = await app.entities.why("Account", "ada")
    (caller,) = [node for node in await h.store.nodes.list(SYSTEM) if node.name in running.answer]
    assert running.code == "running"
    assert f"the call of stay of account 'ada' runs on {caller.name}" in running.answer.lower()
    assert running.until == caller.expires_at
    assert "is not retried" in running.next
    assert retrying.code == "blocked"
    assert f"which runs on {caller.name} since 2026-" in retrying.answer
    assert "Z (its lease lasts until 2026-" in retrying.answer
    assert any("its retry is due at" in detail for detail in retrying.details)
    assert blocked.code == "blocked"

    monkeypatch.setattr("tickwork.ops.entity_edits.CALL_WAIT_SECONDS_MAX", 0.05)
    with pytest.raises(EntityBusy, match=f"by the call of stay of Account 'ada'.*{caller.name}"):
        await put_value(Context(h.store, DEFAULT), "Account", "ada", "note", "too soon")
    Account.leave.set()
    await staying
