"""Opens a store, forks, and prints what both processes get from it.

python -m tests.store.programs.forked PATH
"""

import asyncio
import os
import sys
from collections.abc import Awaitable

from tests.store.acts import send
from tickwork.core.model import DEFAULT
from tickwork.errors import StoreError
from tickwork.store.sqlite import SqliteStore


async def tell(what: str, act: Awaitable[object]) -> None:
    try:
        answer = await act
    except StoreError as error:
        answer = error
    sys.stdout.write(f"{what}: {answer and str(answer)}\n")
    sys.stdout.flush()


async def in_child(store: SqliteStore) -> None:
    await tell("child send", send(store))
    await tell("child count", store.queues.counts(DEFAULT, "work"))
    await tell("child close", store.close())


async def main(path: str) -> None:
    store = await SqliteStore.open(path)
    await send(store)
    child = os.fork()
    if child == 0:
        asyncio.events._set_running_loop(None)
        asyncio.run(in_child(store))
        os._exit(0)
    os.waitpid(child, 0)  # noqa: ASYNC222  nothing else is to run meanwhile
    message = await send(store)
    await tell("parent delete", store.messages.delete(DEFAULT, "work", message))
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
