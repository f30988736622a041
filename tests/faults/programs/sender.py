"""Sends messages without end, alone, in batches and in bulk, until it is killed.

    python -m tests.faults.programs.sender URL HISTORY NAME

Points: `sending` before a call, `sent` after its answer is written down.
"""

import asyncio
import sys
from pathlib import Path

from tests.faults.open_store import opened
from tests.kit.history import HistoryWriter
from tests.kit.points import reach
from tickwork.core.model import DEFAULT, NewMessage
from tickwork.errors import StoreUnavailable
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

QUEUE = "inputs"
TOGETHER = (1, 1, 1, 5, 20)
"""So many users send at the same time, each so many messages at once."""

BULK = 20


class Sender:
    def __init__(self, store: Store, history: HistoryWriter) -> None:
        self._store, self._history = store, history

    async def run(self) -> None:
        await asyncio.gather(*(self._send_for_ever(count) for count in TOGETHER))

    async def _send_for_ever(self, count: int) -> None:
        while True:
            try:
                await self._send([NewMessage(id=new_id(), body=b"1") for _ in range(count)])
            except StoreUnavailable as error:
                # Nobody knows whether it was accepted: nothing more is written about it.
                self._history.info("unavailable", error=str(error))

    async def _send(self, messages: list[NewMessage]) -> None:
        calls = [(self._history.invoke("send", message=str(m.id)), str(m.id)) for m in messages]
        reach("sending")
        if len(messages) == 1:
            await self._store.messages.send(DEFAULT, QUEUE, messages[0])
        elif len(messages) >= BULK:
            await self._store.messages.send_bulk(DEFAULT, QUEUE, messages)
        else:
            await self._store.messages.send_batch(DEFAULT, QUEUE, messages)
        for call, message_id in calls:
            self._history.ok(call, message=message_id)
        reach("sent")


async def main(url: str, history: str, name: str) -> None:
    async with opened(url) as store:
        await Sender(store, HistoryWriter(Path(history), name)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
