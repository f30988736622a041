"""Claims messages and settles them, without end, until it is killed.

    python -m tests.faults.programs.worker URL HISTORY NAME SEED TTL_SECONDS

What it does with a message is up to chance: acknowledge it with a message to `outputs`, do so
jointly with an effect of its own, have it delivered again, or give it back. A message that cost
others their life it takes when it holds nothing else.

Points: `claimed`, `settling`, `writing` (inside the open transaction), `settled`.
"""

import asyncio
import random
import sys
from collections.abc import Sequence
from inspect import isawaitable
from pathlib import Path
from typing import Any, Literal

from tests.faults.membership import Membership
from tests.faults.open_store import opened
from tests.faults.tables import writing
from tests.kit.history import Call, HistoryWriter
from tests.kit.points import reach
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
from tickwork.errors import ClaimLost, NodeExpired, StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.message_contract import Joined

INPUTS, OUTPUTS = "inputs", "outputs"
PREFETCH = 10
PREFETCH_TO_DRAIN = 500
IDLE_SECONDS = 0.05

Way = Literal["plain", "joint", "retry", "release"]
WAYS: tuple[Way, ...] = ("plain", "joint", "retry", "release")
WEIGHTS = (8, 8, 3, 1)


class Worker:
    """One process's handling of messages, all of it written into the history."""

    def __init__(
        self, store: Store, member: Membership, history: HistoryWriter, *, url: str, name: str
    ) -> None:
        self._store, self._member, self._history = store, member, history
        self._url, self._name = url, name

    async def run(self, chance: random.Random) -> None:
        queue = await self._store.queues.get(SYSTEM, INPUTS)
        async with self._store.wakeups.watch([queue.id]) as watch:
            while True:
                if not await self.step(chance):
                    await watch.wait(IDLE_SECONDS)

    async def step(self, chance: random.Random | None) -> int:
        """Handles what there is; says how many. Without chance every message is done."""
        node_id = self._member.node_id
        limit = PREFETCH if chance else PREFETCH_TO_DRAIN
        try:
            messages = await self._claim(limit) or await self._claim(1, separate=True)
            reach("claimed")
            await self._settle(messages, chance)
        except NodeExpired:
            await self._member.join_again(node_id)
            return 0
        except StoreUnavailable as error:
            self._history.info("unavailable", error=str(error))
            await self._give_back()
            return 0
        return len(messages)

    async def _claim(self, limit: int, *, separate: bool = False) -> tuple[Message, ...]:
        holder = self._member.node_id
        call = self._history.invoke("claim")
        request = ClaimRequest(queue=INPUTS, holder=holder, limit=limit, separate=separate)
        messages = await self._store.messages.claim(SYSTEM, request)
        for message in messages:
            facts = {"claim": message.claim, "attempts": message.attempts, "node": str(holder)}
            self._history.ok(call, message=str(message.id), **facts)
        return messages

    async def _settle(self, messages: Sequence[Message], chance: random.Random | None) -> None:
        apart: list[Ending] = []
        for message in messages:
            way: Way = chance.choices(WAYS, WEIGHTS)[0] if chance else "plain"
            if way == "joint":
                await self._settle_jointly(_ending(message, way))
            else:
                apart.append(_ending(message, way))
        await self._settle_together(apart)

    async def _settle_together(self, endings: Sequence[Ending]) -> None:
        calls = [(self._invoke("settle", ending.claim), ending.claim) for ending in endings]
        reach("settling")
        result = await self._store.messages.settle(SYSTEM, Settlement(tuple(endings)))
        for call, held in calls:
            answer = self._history.fail if held in result.refused else self._history.ok
            answer(call, message=str(held.id), claim=held.number)
        reach("settled")

    async def _settle_jointly(self, ending: Ending) -> None:
        held = ending.claim
        call = self._invoke("settle", held)
        effect = _reaching(writing(self._url, str(held.id), self._name))
        try:
            await self._store.messages.settle_jointly(SYSTEM, Settlement((ending,)), effect)
        except ClaimLost:
            self._history.fail(call, message=str(held.id), claim=held.number)
        else:
            self._history.ok(call, message=str(held.id), claim=held.number)

    async def _give_back(self) -> None:
        """After an unknown answer: whatever the node still holds it does not know of."""
        self._history.info("giving_back", node=str(self._member.node_id))
        try:
            await self._store.nodes.give_back_unknown(SYSTEM, self._member.node_id, [])
        except StoreUnavailable as error:
            self._history.info("unavailable", error=str(error))

    def _invoke(self, op: str, held: Claim) -> Call:
        return self._history.invoke(op, message=str(held.id), claim=held.number)


def _ending(message: Message, way: Way) -> Ending:
    if way in ("retry", "release"):
        return Ending(claim=message.current_claim, fate=Fate(way), error="by chance")
    output = NewMessage(id=new_id(), body=b"1", type=way, causation_id=str(message.id))
    return Ending(claim=message.current_claim, fate=Fate.ACK, sends=(Send(OUTPUTS, output),))


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


async def main(url: str, history_path: str, name: str, seed: str, ttl_seconds: str) -> None:
    history, ttl = HistoryWriter(Path(history_path), name), float(ttl_seconds)
    async with opened(url) as store, Membership(store, name, ttl_seconds=ttl) as member:
        await Worker(store, member, history, url=url, name=name).run(random.Random(seed))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
