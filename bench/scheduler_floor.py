"""The floors of the scheduler: the leanest plain SQL over the same drivers.

Making: one COPY (SQLite: one `executemany`) of rows that are ready. Firing: what is due is read,
moved on by a minute and made into messages, in batches as large as ours, under the same fences: the
shards' tokens (on PostgreSQL locked), each schedule's version and next slot, and the queue. What
follows a slot is found by adding a minute, in SQL; the ids of messages are ready before the
clock starts.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from bench import postgres_floor, sqlite_floor
from bench.beds import PostgresBed, SqliteBed
from tickwork.core.schedule.model import SHARDS
from tickwork.service.scheduler.scheduler import DUE_BATCH_MAX, PLANNING_GROUPS
from tickwork.store.ids import new_id
from tickwork.store.postgres.schedules.plan import LOOKED_AT_FACTOR, LOOKED_AT_MORE

TOKEN = 7

LOOK = """
SELECT due.tenant, due.id, due.version, due.next_slot, due.bucket, due.rule, due.overlap, due.fired
FROM unnest($1::integer[]) AS led (shard)
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_schedules
    WHERE bucket / 64 = led.shard AND status = 'active' AND look_at IS NOT NULL AND look_at <= $2
    ORDER BY look_at, id LIMIT $4
) AS due
ORDER BY due.look_at, due.id LIMIT $3
"""

FIRE = """
WITH granted AS MATERIALIZED (
    SELECT shard FROM tickwork_shards WHERE shard = ANY ($1::smallint[]) AND token = $2 FOR SHARE
),
target AS MATERIALIZED (SELECT id FROM tickwork_queues WHERE id = $8 FOR KEY SHARE),
moved AS (
    UPDATE tickwork_schedules AS s
    SET next_slot = s.next_slot + interval '1 minute', due_at = s.due_at + interval '1 minute',
        look_at = s.look_at + interval '1 minute', fired = s.fired + 1, last_slot = s.next_slot
    FROM unnest($3::text[], $4::uuid[], $5::bigint[], $6::timestamptz[], $7::uuid[])
        AS given (tenant, id, version, next_slot, message_id)
    WHERE s.tenant = given.tenant AND s.id = given.id AND s.version = given.version
        AND s.next_slot = given.next_slot AND s.status = 'active'
        AND s.bucket / 64 IN (SELECT shard FROM granted)
        AND s.queue_id IN (SELECT id FROM target)
    RETURNING s.*, given.message_id, given.next_slot AS slot
)
INSERT INTO tickwork_messages (tenant, queue_id, id, priority, visible_at, sent_at, expires_at, key,
    type, source, schedule_id, slot, run, catch_up, due_at, grace_seconds, terms, content_type,
    state, place, body)
SELECT tenant, queue_id, message_id, priority, slot, $9, NULL, NULL, type, id::text, id, slot, 0,
    false, slot, grace_seconds, terms, content_type, 'ready', NULL, body
FROM moved
RETURNING schedule_id
"""

SQLITE_LOOK = """
SELECT tenant, id, version, next_slot, bucket, rule, overlap, fired FROM tickwork_schedules
WHERE bucket / 64 = ? AND look_at <= ? AND look_at IS NOT NULL AND status = 'active'
ORDER BY look_at LIMIT ?
"""

SQLITE_MOVE = """
UPDATE tickwork_schedules SET next_slot = next_slot + 60000000, due_at = due_at + 60000000,
    look_at = look_at + 60000000, fired = fired + 1, last_slot = next_slot
WHERE tenant = ? AND id = ? AND version = ? AND next_slot = ? AND status = 'active'
"""

SQLITE_FIRE = """
INSERT INTO tickwork_messages (tenant, queue_id, id, priority, visible_at, sent_at, due_at,
    grace_seconds, terms, type, source, schedule_id, slot, run, catch_up, content_type, body)
SELECT tenant, queue_id, ?, priority, ?, ?, ?, grace_seconds, terms, type, ?, id, ?, 0, 0,
    content_type, body
FROM tickwork_schedules WHERE tenant = ? AND id = ?
"""


END = """
WITH gone AS (
    DELETE FROM tickwork_messages AS m
    USING unnest($1::tid[], $2::uuid[], $3::bigint[]) AS held (at, id, claim)
    WHERE m.ctid = held.at AND m.tenant = $4 AND m.id IS NOT DISTINCT FROM held.id
        AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, $5)
    RETURNING m.*
),
recorded AS (
    INSERT INTO tickwork_firings (tenant, id, schedule_id, slot, run, attempt, status, due_at,
        started_at, finished_at, channels, catch_up)
    SELECT tenant, id, schedule_id, slot, run, 1, 'succeeded', due_at, $6, $6, '[]', catch_up
    FROM gone
)
UPDATE tickwork_schedules AS s
SET status = 'completed', version = version + 1, last_status = 'succeeded', changed_at = $6
FROM gone WHERE s.tenant = gone.tenant AND s.id = gone.schedule_id
RETURNING s.id
"""

SQLITE_RECORD = """
INSERT INTO tickwork_firings (tenant, schedule_id, slot, run, attempt, due_at, catch_up, id, status,
    started_at, finished_at)
VALUES (?, ?, ?, 0, 1, ?, 0, ?, 'succeeded', ?, ?)
"""

SQLITE_COMPLETE = """
UPDATE tickwork_schedules SET status = 'completed', version = version + 1,
    last_status = 'succeeded', changed_at = ?
WHERE tenant = ? AND id = ?
"""


def copied(bed: PostgresBed, rows: Sequence[Any]) -> None:
    """Stores rows of another database, by one COPY."""
    columns = [*rows[0].keys()]
    bed.run(
        bed.connection.copy_records_to_table("tickwork_schedules", records=rows, columns=columns)
    )


def inserted(connection: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    """The same on SQLite."""
    marks = ", ".join("?" * len(rows[0]))
    connection.execute("BEGIN IMMEDIATE")
    connection.executemany(f"INSERT INTO tickwork_schedules VALUES ({marks})", rows)  # noqa: S608
    connection.commit()


class PostgresFloor:
    """Fires on PostgreSQL, on as many connections as ours has lanes."""

    def __init__(self, bed: PostgresBed) -> None:
        self._bed = bed
        self._connections = [bed.run(asyncpg.connect(bed.url)) for _ in range(PLANNING_GROUPS)]
        bed.run(bed.connection.execute("UPDATE tickwork_shards SET token = $1", TOKEN))

    def fire(self, now: datetime, ids: Sequence[UUID]) -> int:
        """Fires what has to be looked at; there must be an id for each."""
        fresh, shards = iter(ids), [*range(SHARDS)]

        async def work() -> int:
            lanes = [shards[lane::PLANNING_GROUPS] for lane in range(PLANNING_GROUPS)]
            return sum(await asyncio.gather(*map(lane, self._connections, lanes)))

        async def lane(connection: Any, led: Sequence[int]) -> int:
            fired = 0
            part = LOOKED_AT_FACTOR * -(-DUE_BATCH_MAX // len(led)) + LOOKED_AT_MORE
            while due := await connection.fetch(LOOK, led, now, DUE_BATCH_MAX, part):
                found = await connection.fetch(
                    FIRE,
                    led,
                    TOKEN,
                    [row[0] for row in due],
                    [row[1] for row in due],
                    [row[2] for row in due],
                    [row[3] for row in due],
                    [next(fresh) for _ in due],
                    self._bed.queue_id,
                    now,
                )
                fired += len(found)
            return fired

        return self._bed.run(work())

    def drain(self, count: int, size: int, now: datetime) -> None:
        """Claims the messages of one-shots, and records that they succeeded."""
        holder, bed = new_id(), self._bed

        async def work() -> None:
            done = 0
            while done < count:
                claim = (postgres_floor.CLAIM, bed.queue_id, postgres_floor.TENANT, size, holder)
                rows = await bed.connection.fetch(*claim)
                ended = await bed.connection.fetch(
                    END,
                    [row["at"] for row in rows],
                    [row["id"] for row in rows],
                    [row["claim"] for row in rows],
                    postgres_floor.TENANT,
                    holder,
                    now,
                )
                assert len(ended) == len(rows) > 0
                done += len(rows)

        bed.run(work())

    def close(self) -> None:
        for connection in self._connections:
            self._bed.run(connection.close())


class SqliteFloor:
    """Fires on SQLite."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def fire(self, now: int, ids: Sequence[UUID]) -> int:
        """Fires what has to be looked at; there must be an id for each."""
        fresh, fired = iter(ids), 0
        for due in self._batches(now):
            moving = [row[:4] for row in due]
            making = [
                (next(fresh).bytes, slot, now, slot, "source", slot, tenant, id_)
                for tenant, id_, _, slot in moving
            ]
            self._connection.execute("BEGIN IMMEDIATE")
            self._connection.execute("SELECT shard, token FROM tickwork_shards").fetchall()
            self._connection.executemany(SQLITE_FIRE, making)
            self._connection.executemany(SQLITE_MOVE, moving)
            self._connection.commit()
            fired += len(due)
        return fired

    def drain(self, bed: SqliteBed, count: int, size: int, now: int) -> None:
        """Claims the messages of one-shots, and records that they succeeded."""
        holder, connection = new_id().bytes, self._connection
        names = ("tenant", "schedule_id", "slot", "due_at", "place", "id", "claim")
        at = [bed.columns.index(name) for name in names]
        claim = (holder, bed.queue_id.bytes, sqlite_floor.TENANT, now, size)
        done = 0
        while done < count:
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(sqlite_floor.CLAIM, claim).fetchall()
            connection.commit()
            records, completions, acks = [], [], []
            for row in found:
                tenant, schedule, slot, due_at, position, identity, number = (
                    row[index] for index in at
                )
                records.append((tenant, schedule, slot, due_at, identity, now, now))
                completions.append((now, tenant, schedule))
                acks.append((position, identity, number, tenant, holder))
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(SQLITE_RECORD, records)
            connection.executemany(SQLITE_COMPLETE, completions)
            connection.executemany(sqlite_floor.ACK, acks)
            connection.commit()
            assert found
            done += len(found)

    def _batches(self, now: int) -> Iterator[list[Any]]:
        """What is due, shard by shard, so many at a time."""
        found: list[Any] = []
        for shard in range(SHARDS):
            found += self._connection.execute(SQLITE_LOOK, (shard, now, 1_000_000)).fetchall()
            while len(found) >= DUE_BATCH_MAX:
                yield found[:DUE_BATCH_MAX]
                del found[:DUE_BATCH_MAX]
        if found:
            yield found


def message_ids(count: int) -> list[UUID]:
    return [new_id() for _ in range(count)]
