"""The floor on SQLite: the leanest plain SQL with the standard library's driver.

Same schema, fences and durability (WAL, `synchronous=FULL`), batches of the same size, one
transaction a batch; the arguments are ready before the clock starts.
"""

from __future__ import annotations

from typing import Any

from bench.beds import BODY, SqliteBed
from tickwork.store.ids import new_id

TENANT = "default"

INSERT = """
INSERT INTO tickwork_messages (tenant, queue_id, id, priority, visible_at, sent_at, expires_at, key,
    event_id, type, source, correlation_id, causation_id, hops, batch_id, schedule_id, slot, run,
    catch_up, content_type, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING
"""

CLAIM = """
UPDATE tickwork_messages SET state = 'claimed', claim = claim + 1, holder = ?
WHERE place IN (
    SELECT place FROM tickwork_messages
    WHERE queue_id = ? AND tenant = ? AND priority = 4 AND state = 'ready' AND visible_at <= ?
    ORDER BY visible_at, id LIMIT ?
)
RETURNING *
"""

ACK = """
DELETE FROM tickwork_messages WHERE place = ? AND id = ? AND claim = ? AND tenant = ? AND holder = ?
"""


def arguments(bed: SqliteBed, count: int, size: int, now: int) -> list[list[tuple[Any, ...]]]:
    """Rows of the same messages that ours sends, ready to be bound."""
    queue_id = bed.queue_id.bytes
    return [
        [
            (
                TENANT, queue_id, new_id().bytes, 4, now, now, None, None, None, "mail.send",
                "bench", None, None, 0, None, None, None, 0, 0, "json", BODY,
            )
            for _ in range(size)
        ]
        for _ in range(count // size)
    ]  # fmt: skip


def insert(bed: SqliteBed, prepared: list[list[tuple[Any, ...]]]) -> None:
    for rows in prepared:
        bed.connection.execute("BEGIN IMMEDIATE")
        bed.connection.executemany(INSERT, rows)
        bed.connection.commit()


def pass_through(bed: SqliteBed, count: int, size: int, now: int) -> None:
    holder, queue_id = new_id().bytes, bed.queue_id.bytes
    done = 0
    while done < count:
        bed.connection.execute("BEGIN IMMEDIATE")
        found = bed.connection.execute(CLAIM, (holder, queue_id, TENANT, now, size)).fetchall()
        bed.connection.commit()
        columns = {name: at for at, name in enumerate(bed.columns)}
        position, identity, claim = (columns[name] for name in ("place", "id", "claim"))
        bed.connection.execute("BEGIN IMMEDIATE")
        bed.connection.executemany(
            ACK, [(row[position], row[identity], row[claim], TENANT, holder) for row in found]
        )
        bed.connection.commit()
        done += len(found)
