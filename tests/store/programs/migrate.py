"""Migrates a file and prints what it applied.

    python -m tests.store.programs.migrate PATH

Point: `ready`, before it starts.
"""

import asyncio
import sys

from tests.kit.points import reach
from tickwork.store.sqlite.engine.migrate import migrate


async def main(path: str) -> None:
    reach("ready")
    for migration in await migrate(path):
        sys.stdout.write(f"{migration.name}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
