"""Area `durable`: calls of entities beside acquire and commit by plain SQL; alarms at one instant.

The floor has the same tables, fences and durability. It takes the entity by one statement that
commits, reads the value, and commits the new value with the release in one transaction. For many
keys it does that for a hundred keys in each transaction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from bench.beds import PostgresBed, SqliteBed, postgres_bed, postgres_server, sqlite_bed
from bench.harness import (
    WALL,
    Result,
    bench,
    fastest,
    interleaved,
    judge,
    ratio_at_least,
    sized,
    value_under,
)
from tests.kit.tuned import tuned
from tickwork import Entity, Tickwork
from tickwork.core.entity.call import Call, entity_id, queue_of
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.entity.caller import Caller
from tickwork.entity.entity import EntityType
from tickwork.entity.run import Runner
from tickwork.ops.entities import ensure_entity_type
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

T = TypeVar("T")

CALLS = 200
KEYS = 1_000
TOGETHER = 100
ROUNDS = 5
ALARMS = 10_000
AHEAD = timedelta(seconds=20)


class Counter(Entity):
    """Counts its calls."""

    async def add(self) -> int:
        number: int = await self.storage.get("n", 0) + 1
        await self.storage.put("n", number)
        return number

    async def wake(self, seconds: float) -> None:
        await self.set_alarm(self.now + timedelta(seconds=seconds))

    async def alarm(self, info: Any) -> None:
        await self.storage.put("rang", info.late_seconds)


COUNTER = EntityType(Counter)


def _report(activity: str, error: Exception) -> None:
    raise AssertionError(activity) from error


def _calls(bed: PostgresBed | SqliteBed) -> Callable[[list[str]], None]:
    """Calls one entity after the other, or many at once."""
    store: Store = bed.store
    bed.run(ensure_entity_type(store, "Counter"))

    async def holder() -> UUID:
        return bed.node

    caller, runner = Caller(store, holder, _never, _report), Runner(store, COUNTER)

    async def one(key: str) -> None:
        await caller.call(DEFAULT, runner, Call(entity="Counter", key=key, method="add"))

    async def several(keys: list[str]) -> None:
        if len({*keys}) == 1:
            for key in keys:
                await one(key)
        else:
            await asyncio.gather(*map(one, keys))

    return lambda keys: bed.run(several(keys))


def _never(*_: object, **__: object) -> Any:
    raise AssertionError("sends nothing")


def _compare(
    name: str,
    ours: Callable[[list[str]], None],
    floor: Callable[[list[str]], None],
    keys: list[str],
) -> Result:
    ours(keys)
    floor(keys)
    turn = fastest(
        interleaved(lambda _: ours(keys), lambda _: floor(keys), rounds=ROUNDS, clock=WALL)
    )
    return judge(
        name,
        len(keys) / turn.candidate,
        "calls/s",
        reference=len(keys) / turn.floor,
        goal=ratio_at_least(0.5),
    )


@bench("durable")
def entity_calls() -> Iterator[Result]:
    """Calls on one key, one after the other, and on a thousand keys at once."""
    one, many = ["a"] * CALLS, [str(number) for number in range(KEYS)]
    with tuned(), postgres_server() as server, postgres_bed(server) as database:
        ours, floor = _calls(database), _postgres_floor(database)
        yield _compare("durable.postgres.entity_1_key", ours, floor, one)
        yield _compare("durable.postgres.entity_1000_keys", ours, floor, many)
    with tuned(), sqlite_bed() as file:
        ours, floor = _calls(file), _sqlite_floor(file)
        yield _compare("durable.sqlite.entity_1_key", ours, floor, one)
        yield _compare("durable.sqlite.entity_1000_keys", ours, floor, many)


@bench("durable")
def entity_alarms() -> Iterator[Result]:
    """Ten thousand alarms at one instant: seconds until the last one is handled."""
    count = sized(ALARMS, quick=500)
    with tuned(), postgres_server() as server, postgres_bed(server) as database:
        yield judge(
            "durable.postgres.entity_alarms",
            database.run(_seconds_of_alarms(database.url, database.store, count)),
            f"s for {count} alarms",
            goal=value_under(5.0),
        )
    with tuned(), sqlite_bed() as file:
        yield judge(
            "durable.sqlite.entity_alarms",
            file.run(_seconds_of_alarms(file.url, file.store, count)),
            f"s for {count} alarms",
            goal=value_under(5.0),
        )


async def _seconds_of_alarms(url: str, store: Store, count: int) -> float:
    app = Tickwork(url)
    app.entities.register(Counter)
    began = time.monotonic()
    for keys in _batched([*range(count)], 500):
        left = AHEAD.total_seconds() - (time.monotonic() - began)
        await asyncio.gather(*(app.entity(Counter, str(key)).wake(left) for key in keys))
    async with app.running(roles="worker"):
        await asyncio.sleep(max(AHEAD.total_seconds() - (time.monotonic() - began), 0))
        due = time.monotonic()
        while any((await _waiting(store)).values()):  # noqa: ASYNC110  other processes could do it
            await asyncio.sleep(0.05)
        return time.monotonic() - due


def _batched(items: list[T], size: int) -> list[list[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


async def _waiting(store: Store) -> dict[str, int]:
    counts = await store.queues.counts(SYSTEM, queue_of("Counter"))
    return {"ready": counts.ready, "delayed": counts.delayed, "claimed": counts.claimed}


# The floor

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


def _postgres_floor(bed: PostgresBed) -> Callable[[list[str]], None]:
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
        for some in _batched(keys, size):
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


def _sqlite_floor(bed: SqliteBed) -> Callable[[list[str]], None]:
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
        for some in _batched(keys, size):
            together(some)

    return all_of
