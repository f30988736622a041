"""Sends messages one by one while it claims and acks messages of any sender.

    python -m tests.store.programs.work PATH SENDS TOTAL

Ends when all processes together have done TOTAL messages, counted in a table of the test. Prints
`sent ID` and `done ID` after each call. Point: `ready`, before it starts.
"""

import asyncio
import sqlite3
import sys

from tests.kit.points import reach
from tests.store.acts import WORK, acked, send, write
from tickwork.core.model import DEFAULT, SYSTEM, ClaimRequest
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore

SENDERS = 4
WAIT_SECONDS = 0.5


def say(what: str, name: object) -> None:
    sys.stdout.write(f"{what} {name}\n")


async def send_all(store: SqliteStore, numbers: list[int]) -> None:
    while numbers:
        numbers.pop()
        say("sent", await send(store))


async def done_by_all(store: SqliteStore) -> int:
    return await write(store, lambda t: int(t.execute("SELECT count(*) FROM done").fetchone()[0]))


async def work(store: SqliteStore, total: int) -> None:
    node, queue = new_id(), await store.queues.get(DEFAULT, WORK)
    await store.nodes.join(SYSTEM, node, name="worker", roles=["worker"], ttl_seconds=600)
    async with store.wakeups.watch([queue.id]) as watch:
        while await done_by_all(store) < total:
            claimed = await store.messages.claim(
                DEFAULT, ClaimRequest(queue=WORK, holder=node, limit=7)
            )
            for message in claimed:

                def joined(connection: sqlite3.Connection, name: str = str(message.id)) -> None:
                    connection.execute("INSERT INTO done VALUES (?)", (name,))

                await store.messages.settle_jointly(DEFAULT, acked(message), joined)
                say("done", message.id)
            if not claimed:
                await watch.wait(WAIT_SECONDS)


async def main(path: str, sends: str, total: str) -> None:
    store = await SqliteStore.open(path)
    await write(
        store, lambda t: t.execute("CREATE TABLE IF NOT EXISTS done (id TEXT PRIMARY KEY)").close()
    )
    reach("ready")
    numbers = list(range(int(sends)))
    await asyncio.gather(
        work(store, int(total)), *(send_all(store, numbers) for _ in range(SENDERS))
    )
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
