"""The floor of calls of entities: acquire and commit by plain SQL.

It has the same tables, fences and durability. It takes the entity by one statement that commits,
reads the value, and commits the new value with the release in one transaction. For many keys it
does that for a hundred keys in each transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bench.beds import PostgresBed, SqliteBed
from tickwork.core.entity.call import entity_id
from tickwork.store.ids import new_id

T = TypeVar("T")

TOGETHER = 100

_TAKE = """
WITH taken AS (
    INSERT INTO tickwork_keys (tenant, queue_id, key, last_place)
    SELECT 'default', $1, key, 1 FROM unnest($2::text[]) AS key
    ON CONFLICT DO NOTHING RETURNING key
)
INSERT INTO tickwork_messages (
    tenant, queue_id, id, key, place, visible_at, sent_at, state, claim, holder, caller, claimed_at,
    body
)
SELECT 'default', $1, id, key, 1, now(), now(), 'claimed', 1, $3, $3, now(), '{}'
FROM unnest($4::uuid[], $2::text[]) AS new (id, key) JOIN taken USING (key)
"""
_READ = """
SELECT value FROM tickwork_entity_storage
WHERE tenant = 'default' AND entity_id = ANY ($1::uuid[]) AND name = 'n'
"""
_RELEASE = """
WITH gone AS (
    DELETE FROM tickwork_messages
    WHERE tenant = 'default' AND id = ANY ($1::uuid[]) AND claim = 1 AND holder = $2
)
DELETE FROM tickwork_keys WHERE tenant = 'default' AND queue_id = $3 AND key = ANY ($4::text[])
"""
_WRITE = """
WITH stored AS (
    INSERT INTO tickwork_entity_storage (tenant, entity_id, name, value)
    SELECT 'default', id, 'n', '7' FROM unnest($1::uuid[]) AS id
    ON CONFLICT (tenant, entity_id, name) DO UPDATE SET value = excluded.value
)
INSERT INTO tickwork_entities (
    tenant, id, type, key, changed_by, schema_version, bytes, schedules, created_at, updated_at
)
SELECT 'default', id, 'Floor', key, id, 1, 2, '[]', now(), now()
FROM unnest($1::uuid[], $2::text[]) AS new (id, key)
ON CONFLICT (tenant, id) DO UPDATE
SET changed_by = excluded.changed_by, bytes = excluded.bytes, updated_at = excluded.updated_at
"""


def postgres_floor(bed: PostgresBed) -> Callable[[list[str]], None]:
    """Acquires and commits the entities of some keys."""
    connection = bed.connection

    async def together(keys: list[str]) -> None:
        ids, messages = [entity_id("Floor", key) for key in keys], [new_id() for _ in keys]
        named = [str(id_) for id_ in ids]
        await connection.execute(_TAKE, bed.queue_id, named, bed.node, messages)
        await connection.fetch(_READ, ids)
        async with connection.transaction():
            await connection.execute(_WRITE, ids, keys)
            await connection.execute(_RELEASE, messages, bed.node, bed.queue_id, named)

    async def all_of(keys: list[str]) -> None:
        size = 1 if len({*keys}) == 1 else TOGETHER
        for some in batched(keys, size):
            await together(some)

    return lambda keys: bed.run(all_of(keys))


_SQLITE_TAKE = """
INSERT INTO tickwork_messages (
    tenant, queue_id, id, key, visible_at, sent_at, state, claim, holder, caller, claimed_at, body
)
VALUES ('default', ?, ?, ?, 0, 0, 'claimed', 1, ?, ?, 0, x'7b7d')
"""
_SQLITE_READ = """
SELECT value FROM tickwork_entity_storage WHERE tenant = 'default' AND entity_id = ? AND name = 'n'
"""
_SQLITE_WRITE = """
INSERT INTO tickwork_entity_storage (tenant, entity_id, name, value)
VALUES ('default', ?, 'n', x'37')
ON CONFLICT (tenant, entity_id, name) DO UPDATE SET value = excluded.value
"""
_SQLITE_STATE = """
INSERT INTO tickwork_entities (
    tenant, id, type, key, changed_by, schema_version, bytes, schedules, created_at, updated_at
)
VALUES ('default', ?1, 'Floor', ?2, ?1, 1, 2, '[]', 0, 0)
ON CONFLICT (tenant, id) DO UPDATE SET changed_by = excluded.changed_by, bytes = excluded.bytes
"""
_SQLITE_RELEASE = """
DELETE FROM tickwork_messages WHERE tenant = 'default' AND id = ? AND claim = 1 AND holder = ?
"""


def sqlite_floor(bed: SqliteBed) -> Callable[[list[str]], None]:
    """The same on one file."""
    execute, commit = bed.connection.execute, bed.connection.commit
    many = bed.connection.executemany
    node, queue_id = bed.node.bytes, bed.queue_id.bytes

    def together(keys: list[str]) -> None:
        ids = [entity_id("Floor", key) for key in keys]
        messages = [new_id().bytes for _ in keys]
        execute("BEGIN IMMEDIATE")
        taken = zip(messages, map(str, ids), strict=True)
        many(_SQLITE_TAKE, [(queue_id, message, key, node, node) for message, key in taken])
        commit()
        for id_ in ids:
            execute(_SQLITE_READ, (id_.bytes,)).fetchone()
        execute("BEGIN IMMEDIATE")
        many(_SQLITE_WRITE, [(id_.bytes,) for id_ in ids])
        many(_SQLITE_STATE, [(id_.bytes, key) for id_, key in zip(ids, keys, strict=True)])
        many(_SQLITE_RELEASE, [(message, node) for message in messages])
        commit()

    def all_of(keys: list[str]) -> None:
        size = 1 if len({*keys}) == 1 else TOGETHER
        for some in batched(keys, size):
            together(some)

    return all_of


def batched(items: list[T], size: int) -> list[list[T]]:
    """The items in lists of at most so many."""
    return [items[start : start + size] for start in range(0, len(items), size)]
