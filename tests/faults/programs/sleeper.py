"""Claims one message, is frozen on the way, and tells what it was answered after it woke.

    python -m tests.faults.programs.sleeper URL plain|joint TTL_SECONDS

Points: `claimed`, and for a joint settlement `writing` inside its open transaction. It says one
word per answer: of the settlement, of a heartbeat and of a claim.
"""

import asyncio
import sys
from collections.abc import Awaitable
from typing import Any

from tests.faults import tables
from tests.faults.open_store import opened
from tests.faults.steps import claim, claim_one, ending, join, settle
from tests.kit.points import reach
from tickwork.core.model import DEFAULT, SYSTEM, Message, Settlement
from tickwork.errors import TickworkError
from tickwork.store.contract import Store
from tickwork.store.message_contract import Joined

NAME = "sleeper"


async def settled(store: Store, message: Message) -> str:
    result = await settle(store, ending(message, sends=1))
    return "refused" if result.refused else "settled"


async def settled_jointly(store: Store, message: Message, url: str) -> str:
    effect = _reaching(tables.writing(url, str(message.id), NAME))
    await store.messages.settle_jointly(DEFAULT, Settlement((ending(message, sends=1),)), effect)
    return "settled"


async def answer(asked: Awaitable[object]) -> str:
    """What it returned, or the name of what it raised."""
    try:
        return str(await asked)
    except TickworkError as error:
        return type(error).__name__


def _reaching(effect: Joined) -> Joined:
    def write(connection: Any) -> Any:
        reach("writing")
        return effect(connection)

    return write


async def main(url: str, way: str, ttl_seconds: str) -> None:
    async with opened(url) as store:
        node_id = await join(store, float(ttl_seconds))
        message = await claim_one(store, node_id)
        reach("claimed", node=str(node_id))
        if way == "joint":
            said = await answer(settled_jointly(store, message, url))
        else:
            said = await answer(settled(store, message))
        sys.stdout.write(f"{said}\n")
        sys.stdout.write(
            f"{await answer(store.nodes.heartbeat(SYSTEM, node_id, float(ttl_seconds)))}\n"
        )
        sys.stdout.write(f"{await answer(claim(store, node_id))}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
