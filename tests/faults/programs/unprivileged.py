"""Tries to use a store as an ordinary user, for whom permissions count; says how it went.

    python -m tests.faults.programs.unprivileged URL send|migrate TRIES

Point: `tried`, after each line.
"""

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from tests.faults.open_store import opened
from tests.faults.steps import QUEUE, new_message, put_queues
from tests.kit.points import reach
from tests.kit.postgres_binaries import server_user
from tickwork.core.model import DEFAULT
from tickwork.errors import StoreError
from tickwork.store.sqlite.engine.migrate import migrate


def become_ordinary() -> None:
    """Rehearses everything first, so that it is imported and read: the new user may not be able to
    enter the folder that the package is in."""
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder, 'rehearsal.db')}"
        asyncio.run(rehearse(url))
    user = server_user()
    if not user.is_us:
        os.setgroups([])
        os.setgid(user.gid)
        os.setuid(user.uid)


async def rehearse(url: str) -> None:
    assert await attempt(url, "migrate") == "done"
    async with opened(url) as store:
        await put_queues(store)
    assert await attempt(url, "send") == "done"


async def attempt(url: str, what: str) -> str:
    try:
        if what == "migrate":
            await migrate(url)
        else:
            async with opened(url) as store:
                await store.messages.send(DEFAULT, QUEUE, new_message())
    except StoreError as error:
        return f"{type(error).__name__}: {error}"
    return "done"


async def main(url: str, what: str, tries: str) -> None:
    for _ in range(int(tries)):
        sys.stdout.write(f"{await attempt(url, what)}\n")
        sys.stdout.flush()
        reach("tried")


if __name__ == "__main__":
    become_ordinary()
    asyncio.run(main(*sys.argv[1:]))
