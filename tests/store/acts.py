"""Helpers for the tests of single stores."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

from tests.kit.waiting import TIMEOUT_SECONDS, eventually
from tickwork.core.model import DEFAULT, ClaimRequest, Ending, Fate, Message, NewMessage, Settlement
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine.work import Transaction

WORK = "work"
ALL = 1_000

Result = TypeVar("Result")

_WAL_HEADER_BYTES, _FRAME_HEADER_BYTES = 32, 24


def new(**fields: Any) -> NewMessage:
    return NewMessage(**{"id": new_id(), "body": b"{}", **fields})


async def send(store: Store, queue: str = WORK, **fields: Any) -> UUID:
    message = new(**fields)
    await store.messages.send(DEFAULT, queue, message)
    return message.id


async def pull(store: Store, limit: int = ALL) -> tuple[Message, ...]:
    request = ClaimRequest(queue=WORK, holder=new_id(), limit=limit, lease_seconds=3_600)
    return await store.messages.claim(DEFAULT, request)


async def waiting(store: Store, queue: str = WORK) -> int:
    return (await store.queues.counts(DEFAULT, queue)).ready


def acked(*messages: Message) -> Settlement:
    return Settlement(
        tuple(Ending(claim=message.current_claim, fate=Fate.ACK) for message in messages)
    )


async def write(store: SqliteStore, work: Callable[[Transaction], Result]) -> Result:
    """Runs a work item of the test."""
    return await store._database.write(work)


@asynccontextmanager
async def writer_held(store: SqliteStore) -> AsyncIterator[None]:
    """Keeps the writer busy; work submitted meanwhile waits."""
    begun, released = threading.Event(), threading.Event()

    def hold(_transaction: Transaction) -> None:
        begun.set()
        released.wait(TIMEOUT_SECONDS)

    holding = asyncio.create_task(write(store, hold))
    await eventually(begun.is_set)
    try:
        yield
    finally:
        released.set()
        await holding


async def together(store: SqliteStore, *calls: Coroutine[Any, Any, Any]) -> list[Any]:
    """The results or errors of the calls, all of which waited for the writer together."""
    async with writer_held(store):
        asked = [asyncio.create_task(call) for call in calls]
        await eventually(lambda: len_waiting(store) == len(calls))
    return await asyncio.gather(*asked, return_exceptions=True)


def len_waiting(store: SqliteStore) -> int:
    return store._database._writer._work_queue._items.qsize()


def commits(path: Path) -> int:
    """Number of transactions in the WAL: frames that carry the database size after a commit."""
    log = path.with_name(f"{path.name}-wal").read_bytes()
    page_bytes = int.from_bytes(log[8:12], "big")
    salts = log[16:24]
    frames = range(_WAL_HEADER_BYTES, len(log), _FRAME_HEADER_BYTES + page_bytes)
    return sum(
        log[start + 8 : start + 16] == salts and log[start + 4 : start + 8] != bytes(4)
        for start in frames
    )
