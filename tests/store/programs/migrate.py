"""Migrates a database to a release and prints what it applied.

    python -m tests.store.programs.migrate KIND URL FOLDER PACKAGE

Point: `ready`, before it starts.
"""

import asyncio
import sys
from pathlib import Path
from typing import cast

from tests.kit.points import reach
from tests.store.releases import Kind, Release, Schema


async def main(kind: str, url: str, folder: str, package: str) -> None:
    with Release(Path(folder), package).installed():
        reach("ready")
        for step in await Schema(cast("Kind", kind), url).migrate():
            sys.stdout.write(f"{step.name}\n")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
