"""Order per key on PostgreSQL.

A key of a queue has a row while it has messages. Sending to the key writes that row, freeing it
takes the row first: so the two wait for each other, and a message that comes while the one
before it goes is either seen by whoever frees the key, or finds no key any more. Places are
counted in the row; the earliest message is the only one that is not held.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from typing import NamedTuple
from uuid import UUID

from tickwork.core.model import State
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL


class Key(NamedTuple):
    """A key, where it counts."""

    tenant: str
    queue_id: UUID
    key: str


class KeyPosition(NamedTuple):
    """How a message begins."""

    state: State
    place: int | None


UNKEYED = KeyPosition(State.READY, None)


class Keys:
    """The keys of one database. Everything here is part of the caller's transaction."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    async def place(self, connection: Connection, keys: Iterable[Key | None]) -> list[KeyPosition]:
        """Where messages with these keys stand, in their order; each key's are taken.

        If a message is then not stored, the key must be freed: it may have none.
        """
        wanted = list(keys)
        counted = Counter(key for key in wanted if key is not None)
        if not counted:
            return [UNKEYED] * len(wanted)
        reserved = await connection.fetch(
            SQL.reserve_key_positions, *_columns(counted), list(counted.values())
        )
        last = {Key(row[0], row[1], row[2]): row[3] for row in reserved}
        following = {key: last[key] - messages for key, messages in counted.items()}
        standings: list[KeyPosition] = []
        for key in wanted:
            if key is None:
                standings.append(UNKEYED)
                continue
            following[key] += 1
            is_first = following[key] == 1
            standings.append(
                KeyPosition(State.READY if is_first else State.BLOCKED, following[key])
            )
        return standings

    async def free(
        self,
        connection: Connection,
        keys: Collection[tuple[str, UUID, str]],
        *,
        behind_run: Collection[tuple[str, UUID, str]] = (),
    ) -> set[UUID]:
        """Lets the next of each key go; returns the queues that have something new. `behind_run`:
        those of them whose earliest message ran, and did not just go.

        Two statements: the second sees what was sent while the first waited.
        """
        if not keys:
            return set()
        await self.lock(connection, keys)
        freed = sorted(set(keys))
        has_run = [key in behind_run for key in freed]
        promoted = await connection.fetch(
            SQL.unblock_keys, self._moment(), *_columns(freed), has_run
        )
        return {row["queue_id"] for row in promoted}

    async def take(self, connection: Connection, keys: Collection[Key]) -> None:
        """Takes all keys that a transaction will need, before it needs any: taken one after the
        other they would be waited for crosswise. Those made for nothing must be freed."""
        await connection.execute(SQL.lock_or_create_keys, *_columns(sorted(set(keys))))

    async def lock(self, connection: Connection, keys: Collection[tuple[str, UUID, str]]) -> None:
        """Takes keys until the end of the transaction."""
        await connection.execute(SQL.lock_keys, *_columns(sorted(set(keys))))


def _columns(keys: Iterable[tuple[str, UUID, str]]) -> tuple[list[str], list[UUID], list[str]]:
    known = list(keys)
    return (
        [tenant for tenant, _, _ in known],
        [queue_id for _, queue_id, _ in known],
        [key for _, _, key in known],
    )
