"""Order per key on PostgreSQL.

A key of a queue has a row while it has messages. A send to the key updates that row; a removal
locks it first. So the two exclude each other: a message that is sent while its predecessor is
removed is either seen by the removal, or finds no key. The row counts positions. Only the earliest
message of a key is not blocked.
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
    """A key of a tenant in a queue."""

    tenant: str
    queue_id: UUID
    key: str


class KeyPosition(NamedTuple):
    """The state and the position of a new message."""

    state: State
    place: int | None


UNKEYED = KeyPosition(State.READY, None)


class Keys:
    """The keys of one database. All methods run in the caller's transaction."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    async def place(self, connection: Connection, keys: Iterable[Key | None]) -> list[KeyPosition]:
        """Reserves positions for messages with these keys, in order, and locks the keys.

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
        """Unblocks the next message of each key; returns the queues that have ready messages.
        `behind_run`: keys whose earliest message ran, and was not just removed.

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
        """Locks all keys that a transaction needs, before any other use; one by one they could
        deadlock. Keys that were created but not used must be freed."""
        await connection.execute(SQL.lock_or_create_keys, *_columns(sorted(set(keys))))

    async def lock(self, connection: Connection, keys: Collection[tuple[str, UUID, str]]) -> None:
        """Locks keys until the end of the transaction."""
        await connection.execute(SQL.lock_keys, *_columns(sorted(set(keys))))


def _columns(keys: Iterable[tuple[str, UUID, str]]) -> tuple[list[str], list[UUID], list[str]]:
    known = list(keys)
    return (
        [tenant for tenant, _, _ in known],
        [queue_id for _, queue_id, _ in known],
        [key for _, _, key in known],
    )
