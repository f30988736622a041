"""Makes batches, one after the other, always the same ones; a repeat goes on where one stopped.

    python -m tests.faults.programs.filler URL HISTORY NAME ORDERS

Pieces are made small, so that there is much to be killed in between. Points: `item` before an
item is given, `created` after a batch is whole.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import msgspec

from tests.faults.open_store import opened
from tests.faults.programs import statements
from tests.kit.history import HistoryWriter
from tests.kit.points import reach
from tickwork.core.message.batch import NewBatch
from tickwork.core.model import DEFAULT, NewMessage
from tickwork.core.stable_hash import derived_id
from tickwork.store.postgres.messages import batch_fill as postgres_batch_fill
from tickwork.store.sqlite.messages import batch_fill as sqlite_batch_fill

PROGRAM = "tests.faults.programs.filler"
POINTS = ("item", "created", statements.POINT)
PIECE_ITEMS = 4
KEYS = 2


class Orders(msgspec.Struct, frozen=True, kw_only=True):
    """Which batches: their first ids, and for each how many items it has."""

    root: UUID
    sizes: tuple[int, ...]
    queue: str
    completion_queue: str
    seed: int = 0


def batch_id(orders: Orders, number: int) -> UUID:
    return derived_id(orders.root, f"batch {number}")


def item_id(orders: Orders, number: int, place: int) -> UUID:
    return derived_id(batch_id(orders, number), f"item {place}")


def items(orders: Orders, number: int) -> Iterator[NewMessage]:
    """Every third one has a key."""
    for place in range(orders.sizes[number]):
        reach("item")
        key = None if place % 3 else f"key-{number % KEYS}"
        yield NewMessage(id=item_id(orders, number, place), body=b"1", key=key)


async def main(url: str, history_path: str, name: str, orders_json: str) -> None:
    statements.stop_before_statements()
    postgres_batch_fill.PIECE_ITEMS = sqlite_batch_fill.PIECE_ITEMS = PIECE_ITEMS
    orders = msgspec.json.decode(orders_json, type=Orders)
    history = HistoryWriter(Path(history_path), name)
    async with opened(url) as store:
        for number in range(len(orders.sizes)):
            new = NewBatch(
                id=batch_id(orders, number),
                queue=orders.queue,
                completion_queue=orders.completion_queue,
            )
            call = history.invoke("create", batch=str(new.id))
            created = await store.batches.create(DEFAULT, new, items(orders, number))
            history.ok(call, batch=str(new.id), total=created.total)
            reach("created")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
