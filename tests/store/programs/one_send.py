"""Sends one message, as another process does.

    python -m tests.store.programs.one_send PATH

Point: `ready`, before it sends.
"""

import asyncio
import sys

from tests.kit.points import reach
from tests.store.acts import send
from tickwork.store.sqlite import SqliteStore


async def main(path: str) -> None:
    store = await SqliteStore.open(path)
    reach("ready")
    await send(store)
    await store.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
