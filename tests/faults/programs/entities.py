"""An app with an entity: a worker for its sends, or a process that makes direct calls.

    python -m tests.faults.programs.entities URL NAME CALLS KEY

Without CALLS it is a worker until it is killed. With CALLS it makes that many direct calls of the
entity KEY and prints each name and result after the call has returned. Points: `entering` and
`entered` around the taking of an entity, `running` inside the method, `await` at each await of a
call, and those of `exactly_once` around claims and settlements.
"""

import asyncio
import sys
from typing import Any

from tests.faults.programs.awaits import make_task, reaching, stop_at_awaits
from tests.faults.programs.exactly_once import (
    between,
    blame_nobody,
    find_the_dead_soon,
    stop_at_commits,
)
from tests.kit.points import reach
from tickwork import Entity, EntityMoved
from tickwork.errors import StoreError
from tickwork.facade.app import Tickwork
from tickwork.store.postgres.entities.entities import PostgresEntities
from tickwork.store.sqlite.entities.entities import SqliteEntities

PROGRAM = "tests.faults.programs.entities"


def build(url: str) -> Tickwork:
    app = Tickwork(url)
    out = app.queue("out")

    @app.entities.register
    class Ledger(Entity):
        async def add(self, name: str) -> int:
            entries = await self.storage.get("entries", [])
            reach("running")
            entries.append(name)
            await self.storage.put({"entries": entries, f"entry/{name}": len(entries)})
            await out.send([name, len(entries)])
            return len(entries)

    return app


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


async def call(app: Tickwork, name: str, calls: int, key: str) -> None:
    asyncio.get_running_loop().set_task_factory(make_task)
    for number in range(calls):
        entry = f"{name}-{number}"
        try:
            result = await reaching(app.entity("Ledger", key).add(entry))
        except EntityMoved:
            tell(f"{entry} moved")
        except StoreError:
            tell(f"{entry} unknown")
        else:
            tell(f"{entry} {result}")
    await app.close()


def main(url: str, name: str, calls: str = "", key: str = "a") -> None:
    stop_at_commits()
    stop_at_awaits()
    kinds: tuple[type[Any], ...] = (SqliteEntities, PostgresEntities)
    for kind in kinds:
        kind.enter = between("entering", kind.enter, "entered")
    find_the_dead_soon()
    blame_nobody()
    app = build(url)
    if calls:
        asyncio.run(call(app, name, int(calls), key))
    else:
        app.run(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
