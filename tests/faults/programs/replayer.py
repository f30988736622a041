"""Replays, edits and discards the dead letters of a queue by chance, until none is open.

    python -m tests.faults.programs.replayer URL HISTORY NAME ORDERS

Points: `resolving` before a call, `resolved` after its answer is written down.
"""

import asyncio
import random
import sys
from pathlib import Path

import msgspec

from tests.faults.open_store import opened
from tests.faults.programs import statements
from tests.kit.history import HistoryWriter
from tests.kit.points import reach
from tickwork.core.message.dead_letter import Pace, Selection, StoredDeadLetter
from tickwork.core.model import DEFAULT, ContentType
from tickwork.errors import Conflict
from tickwork.store.contract import Store

PROGRAM = "tests.faults.programs.replayer"
POINTS = ("resolving", "resolved", statements.POINT)
LOOK_AT = 6
CHOSEN, CHOSEN_MAX = 0.6, 4
"""How often letters are chosen by id, and not the oldest taken; and how many at most."""

WAYS = ("replay", "edit", "discard")
WEIGHTS = (6, 1, 3)
EDITED = b'"edited"'


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Whose dead letters."""

    queue: str
    seed: int = 0


class Replayer:
    def __init__(self, store: Store, history: HistoryWriter, orders: Orders) -> None:
        self._letters, self._history, self._queue = store.dead_letters, history, orders.queue
        self._chance = random.Random(orders.seed)

    async def run(self) -> None:
        look = Selection(limit=LOOK_AT)
        while letters := (await self._letters.list(DEFAULT, self._queue, look)).letters:
            chosen = self._chance.sample(letters, min(CHOSEN_MAX, len(letters)))
            selection = Selection(limit=len(chosen))
            if self._chance.random() < CHOSEN:
                selection = Selection(ids=tuple(letter.id for letter in chosen))
            way = self._chance.choices(WAYS, WEIGHTS)[0]
            if way == "edit":
                await self._edit(chosen[0])
            elif way == "discard":
                await self._discard(selection)
            else:
                await self._replay(selection)

    async def _replay(self, selection: Selection) -> None:
        call = self._history.invoke("replay")
        reach("resolving")
        pace = Pace(spacing_seconds=0.001)
        for replay in await self._letters.replay(DEFAULT, self._queue, selection, pace):
            self._history.ok(
                call, letter=str(replay.dead_letter_id), message=str(replay.message_id)
            )
        reach("resolved")

    async def _discard(self, selection: Selection) -> None:
        call = self._history.invoke("discard")
        reach("resolving")
        letters = await self._letters.discard(DEFAULT, self._queue, selection)
        self._history.ok(call, letters=letters)
        reach("resolved")

    async def _edit(self, letter: StoredDeadLetter) -> None:
        call = self._history.invoke("edit", letter=str(letter.id))
        try:
            await self._letters.edit(DEFAULT, letter.id, EDITED, ContentType.JSON)
        except Conflict:
            self._history.fail(call, letter=str(letter.id))
        else:
            self._history.ok(call, letter=str(letter.id))


async def main(url: str, history_path: str, name: str, orders_json: str) -> None:
    statements.stop_before_statements()
    orders = msgspec.json.decode(orders_json, type=Orders)
    async with opened(url) as store:
        await Replayer(store, HistoryWriter(Path(history_path), name), orders).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
