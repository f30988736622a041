"""Sends messages as it was told, alone, in lists and in bulk, until it is killed.

    python -m tests.faults.programs.producer URL HISTORY NAME ORDERS

Points: `sending` before a call, `sent` after its answer is written down.
"""

import asyncio
import random
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tests.faults.open_store import opened
from tests.faults.programs import statements
from tests.kit.history import Call, HistoryWriter
from tests.kit.points import reach
from tests.kit.waiting import delay
from tickwork.core.model import NewMessage, Scope
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

PROGRAM = "tests.faults.programs.producer"
POINTS = ("sending", "sent", statements.POINT)
LIST_MAX = 4
PRIORITIES = 3
EVENTS_TOGETHER = 3
DELAY_SECONDS_MAX = 0.02
EXPIRY_SECONDS = 0.2


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What to send: with one of so many keys, one of so many events, as one of the tenants."""

    queue: str
    seed: int = 0
    tenants: tuple[str, ...] = ("default",)
    keys: int = 0
    keyed: float = 1.0
    """The share of messages that have a key, if there are keys."""
    events: int = 0
    expiring: float = 0.0
    """The share of messages that expire soon."""
    pause_seconds: float = 0.015


class Producer:
    def __init__(self, store: Store, history: HistoryWriter, orders: Orders) -> None:
        self._store, self._history, self._orders = store, history, orders
        self._chance = random.Random(orders.seed)
        self._sends = 0

    async def run(self) -> None:
        while True:
            await self.send(self._chance.choice(self._orders.tenants))
            await delay(self._orders.pause_seconds)

    async def send(self, tenant: str) -> None:
        """One list of messages, in one of the ways there are."""
        self._sends += 1
        count = self._chance.choice((1, 1, LIST_MAX))
        messages = [self._message() for _ in range(count)]
        calls = [*self._invoke(tenant, messages)]
        reach("sending")
        scope, queue, store = Scope(tenant), self._orders.queue, self._store.messages
        if count == 1:
            await store.send(scope, queue, messages[0])
        elif self._chance.random() < 0.5:
            await store.send_batch(scope, queue, messages)
        else:
            await store.send_bulk(scope, queue, messages)
        for call, message in zip(calls, messages, strict=True):
            self._history.ok(call, message=str(message.id))
        reach("sent")

    def _invoke(self, tenant: str, messages: Sequence[NewMessage]) -> list[Call]:
        sent_as, calls = str(new_id()), []
        for place, message in enumerate(messages):
            facts: dict[str, object] = {"message": str(message.id)}
            if message.key is not None:
                key = f"{tenant}/{self._orders.queue}/{message.key}"
                facts |= {"key": key, "list": sent_as, "place": place}
            if message.event_id is not None:
                facts["event"] = message.event_id
            calls.append(self._history.invoke("send", **facts))
        return calls

    def _message(self) -> NewMessage:
        orders, chance = self._orders, self._chance
        has_key = orders.keys and chance.random() < orders.keyed
        expires_soon = chance.random() < orders.expiring
        return NewMessage(
            id=new_id(),
            body=b"1",
            key=self._key() if has_key else None,
            event_id=self._event() if orders.events else None,
            priority=chance.randrange(PRIORITIES),
            delay_seconds=chance.choice((0.0, 0.0, chance.uniform(0, DELAY_SECONDS_MAX))),
            expires_after_seconds=EXPIRY_SECONDS if expires_soon else None,
        )

    def _key(self) -> str:
        """Some of them often, so that much waits for its turn; others seldom."""
        keys = self._orders.keys
        return f"key-{min(self._chance.randrange(keys), self._chance.randrange(keys))}"

    def _event(self) -> str:
        """One of a few that move on with every send: producers are at the same ones together."""
        number = self._sends + self._chance.randrange(EVENTS_TOGETHER)
        return f"event-{min(number, self._orders.events - 1)}"


async def main(url: str, history_path: str, name: str, orders_json: str) -> None:
    statements.stop_before_statements()
    orders = msgspec.json.decode(orders_json, type=Orders)
    async with opened(url) as store:
        await Producer(store, HistoryWriter(Path(history_path), name), orders).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
