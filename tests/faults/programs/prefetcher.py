"""A worker that prefetches ten messages and handles them one by one; one of them kills it.

    python -m tests.faults.programs.prefetcher URL HISTORY NAME

A message that cost others their life is taken only when nothing else is held, and alone. It ends
when there is nothing left to do.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.faults.membership import Membership
from tests.faults.open_store import opened
from tests.faults.steps import QUEUE, claim, ending, settle
from tests.kit.history import HistoryWriter
from tests.kit.waiting import delay
from tickwork.core.model import DEFAULT, Message
from tickwork.errors import NodeExpired
from tickwork.store.contract import Store

PREFETCH = 10
TTL_SECONDS = 1.2
DEADLY = b"deadly"
IDLE_SECONDS = 0.05


async def handle(store: Store, message: Message, history: HistoryWriter) -> None:
    facts = {"claim": message.claim, "attempts": message.attempts, "lost": message.lost}
    history.info("handling", message=str(message.id), **facts)
    if message.body == DEADLY:
        os.kill(os.getpid(), signal.SIGKILL)
    call = history.invoke("settle", message=str(message.id), claim=message.claim)
    result = await settle(store, ending(message))
    answer = history.fail if result.refused else history.ok
    answer(call, message=str(message.id), claim=message.claim)


async def step(store: Store, member: Membership, history: HistoryWriter) -> None:
    node_id = member.node_id
    try:
        found = await claim(store, node_id, limit=PREFETCH)
        found = found or await claim(store, node_id, separate=True)
    except NodeExpired:
        await member.join_again(node_id)
        return
    history.info("claimed", messages=[str(message.id) for message in found])
    for message in found:
        await handle(store, message, history)
    if not found:
        await delay(IDLE_SECONDS)


async def main(url: str, history_path: str, name: str) -> None:
    history = HistoryWriter(Path(history_path), name)
    async with opened(url) as store, Membership(store, name, ttl_seconds=TTL_SECONDS) as member:
        while (counts := await store.queues.counts(DEFAULT, QUEUE)).ready + counts.claimed:
            await step(store, member, history)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
