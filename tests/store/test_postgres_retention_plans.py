"""Batches, dead letters and retention reach their rows through an index, too.

The plans are generic, on tables with full or no statistics.
"""

from collections.abc import AsyncIterator

import pytest

from tests.store.filled import filled_with_and_without_statistics, unchanged
from tests.store.test_postgres_plans import (
    BY_PLACE,
    Connection,
    generic_plan,
    has_sort,
    nodes,
    plan_of,
    ways_to,
)
from tickwork.store.postgres.engine.sql import SQL

MESSAGES, LETTERS = "tickwork_messages", "tickwork_dead_letters"
BATCHES, COUNTS, ITEMS = "tickwork_batches", "tickwork_batch_counts", "tickwork_batch_items"
TALLIES = "tickwork_tallies"
EVENTS, RECEIPTS = "tickwork_events_done", "tickwork_receipts"
PROGRESS = "tickwork_progress"

WAYS = {
    "fill_batch": {BATCHES: {f"{BATCHES}_pkey"}, COUNTS: {f"{COUNTS}_pkey"}},
    "cancel_items": {MESSAGES: {f"{MESSAGES}_pkey", f"{MESSAGES}_batch", BY_PLACE}},
    "complete_batches": {BATCHES: {f"{BATCHES}_pkey", f"{BATCHES}_open"}},
    "discard_dead_letters": {LETTERS: {f"{LETTERS}_pkey", f"{LETTERS}_id", BY_PLACE}},
    "edit_dead_letter": {LETTERS: {f"{LETTERS}_pkey", f"{LETTERS}_id", BY_PLACE}},
    "end_items": {ITEMS: set[str](), COUNTS: set[str]()},
    "has_ended_items": {ITEMS: {f"{ITEMS}_pkey"}},
    "ended_batches": {BATCHES: {f"{BATCHES}_pkey", f"{BATCHES}_open"}, COUNTS: {f"{COUNTS}_pkey"}},
    "ended_items": {ITEMS: {f"{ITEMS}_pkey"}},
    "get_batch": {
        BATCHES: {f"{BATCHES}_pkey"},
        COUNTS: {f"{COUNTS}_pkey"},
        MESSAGES: {f"{MESSAGES}_batch_claimed"},
    },
    "dead_letter_of_message": {LETTERS: {f"{LETTERS}_message"}},
    "get_dead_letter": {LETTERS: {f"{LETTERS}_id"}},
    "dead_letter_position": {LETTERS: {f"{LETTERS}_id"}},
    "list_batches": {
        BATCHES: {f"{BATCHES}_latest"},
        COUNTS: {f"{COUNTS}_pkey"},
        MESSAGES: {f"{MESSAGES}_batch_claimed"},
    },
    "count_waiting": {MESSAGES: {f"{MESSAGES}_ready"}},
    "oldest_visible": {MESSAGES: {f"{MESSAGES}_ready"}},
    "uncompleted_batches": {BATCHES: {f"{BATCHES}_open"}},
    "pending_items": {MESSAGES: {f"{MESSAGES}_batch"}},
    "processing_items": {MESSAGES: {f"{MESSAGES}_batch_claimed"}},
    "prune_batches": {
        BATCHES: {f"{BATCHES}_completed", BY_PLACE},
        COUNTS: {f"{COUNTS}_pkey", BY_PLACE},
        ITEMS: {f"{ITEMS}_pkey"},
    },
    "prune_events": {EVENTS: {f"{EVENTS}_age", BY_PLACE}},
    "prune_items": {BATCHES: {f"{BATCHES}_completed"}, ITEMS: {f"{ITEMS}_pkey", BY_PLACE}},
    "prune_dead_letters": {LETTERS: {f"{LETTERS}_id", BY_PLACE}},
    "prune_receipts": {RECEIPTS: {f"{RECEIPTS}_pkey", BY_PLACE}},
    "prune_progress": {PROGRESS: {f"{PROGRESS}_age", BY_PLACE}},
    "record_progress": {MESSAGES: {f"{MESSAGES}_pkey"}},
    "get_progress": {PROGRESS: {f"{PROGRESS}_pkey"}},
    "prune_counters": {TALLIES: {f"{TALLIES}_age", BY_PLACE}},
    "batch_fill_state": {BATCHES: {f"{BATCHES}_pkey"}},
    "read_dead_letters": {LETTERS: {f"{LETTERS}_pkey", f"{LETTERS}_id"}},
    "recent_kinds": {TALLIES: {f"{TALLIES}_pkey"}},
    "recent_dead": {TALLIES: {f"{TALLIES}_dead"}},
    "recent_minutes": {TALLIES: {f"{TALLIES}_pkey"}},
    "replay_dead_letters": {LETTERS: {f"{LETTERS}_pkey", f"{LETTERS}_id", BY_PLACE}},
    "seal_filled_batch": {BATCHES: {f"{BATCHES}_pkey"}},
    "waiting_items": {MESSAGES: {f"{MESSAGES}_batch"}},
}
"""Ways in which each statement may reach the rows of each of its tables."""

IN_ORDER = ("ended_items", "uncompleted_batches", "pending_items", "waiting_items")
"""These read as many rows as they return, in index order."""

QUEUE = "md5('queue 1')::uuid"
PICKED = (("pick_dead_letters", "NULL", "open"), ("pick_tenant_dead_letters", "'tenant-6'", "own"))
"""Dead letters are selected by a plan made for each selection."""

TABLES = sorted({table for ways in WAYS.values() for table in ways})

_FILL = [
    """
    INSERT INTO tickwork_tenants (id) SELECT 'tenant-' || n FROM generate_series(0, 49) AS n
    """,
    """
    INSERT INTO tickwork_batches (
        tenant, id, queue_id, stored, total, created_at, filled_at, completed_at
    )
    SELECT
        'tenant-' || n % 50, md5('batch ' || n)::uuid, md5('queue ' || n % 5)::uuid, 10, 10,
        now() + n * interval '1 second', now(),
        CASE WHEN n % 10 > 0 THEN now() + n * interval '1 second' END
    FROM generate_series(1, 5000) AS n
    """,
    """
    INSERT INTO tickwork_batch_counts (tenant, batch_id, stripe, completed, failed)
    SELECT tenant, id, stripe, 1, 0 FROM tickwork_batches, generate_series(0, 3) AS stripe
    """,
    """
    INSERT INTO tickwork_batch_items (tenant, batch_id, status, id, ended_at)
    SELECT
        tenant, id, CASE WHEN n % 4 = 0 THEN 'failed' ELSE 'completed' END,
        md5(id || 'item ' || n)::uuid, now()
    FROM tickwork_batches, generate_series(1, 4) AS n
    """,
    """
    INSERT INTO tickwork_messages (
        id, queue_id, tenant, batch_id, state, holder, claim, visible_at, sent_at, body
    )
    SELECT
        md5('message ' || n)::uuid, md5('queue ' || n % 5)::uuid, 'tenant-' || n % 50,
        CASE WHEN n % 2 = 0 THEN md5('batch ' || n % 500)::uuid END,
        CASE WHEN is_claimed THEN 'claimed' ELSE 'ready' END,
        CASE WHEN is_claimed THEN md5('node ' || n % 300)::uuid END,
        is_claimed::integer, now() + n * interval '1 millisecond', now(), 'x'
    FROM generate_series(1, 10000) AS n, LATERAL (SELECT n % 4 = 0 AS is_claimed)
    """,
    """
    INSERT INTO tickwork_dead_letters (
        id, tenant, queue_id, message_id, reason, attempts, failed_at, resolution, hops, priority,
        run, content_type, format, sent_at, body
    )
    SELECT
        md5('letter ' || n)::uuid, 'tenant-' || n % 50, md5('queue ' || n % 5)::uuid,
        md5('message ' || n)::uuid, 'failed', 4, now() + n * interval '1 second',
        CASE WHEN n % 3 = 0 THEN 'replayed' END, 0, 4, 0, 'json', 1, now(), 'x'
    FROM generate_series(1, 10000) AS n
    """,
    """
    INSERT INTO tickwork_tallies (queue_id, tenant, minute, passing, type, source, messages)
    SELECT
        md5('queue ' || n % 5)::uuid, 'tenant-' || n % 50,
        date_trunc('minute', now()) - n * interval '1 minute', 'sent', '', '', 1
    FROM generate_series(1, 10000) AS n
    """,
    """
    INSERT INTO tickwork_events_done (tenant, queue_id, event_id, done_at)
    SELECT
        'tenant-' || n % 50, md5('queue ' || n % 5)::uuid, 'event ' || n,
        now() + n * interval '1 second'
    FROM generate_series(1, 10000) AS n
    """,
    """
    INSERT INTO tickwork_progress (tenant, work, name, value, recorded_at)
    SELECT 'tenant-' || n % 50, 'work ' || n, 'name', 'true', now() + n * interval '1 second'
    FROM generate_series(1, 10000) AS n
    """,
    """
    INSERT INTO tickwork_receipts (id, accepted_at)
    SELECT md5('receipt ' || n)::uuid, now() FROM generate_series(1, 10000) AS n
    """,
]


filled, database = filled_with_and_without_statistics(TABLES, _FILL)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    """A connection to a database with many rows in every table."""
    async with unchanged(database) as opened:
        yield opened


async def test_every_statement_finds_its_rows_by_an_index(connection: Connection) -> None:
    plans = {name: await generic_plan(connection, name) for name in WAYS}
    for name, tables in WAYS.items():
        found = {table: ways_to(table, plans[name]) for table in tables}
        assert all(found[table] <= ways for table, ways in tables.items()), (name, found)
    for name in IN_ORDER:
        assert not has_sort(plans[name]), f"{name} reads more than it gives, to sort it"


@pytest.mark.parametrize("database", ["analysed"], indirect=True)
@pytest.mark.parametrize("lock", ["", " FOR UPDATE SKIP LOCKED"])
async def test_dead_letters_are_read_in_index_order(connection: Connection, lock: str) -> None:
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    for name, tenant, index in PICKED:
        await connection.execute(f"PREPARE {name} AS {getattr(SQL, name)}{lock}")
        span = f"now(), {QUEUE}, 'infinity', {QUEUE}"
        values = f"{QUEUE}, {tenant}, {span}, NULL, NULL, NULL, false, 5"
        plan = await plan_of(connection, f"EXECUTE {name} ({values})")
        assert ways_to(LETTERS, plan) == {f"{LETTERS}_{index}"}
        assert not has_sort(plan), f"{name} reads more than it gives, to sort it"
        assert "failed_at" in str([node.get("Index Cond") for node in nodes(plan)])


@pytest.mark.parametrize("database", ["analysed"], indirect=True)
async def test_dead_letters_are_counted_by_queue_also_if_one_has_all_of_them(
    connection: Connection,
) -> None:
    await connection.execute(
        f"""
        CREATE TEMP SEQUENCE numbers;
        UPDATE {LETTERS} SET queue_id = {QUEUE}, resolution = NULL,
            message_id = lpad(to_hex(nextval('numbers')), 32, '0')::uuid,
            failed_at = now() + random() * interval '1 day';
        ANALYZE {LETTERS};
        SET enable_seqscan = off
        """
    )
    plan = await generic_plan(connection, "count_messages")
    assert ways_to(LETTERS, plan) == {f"{LETTERS}_open"}


@pytest.mark.parametrize("database", ["analysed"], indirect=True)
async def test_dead_letters_are_found_by_their_ids(connection: Connection) -> None:
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    await connection.execute(f"PREPARE chosen AS {SQL.pick_dead_letters_by_id}")
    span = f"'-infinity', {QUEUE}, 'infinity', {QUEUE}"
    values = f"{QUEUE}, NULL, {span}, NULL, NULL, NULL, false, 100, ARRAY [{QUEUE}, {QUEUE}]"
    plan = await plan_of(connection, f"EXECUTE chosen ({values})")
    assert ways_to(LETTERS, plan) == {f"{LETTERS}_id"}
