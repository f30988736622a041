"""Claims messages and ends each in one of the ways it was told, until it is killed.

    python -m tests.faults.programs.handler URL HISTORY NAME ORDERS

Whatever it acks it sends on to `outputs`: with the message's event, or else its id, as the cause
and the queue and the way as the type. Or it publishes that, for `outputs` to subscribe to. A
message that cost others their life it takes when it holds nothing else.

Points: `claimed`, `settling`, `writing` and `written` (inside the open transaction), `settled`;
on PostgreSQL also `completing`: a batch was seen to have ended, and nobody was told yet. As in
all these programs there is one before every statement, too, and `settlement` before those of one.
"""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from tests.faults.membership import Membership
from tests.faults.open_store import opened
from tests.faults.programs import statements
from tests.faults.tables import writing
from tests.kit.history import Call, HistoryWriter
from tests.kit.points import reach
from tests.kit.waiting import delay
from tickwork.core.model import (
    SYSTEM,
    Claim,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    NewMessage,
    Send,
    Settlement,
)
from tickwork.errors import ClaimLost, EventDone, NodeExpired
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.message_contract import Joined
from tickwork.store.postgres.messages.batch_progress import BatchProgress

PROGRAM = "tests.faults.programs.handler"
POINTS = ("claimed", "settling", "settled", statements.POINT)
SETTLEMENT = "settlement"
OUTPUTS = "outputs"
IDLE_SECONDS = 0.05
PULL_SECONDS = 0.5
AGAIN_SECONDS_MAX = 0.03
CERTAIN = 0.9
"""So much of a lease is over before it can have ended, whatever two clocks make of a second."""

Way = Literal["plain", "publish", "joint", "retry", "release", "dead"]

Ways: TypeAlias = dict[Way, int]
"""How often each way is taken."""


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """What to do: for each queue, how often which way of ending a message is taken."""

    ways: dict[str, Ways]
    seed: int = 0
    limit: int = 4
    together: int = 1
    """So many claim at the same time."""
    pulls: float = 0.0
    """The share of claims that have a lease of their own."""
    busy_seconds_max: float = 0.0
    ttl_seconds: float = 0.7


class Handler:
    """One process's handling of messages, all of it written into the history."""

    def __init__(
        self, store: Store, member: Membership, history: HistoryWriter, *, url: str, orders: Orders
    ) -> None:
        self._store, self._member, self._history = store, member, history
        self._url, self._orders = url, orders
        self._chance = random.Random(orders.seed)

    async def run(self) -> None:
        await asyncio.gather(*(self._handle_for_ever() for _ in range(self._orders.together)))

    async def step(self) -> int:
        """Handles what there is; says how many."""
        node_id, handled = self._member.node_id, 0
        try:
            for queue in self._orders.ways:
                messages = await self._claim(queue) or await self._claim(queue, separate=True)
                reach("claimed")
                await delay(self._chance.uniform(0, self._orders.busy_seconds_max))
                await self._settle(queue, messages)
                handled += len(messages)
        except NodeExpired:
            await self._member.join_again(node_id)
        return handled

    async def _handle_for_ever(self) -> None:
        queues = [await self._store.queues.get(SYSTEM, name) for name in self._orders.ways]
        async with self._store.wakeups.watch([queue.id for queue in queues]) as watch:
            while True:
                if not await self.step():
                    await watch.wait(IDLE_SECONDS)

    async def _claim(self, queue: str, *, separate: bool = False) -> tuple[Message, ...]:
        holder, facts = self._member.node_id, dict[str, object]()
        lease_seconds = None
        if self._chance.random() < self._orders.pulls:
            holder, lease_seconds = new_id(), PULL_SECONDS
            facts["until_ns"] = time.monotonic_ns() + int(PULL_SECONDS * CERTAIN * 1e9)
        request = ClaimRequest(
            queue=queue,
            holder=holder,
            limit=self._orders.limit,
            lease_seconds=lease_seconds,
            separate=separate,
        )
        call = self._history.invoke("claim")
        messages = await self._store.messages.claim(SYSTEM, request)
        for message in messages:
            told = {"node": str(holder), "tenant": f"{message.tenant}/{queue}", **facts}
            if message.key is not None:
                told["key"] = f"{message.tenant}/{queue}/{message.key}"
            self._history.ok(call, **self._facts(queue, message.current_claim), **told)
        return messages

    async def _settle(self, queue: str, messages: Sequence[Message]) -> None:
        apart: list[Ending] = []
        ways = self._orders.ways[queue]
        for message in messages:
            way = self._chance.choices([*ways], [*ways.values()])[0]
            if way == "joint":
                await self._settle_jointly(queue, message, self._ending(message, queue, way))
            else:
                apart.append(self._ending(message, queue, way))
        if apart:
            await self._settle_together(queue, apart)

    async def _settle_together(self, queue: str, endings: Sequence[Ending]) -> None:
        calls = [(self._invoke(queue, ending.claim), ending.claim) for ending in endings]
        reach("settling")
        with statements.stretch(SETTLEMENT):
            result = await self._store.messages.settle(SYSTEM, Settlement(tuple(endings)))
        for call, held in calls:
            answer = self._history.fail if held in result.refused else self._history.ok
            answer(call, **self._facts(queue, held))
        reach("settled")

    async def _settle_jointly(self, queue: str, message: Message, ending: Ending) -> None:
        held, cause = message.current_claim, cause_of(message)
        call = self._invoke(queue, held)
        effect = _reaching(writing(self._url, cause, str(held.id)))
        try:
            await self._store.messages.settle_jointly(SYSTEM, Settlement((ending,)), effect)
        except (ClaimLost, EventDone) as error:
            self._history.fail(call, **self._facts(queue, held))
            if isinstance(error, EventDone):
                await self._settle_together(queue, [Ending(claim=held, fate=Fate.ACK)])
        else:
            self._history.ok(call, **self._facts(queue, held))

    def _ending(self, message: Message, queue: str, way: Way) -> Ending:
        if way in ("retry", "release"):
            seconds = self._chance.choice((0.0, self._chance.uniform(0, AGAIN_SECONDS_MAX)))
            return Ending(claim=message.current_claim, fate=Fate(way), delay_seconds=seconds)
        if way == "dead":
            return Ending(
                claim=message.current_claim, fate=Fate.DEAD, reason="permanent", error="by chance"
            )
        cause = cause_of(message)
        output = NewMessage(id=new_id(), body=b"1", type=f"{queue}.{way}", causation_id=cause)
        sent = Send(None if way == "publish" else OUTPUTS, output)
        return Ending(claim=message.current_claim, fate=Fate.ACK, sends=(sent,))

    def _invoke(self, queue: str, held: Claim) -> Call:
        return self._history.invoke("settle", **self._facts(queue, held))

    def _facts(self, queue: str, held: Claim) -> dict[str, object]:
        """Which handing-out. A message that moved on to another queue is another one there."""
        is_first = queue == next(iter(self._orders.ways))
        name = str(held.id) if is_first else f"{queue}/{held.id}"
        return {"message": name, "claim": held.number}


def cause_of(message: Message) -> str:
    """What its effect is counted by."""
    return message.event_id or str(message.id)


def _reaching(effect: Joined) -> Joined:
    """The effect, with a point inside the transaction before and after it."""

    def write(connection: Any) -> Any:
        reach("writing")
        wanted = effect(connection)
        if isawaitable(wanted):
            return asyncio.ensure_future(_then_reach(wanted))
        reach("written")
        return None

    return write


async def _then_reach(wanted: Any) -> None:
    await wanted
    reach("written")


def stop_before_completing() -> None:
    """Puts a point between the look at a batch that has ended and its completion."""
    complete_with = BatchProgress._complete_with

    async def complete(self: BatchProgress, events: Any) -> int:
        reach("completing")
        return await complete_with(self, events)

    BatchProgress._complete_with = complete  # type: ignore[method-assign]


async def main(url: str, history_path: str, name: str, orders_json: str) -> None:
    statements.stop_before_statements()
    stop_before_completing()
    orders = msgspec.json.decode(orders_json, type=Orders)
    history = HistoryWriter(Path(history_path), name)
    ttl_seconds = orders.ttl_seconds
    async with opened(url) as store, Membership(store, name, ttl_seconds=ttl_seconds) as member:
        await Handler(store, member, history, url=url, orders=orders).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
