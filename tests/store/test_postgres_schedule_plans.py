"""Schedules, slots and firings are reached through their indexes on PostgreSQL.

The plans are generic, on tables with full or no statistics.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

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
from tickwork.store.shared.shard_layout import fit_statement

MESSAGES, SCHEDULES = "tickwork_messages", "tickwork_schedules"
DEFAULT_DAY = "tickwork_firings_default"
BY_KEY, BY_SLOT, BY_LOOK = f"{SCHEDULES}_pkey", f"{MESSAGES}_slot", f"{SCHEDULES}_look"

WAYS = {
    "ack_plain": {SCHEDULES: {BY_KEY}, MESSAGES: {f"{MESSAGES}_pkey", BY_PLACE, BY_SLOT}},
    "change_schedule": {SCHEDULES: {BY_KEY}, MESSAGES: {BY_SLOT}},
    "count_owner_schedules": {SCHEDULES: {f"{SCHEDULES}_owned"}},
    "count_withdrawable_slots": {MESSAGES: {BY_SLOT}},
    "count_unfinished": {MESSAGES: {BY_SLOT}},
    "delete_withdrawn": {MESSAGES: {f"{MESSAGES}_pkey", BY_PLACE}},
    "due_schedules": {SCHEDULES: {BY_LOOK}, MESSAGES: {BY_SLOT}},
    "apply_slot_outcomes": {SCHEDULES: {BY_KEY, BY_PLACE}, MESSAGES: {BY_SLOT}},
    "find_schedule": {SCHEDULES: {f"{SCHEDULES}_name"}},
    "follow_clock": {
        SCHEDULES: {BY_LOOK, BY_KEY, f"{SCHEDULES}_waiting"},
        MESSAGES: {BY_SLOT, f"{MESSAGES}_pkey"},
    },
    "get_schedule": {SCHEDULES: {BY_KEY}},
    "last_due_slots": {MESSAGES: {BY_SLOT}},
    "lock_schedule": {SCHEDULES: {BY_KEY}},
    "lock_schedules": {SCHEDULES: {BY_KEY}},
    "newer_due": {MESSAGES: {BY_SLOT}},
    "next_look_at": {SCHEDULES: {BY_LOOK}},
    "planned_slots_of": {SCHEDULES: {BY_KEY}, MESSAGES: {BY_SLOT}},
    "plan": {SCHEDULES: {BY_KEY, BY_PLACE}, MESSAGES: set[str]()},
    "withdrawable_slots": {MESSAGES: {BY_SLOT}},
    "prune_firings": {DEFAULT_DAY: {f"{DEFAULT_DAY}_age", BY_PLACE}},
    "prune_schedules": {SCHEDULES: {f"{SCHEDULES}_deleted", BY_PLACE}},
    "record_firings": {SCHEDULES: {BY_KEY}, MESSAGES: {f"{MESSAGES}_pkey"}},
    "rewind_schedules": {SCHEDULES: {BY_KEY}, MESSAGES: {BY_SLOT}},
    "withdrawable_keys": {MESSAGES: {BY_SLOT}},
    "schedules_of_keys": {SCHEDULES: {BY_KEY, f"{SCHEDULES}_key"}},
    "schedules_of_calendar": {SCHEDULES: {f"{SCHEDULES}_calendar"}},
    "schedules_of_shard": {SCHEDULES: {BY_LOOK}},
    "shards_behind": {SCHEDULES: {BY_LOOK}},
    "schedule_messages": {MESSAGES: {BY_SLOT}},
    "sweep_schedules": {SCHEDULES: {BY_KEY, f"{SCHEDULES}_waiting", BY_PLACE}},
    "unfinished_slots": {MESSAGES: {BY_SLOT}},
    "waiting_schedules": {SCHEDULES: {f"{SCHEDULES}_waiting"}, MESSAGES: {BY_SLOT}},
}
"""Ways in which each statement may reach the rows of each of its tables."""

IN_ORDER = (
    "next_look_at",
    "prune_schedules",
    "schedules_of_shard",
    "shards_behind",
    "waiting_schedules",
)
"""These read as many rows as they return, in index order."""

TABLES = (MESSAGES, SCHEDULES)
PAGE = 100
DAYS = 10
RECORDS = 20_000

_FILL = [
    "INSERT INTO tickwork_tenants (id) SELECT 'tenant-' || n FROM generate_series(0, 19) AS n",
    """
    INSERT INTO tickwork_schedules (
        tenant, id, queue_id, bucket, status, next_slot, due_at, look_at, grace_seconds, priority,
        overlap, on_dead, rule, calendar, queue, type, content_type, name, idempotency_key,
        created_at, updated_at, changed_at, metadata, body
    )
    SELECT
        'tenant-' || n % 20, md5('schedule ' || n)::uuid, md5('queue ' || n % 5)::uuid, n % 4096,
        CASE n % 20 WHEN 3 THEN 'paused' WHEN 4 THEN 'deleted' ELSE 'active' END, slot, slot, slot,
        60, 4,
        CASE WHEN n % 9 = 0 THEN 'skip' ELSE 'allow' END, 'continue', '{}',
        CASE WHEN n % 50 = 1 THEN 'feasts' END, 'work', 'fired', 'json', 'name-' || n, 'key-' || n,
        now(), now(), now(), '', 'x'
    FROM generate_series(1, 20000) AS n,
        LATERAL (SELECT CASE WHEN n % 100 > 0 THEN now() + n * interval '1 second' END AS slot)
    """,
    """
    INSERT INTO tickwork_messages (
        id, queue_id, tenant, schedule_id, slot, due_at, state, holder, claim, visible_at, sent_at,
        body
    )
    SELECT
        md5('message ' || n)::uuid, md5('queue ' || n % 5)::uuid, 'tenant-' || n % 20,
        md5('schedule ' || n % 5000)::uuid, at, at,
        CASE WHEN is_claimed THEN 'claimed' ELSE 'ready' END,
        CASE WHEN is_claimed THEN md5('node ' || n % 300)::uuid END, is_claimed::integer, at, at,
        'x'
    FROM generate_series(1, 20000) AS n,
        LATERAL (SELECT n % 4 = 0 AS is_claimed, now() + n * interval '1 second' AS at)
    """,
    """
    DO $$ BEGIN
        FOR n IN 1..10 LOOP
            EXECUTE format(
                'CREATE TABLE tickwork_firings_%s PARTITION OF tickwork_firings
                FOR VALUES FROM (%L) TO (%L)',
                to_char('2020-01-01'::date + n, 'YYYYMMDD'), '2020-01-01'::date + n,
                '2020-01-02'::date + n
            );
        END LOOP;
    END $$
    """,
    f"""
    INSERT INTO tickwork_firings (
        tenant, id, schedule_id, slot, run, attempt, status, due_at, started_at, finished_at
    )
    SELECT
        'tenant-7', md5('firing ' || n)::uuid, md5('schedule 7')::uuid, at, 0, 1, 'succeeded', at,
        at, at
    FROM generate_series(1, {RECORDS}) AS n,
        LATERAL (
            SELECT '2020-01-02'::timestamptz + n * interval '{DAYS} days' / {RECORDS + 1} AS at
        )
    """,
    """
    INSERT INTO tickwork_firings (
        tenant, id, schedule_id, slot, run, attempt, status, due_at, started_at, finished_at
    )
    SELECT
        'tenant-8', md5('firing ' || n)::uuid, md5('schedule 8')::uuid, at, 0, 1, 'succeeded', at,
        at, at
    FROM generate_series(1, 10000) AS n,
        LATERAL (SELECT '2019-01-01'::timestamptz + n * interval '1 second' AS at)
    """,
]


filled, database = filled_with_and_without_statistics(TABLES, _FILL)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    """A connection to a database with many rows in every table."""
    async with unchanged(database) as opened:
        yield opened


def records_read(plan: dict[str, Any]) -> int:
    """Number of firing rows that a statement really read."""
    return sum(
        int((node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"])
        for node in nodes(plan)
        if node.get("Relation Name", "").startswith("tickwork_firings_")
    )


async def test_every_statement_finds_its_rows_by_an_index(connection: Connection) -> None:
    plans = {name: await generic_plan(connection, name) for name in WAYS}
    for name, tables in WAYS.items():
        found = {table: ways_to(table, plans[name]) for table in tables}
        assert all(found[table] <= ways for table, ways in tables.items()), (name, found)
    for name in IN_ORDER:
        assert not has_sort(plans[name]), f"{name} reads more than it gives, to sort it"


@pytest.mark.parametrize("database", ["analysed"], indirect=True)
async def test_lists_are_read_in_index_order(connection: Connection) -> None:
    """By a plan made for each selection."""
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    await connection.execute(f"PREPARE list AS {SQL.schedules_by_id}")
    tenant, first = "'tenant-7'", "'00000000-0000-0000-0000-000000000000'"
    values = f"{tenant}, {tenant}, {tenant}, {first}, NULL, NULL, NULL, 10, NULL, NULL, NULL"
    plan = await plan_of(connection, f"EXECUTE list ({values})")
    assert ways_to(SCHEDULES, plan) == {BY_KEY}
    assert not has_sort(plan), "it reads more than it gives, to sort it"


async def test_plans_lock_their_schedules_in_the_given_order(
    connection: Connection,
) -> None:
    """Another kind of join would lock them in another order and could deadlock."""
    for name in ("ack_plain", "plan", "lock_schedules", "lock_shards"):
        plan = await generic_plan(connection, name)
        joins = [node for node in nodes(plan) if node["Node Type"] in ("Hash Join", "Merge Join")]
        taken = [
            node
            for join in joins
            for node in nodes(join)
            if node.get("Relation Name") in (SCHEDULES, "tickwork_shards")
        ]
        assert not taken, name


@pytest.mark.parametrize("page", [0, 100, 190])
async def test_a_page_of_firings_costs_the_same_at_any_offset(
    connection: Connection, page: int
) -> None:
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE page AS {SQL.list_firings}")
    row = await connection.fetchrow(
        "SELECT finished_at, id FROM tickwork_firings ORDER BY finished_at DESC OFFSET $1 LIMIT 1",
        page * PAGE,
    )
    assert row is not None
    values = f"'tenant-7', md5('schedule 7')::uuid, {PAGE}, NULL, '{row[0]}', '{row[1]}'"
    found = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE page ({values})")
    plan = json.loads(found)[0]["Plan"]
    assert plan["Actual Rows"] == PAGE
    # It reads the newest of each day, and then as many as requested.
    assert records_read(plan) <= PAGE + 2 * DAYS


async def test_finding_the_last_slot_reads_one_record_of_each_day(connection: Connection) -> None:
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE last AS {SQL.last_due_slots}")
    values = "now(), ARRAY['tenant-7'], ARRAY[md5('schedule 7')::uuid]"
    found = await connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE last ({values})")
    plan = json.loads(found)[0]["Plan"]
    assert plan["Actual Rows"] == 1
    assert records_read(plan) <= 2 * DAYS


@pytest.mark.parametrize("shards", [1, 256])
async def test_another_number_of_shards_has_its_own_index(
    connection: Connection, shards: int
) -> None:
    index = fit_statement(SQL.create_look_index, shards)
    transaction = connection.transaction()
    await transaction.start()
    await connection.execute(index.replace("CONCURRENTLY ", ""))
    names = ("due_schedules", "follow_clock", "next_look_at", "schedules_of_shard", "shards_behind")
    for name in names:
        ways = ways_to(SCHEDULES, await generic_plan(connection, name, shards))
        assert f"{BY_LOOK}_{shards}" in ways
        assert BY_LOOK not in ways
    await transaction.rollback()
