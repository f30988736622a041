"""The floor on PostgreSQL: the leanest plain SQL over the same driver.

Same table, columns, indexes, fences and durability, batches of the same size; the arguments
are ready before the clock starts, and Python does nothing with the answers.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from bench.beds import BODY, PostgresBed
from tickwork.store.ids import new_id

TENANT = "default"

INSERT = """
INSERT INTO tickwork_messages (tenant, queue_id, id, priority, visible_at, sent_at, expires_at, key,
    event_id, type, source, correlation_id, causation_id, hops, batch_id, schedule_id, slot, run,
    catch_up, content_type, body)
SELECT *
FROM unnest($1::text[], $2::uuid[], $3::uuid[], $4::smallint[], $5::timestamptz[],
    $6::timestamptz[], $7::timestamptz[], $8::text[], $9::text[], $10::text[], $11::text[],
    $12::text[], $13::text[], $14::smallint[], $15::uuid[], $16::uuid[], $17::timestamptz[],
    $18::integer[], $19::boolean[], $20::text[], $21::bytea[])
ON CONFLICT DO NOTHING
"""

CLAIM = """
WITH picked AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_messages
    WHERE queue_id = $1 AND tenant = $2 AND priority = 4 AND state = 'ready'
        AND visible_at <= (SELECT clock_timestamp())
    ORDER BY visible_at, id LIMIT $3 FOR UPDATE SKIP LOCKED
)
UPDATE tickwork_messages AS m SET state = 'claimed', claim = m.claim + 1, holder = $4
FROM picked WHERE m.ctid = picked.at
RETURNING m.*, m.ctid AS at
"""

ACK = """
DELETE FROM tickwork_messages AS m
USING unnest($1::tid[], $2::uuid[], $3::bigint[]) AS held (at, id, claim)
WHERE m.ctid = held.at AND m.tenant = $4 AND m.id IS NOT DISTINCT FROM held.id
    AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, $5)
RETURNING m.id
"""


def arguments(bed: PostgresBed, count: int, size: int, now: Any) -> list[tuple[Any, ...]]:
    """Rows of the same messages that ours sends, as arrays ready to be bound."""
    nothing = [None] * size
    return [
        (
            [TENANT] * size, [bed.queue_id] * size, [new_id() for _ in range(size)], [4] * size,
            [now] * size, [now] * size, nothing, nothing, nothing, ["mail.send"] * size,
            ["bench"] * size, nothing, nothing, [0] * size, nothing, nothing, nothing, [0] * size,
            [False] * size, ["json"] * size, [BODY] * size,
        )
        for _ in range(count // size)
    ]  # fmt: skip


def insert(bed: PostgresBed, prepared: list[tuple[Any, ...]]) -> None:
    async def work() -> None:
        for rows in prepared:
            await bed.connection.execute(INSERT, *rows)

    bed.run(work())


def pass_through(bed: PostgresBed, count: int, size: int) -> None:
    holder: UUID = new_id()

    async def work() -> None:
        done = 0
        while done < count:
            rows = await bed.connection.fetch(CLAIM, bed.queue_id, TENANT, size, holder)
            acked = await bed.connection.fetch(
                ACK,
                [row["at"] for row in rows],
                [row["id"] for row in rows],
                [row["claim"] for row in rows],
                TENANT,
                holder,
            )
            assert len(acked) == len(rows)
            done += len(rows)

    bed.run(work())
