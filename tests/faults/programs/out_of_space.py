"""Sends until there is no room left, then makes room and sends again, with the same store.

    python -m tests.faults.programs.out_of_space FOLDER disk|limit

It says what happened, as one line of JSON (`Report`).
"""

import asyncio
import sys
from pathlib import Path

import msgspec

from tests.faults import tables
from tests.faults.open_store import opened
from tests.faults.programs.limited_space import little_room
from tests.faults.steps import QUEUE, new_message, put_queues
from tickwork.core.model import DEFAULT, NewMessage
from tickwork.errors import StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.sqlite.engine.migrate import migrate

BATCH = 5
BODY = b"x" * 20_000
BATCHES_MAX = 1_000


class Report(msgspec.Struct):
    """What a process without room was told, and what is in its file."""

    room: str
    accepted: list[str] = []
    refused: list[str] = []
    errors: list[str] = []
    found: list[str] = []
    counted: int = 0


async def send_batch(store: Store, report: Report) -> bool:
    batch: list[NewMessage] = [new_message(BODY) for _ in range(BATCH)]
    try:
        await store.messages.send_batch(DEFAULT, QUEUE, batch)
    except StoreUnavailable as error:
        report.refused += [str(message.id) for message in batch]
        report.errors.append(str(error))
        return False
    report.accepted += [str(message.id) for message in batch]
    return True


async def main(folder: str, kind: str) -> None:
    room = little_room(kind, Path(folder))
    report = Report(room.name)
    url = f"sqlite:///{folder}/tickwork.db"
    await migrate(url)
    async with opened(url) as store:
        await put_queues(store)
        for _ in range(BATCHES_MAX):
            if not await send_batch(store, report):
                break
        await send_batch(store, report)
        room.grow()
        assert await send_batch(store, report), report.errors
        report.counted = (await store.queues.counts(DEFAULT, QUEUE)).ready
    report.found = await tables.inputs_in(url, QUEUE)
    sys.stdout.write(msgspec.json.encode(report).decode() + "\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
