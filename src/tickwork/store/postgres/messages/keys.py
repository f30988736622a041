"""Ordered delivery per key on PostgreSQL.

A key has a row in its queue while it has messages. A send updates this row, and a removal locks it.
So they exclude each other: a removal either sees a message that is sent at the same time, or the
send finds no key. The row counts positions. The message with the lowest position is ready or
claimed; the others are blocked. A direct call of an entity that passes a send which waits for its
retry moves before it, and the send is blocked meanwhile.
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
    """The state of a new message, and its position within its key."""

    state: State
    position: int | None


UNKEYED = KeyPosition(State.READY, None)


class Keys:
    """The keys of one database. All methods run in the caller's transaction."""

    def __init__(self, moment: Moment) -> None:
        self._moment = moment

    async def reserve(
        self, connection: Connection, keys: Iterable[Key | None]
    ) -> list[KeyPosition]:
        """Locks the keys and reserves a position for each message, in order.

        If a message is then not stored, call `unblock` for its key: the key may have no messages.
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
        positions: list[KeyPosition] = []
        for key in wanted:
            if key is None:
                positions.append(UNKEYED)
                continue
            following[key] += 1
            is_first = following[key] == 1
            positions.append(
                KeyPosition(State.READY if is_first else State.BLOCKED, following[key])
            )
        return positions

    async def unblock(
        self,
        connection: Connection,
        keys: Collection[tuple[str, UUID, str]],
        *,
        behind_run: Collection[tuple[str, UUID, str]] = (),
    ) -> set[UUID]:
        """Unblocks the first message of each key, or a direct call if the first waits for its
        time. Returns the queues of unblocked messages, and the nodes that make direct calls.

        `behind_run` are the keys whose first message was handled, not just removed. It takes two
        statements, because the second sees messages that were sent while the first waited.
        """
        if not keys:
            return set()
        await self.lock(connection, keys)
        ordered = sorted(set(keys))
        has_run = [key in behind_run for key in ordered]
        unblocked = await connection.fetch(
            SQL.unblock_keys, self._moment(), *_columns(ordered), has_run
        )
        return {row["topic"] for row in unblocked}

    async def lock_or_create(self, connection: Connection, keys: Collection[Key]) -> None:
        """Locks all keys that a transaction needs, and creates missing ones. Locking them in one
        statement avoids deadlocks. Call `unblock` for keys that were created but not used."""
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
