"""Endpoints and their deliveries are reached through their indexes on PostgreSQL.

The plans are generic, on tables with full or no statistics, except for lists.
"""

from collections.abc import AsyncIterator

import pytest

from tests.store.filled import filled_with_and_without_statistics, unchanged
from tests.store.test_postgres_plans import (
    BY_PLACE,
    Connection,
    generic_plan,
    has_sort,
    plan_of,
    ways_to,
)
from tickwork.store.postgres.engine.sql import SQL

MESSAGES, LETTERS = "tickwork_messages", "tickwork_dead_letters"
ENDPOINTS, DELIVERIES = "tickwork_endpoints", "tickwork_deliveries"
PUBLISHED, ATTEMPTS = "tickwork_published", "tickwork_delivery_attempts"
BY_KEY = {table: {f"{table}_pkey"} for table in (MESSAGES, DELIVERIES, PUBLISHED, ATTEMPTS)}
OF_ENDPOINT, OPEN = f"{DELIVERIES}_endpoint", f"{DELIVERIES}_endpoint_open"
DEAD, BY_MESSAGE = f"{DELIVERIES}_endpoint_dead", f"{DELIVERIES}_message"
BY_NAME = f"{ENDPOINTS}_tenant_name_key"

WAYS = {
    "attempt_stats": {DELIVERIES: {OF_ENDPOINT}, ATTEMPTS: BY_KEY[ATTEMPTS]},
    "bury_deliveries": {DELIVERIES: {*BY_KEY[DELIVERIES], BY_MESSAGE}},
    "delivery_stats": {DELIVERIES: {OF_ENDPOINT, OPEN, DEAD}},
    "deliveries_to_resend": {
        DELIVERIES: BY_KEY[DELIVERIES],
        ENDPOINTS: {f"{ENDPOINTS}_pkey"},
        MESSAGES: BY_KEY[MESSAGES],
        PUBLISHED: BY_KEY[PUBLISHED],
    },
    "endpoint_settings": {ENDPOINTS: {BY_NAME}},
    "endpoints_of_attempts": {ENDPOINTS: {f"{ENDPOINTS}_pkey"}},
    "find_endpoint": {ENDPOINTS: {BY_NAME}},
    "find_published": {PUBLISHED: BY_KEY[PUBLISHED]},
    "get_delivery": {DELIVERIES: BY_KEY[DELIVERIES]},
    "get_endpoint": {ENDPOINTS: {f"{ENDPOINTS}_pkey"}},
    "list_attempts": {ATTEMPTS: BY_KEY[ATTEMPTS]},
    "list_endpoints": {ENDPOINTS: {BY_NAME}},
    "lock_deliveries": {DELIVERIES: BY_KEY[DELIVERIES]},
    "probe_endpoint": {ENDPOINTS: {f"{ENDPOINTS}_pkey"}},
    "prune_deliveries": {
        DELIVERIES: {f"{DELIVERIES}_tenant", BY_PLACE},
        MESSAGES: BY_KEY[MESSAGES],
        ATTEMPTS: BY_KEY[ATTEMPTS],
    },
    "prune_published": {PUBLISHED: {f"{PUBLISHED}_age", BY_PLACE}},
    "pull_probes": {
        ENDPOINTS: {f"{ENDPOINTS}_probe", f"{ENDPOINTS}_pkey"},
        DELIVERIES: {OPEN},
        MESSAGES: BY_KEY[MESSAGES] | {BY_PLACE},
    },
    "record_dead_letters": {DELIVERIES: {*BY_KEY[DELIVERIES], BY_MESSAGE}},
    "record_attempts": {MESSAGES: BY_KEY[MESSAGES], DELIVERIES: BY_KEY[DELIVERIES]},
    "record_deliveries": {DELIVERIES: set[str]()},
    "resend_deliveries": {DELIVERIES: BY_KEY[DELIVERIES]},
    "resolve_dead_letters": {LETTERS: {f"{LETTERS}_message", f"{LETTERS}_pkey", BY_PLACE}},
    "show_messages": {MESSAGES: BY_KEY[MESSAGES] | {BY_PLACE}},
    "undelivered_ids": {DELIVERIES: {OPEN}},
    "waiting_deliveries": {DELIVERIES: {OPEN}, MESSAGES: BY_KEY[MESSAGES]},
    "wake_enabled": {
        ENDPOINTS: {f"{ENDPOINTS}_pkey"},
        MESSAGES: BY_KEY[MESSAGES] | {BY_PLACE},
    },
    "write_health": {ENDPOINTS: {f"{ENDPOINTS}_pkey"}},
}
"""Ways in which each statement may reach the rows of each of its tables."""

IN_ORDER = ("list_endpoints", "prune_published", "undelivered_ids", "waiting_deliveries")
"""These read as many rows as they return, in index order."""

LISTS = {
    ("NULL", "NULL", "NULL"): f"{DELIVERIES}_tenant",
    ("NULL", "false", "NULL"): f"{DELIVERIES}_tenant_open",
    ("md5('endpoint 6')::uuid", "NULL", "NULL"): OF_ENDPOINT,
    ("md5('endpoint 6')::uuid", "true", "NULL"): OF_ENDPOINT,
    ("md5('endpoint 6')::uuid", "false", "NULL"): OPEN,
    ("NULL", "false", "false"): f"{DELIVERIES}_tenant_dead",
    ("md5('endpoint 6')::uuid", "false", "false"): DEAD,
}
"""The index for a list, by its endpoint and whether its deliveries are delivered, and waiting."""

TABLES = (MESSAGES, LETTERS, ENDPOINTS, DELIVERIES, PUBLISHED, ATTEMPTS)

_FILL = [
    "INSERT INTO tickwork_tenants (id) SELECT 'tenant-' || n FROM generate_series(0, 49) AS n",
    """
    INSERT INTO tickwork_endpoints (id, tenant, name, settings, created_at, updated_at)
    SELECT md5('endpoint ' || n)::uuid, 'tenant-' || n % 50, 'name-' || n, '{}', now(), now()
    FROM generate_series(1, 500) AS n
    """,
    """
    INSERT INTO tickwork_published (tenant, id, published_at, priority, hops, type, body)
    SELECT
        'tenant-' || n % 50, md5('event ' || n)::uuid, now() + n * interval '1 second', 4, 0,
        'order.paid', 'x'
    FROM generate_series(1, 10000) AS n
    """,
    """
    INSERT INTO tickwork_deliveries (
        id, tenant, endpoint_id, published_id, message_id, event_id, type, published_at,
        delivered_at, dead_at
    )
    SELECT
        md5('delivery ' || n)::uuid, 'tenant-' || n % 50, md5('endpoint ' || n % 500)::uuid,
        md5('event ' || n % 10000)::uuid, md5('message ' || n)::uuid, 'event ' || n,
        'order.paid', at, CASE WHEN n % 20 > 0 THEN at END, CASE WHEN n % 100 = 0 THEN at END
    FROM generate_series(1, 20000) AS n, LATERAL (SELECT now() + n * interval '1 second' AS at)
    """,
    """
    INSERT INTO tickwork_delivery_attempts (
        delivery_id, message_id, claim, number, at, took_seconds, code
    )
    SELECT id, message_id, 1, 1, now(), 0.1, 200 FROM tickwork_deliveries
    """,
    """
    INSERT INTO tickwork_messages (
        id, queue_id, tenant, state, holder, claim, visible_at, sent_at, body
    )
    SELECT
        md5('message ' || n)::uuid, md5('queue ' || n % 5)::uuid, 'tenant-' || n % 50,
        CASE WHEN is_claimed THEN 'claimed' ELSE 'ready' END,
        CASE WHEN is_claimed THEN md5('node ' || n % 3)::uuid END,
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
]


filled, database = filled_with_and_without_statistics(TABLES, _FILL)


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    """A connection to a database with many deliveries."""
    async with unchanged(database) as opened:
        await opened.execute("SET enable_seqscan = off")
        yield opened


async def test_every_statement_finds_its_rows_by_an_index(connection: Connection) -> None:
    plans = {name: await generic_plan(connection, name) for name in WAYS}
    for name, tables in WAYS.items():
        found = {table: ways_to(table, plans[name]) for table in tables}
        assert all(found[table] <= ways for table, ways in tables.items()), (name, found)
    for name in IN_ORDER:
        assert not has_sort(plans[name]), f"{name} reads more than it gives, to sort it"


@pytest.mark.parametrize("database", ["analysed"], indirect=True)
async def test_deliveries_are_listed_in_index_order(connection: Connection) -> None:
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    await connection.execute(f"PREPARE of_tenant AS {SQL.tenant_deliveries}")
    await connection.execute(f"PREPARE of_endpoint AS {SQL.endpoint_deliveries}")
    for (endpoint, is_delivered, is_waiting), index in LISTS.items():
        statement = "of_tenant" if endpoint == "NULL" else "of_endpoint"
        values = f"'tenant-6', {endpoint}, now(), md5('')::uuid, NULL"
        values = f"{values}, {is_delivered}, {is_waiting}, 5"
        plan = await plan_of(connection, f"EXECUTE {statement} ({values})")
        assert ways_to(DELIVERIES, plan) == {index}, (endpoint, is_delivered)
        assert not has_sort(plan)
