"""Every list reads the rows that it shows, however many there are: keys, tenants, audit, limits,
streams and what is upcoming, on both stores. Lists of endpoints and deliveries are in their own
modules."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator

import pytest

from tests.store.filled import filled_with_and_without_statistics, unchanged
from tests.store.query_plans import connection as connection_to_file
from tests.store.query_plans import plan, reached, way
from tests.store.test_postgres_plans import Connection, nodes
from tests.stores.clock import VirtualClock
from tests.stores.home import KINDS, Kind
from tests.stores.open_homes import Homes
from tickwork.core.message.message_list import MessageSelection
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.errors import StoreError
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.sqlite.engine.sql import SQL as SQLITE

file_connection = connection_to_file

WAYS = {
    "list_api_keys": "tickwork_api_keys_tenant",
    "list_all_api_keys": "PRIMARY",
    "list_tenants": "PRIMARY",
    "list_audit": "tickwork_audit_tenant",
    "list_limits": "tickwork_limits_name",
    "list_endpoints": "sqlite_autoindex_tickwork_endpoints_2",
    "schedules_by_due": "tickwork_schedules_due",
    "schedules_of_owner_by_due": "tickwork_schedules_owner",
    "recent_dead": "tickwork_tallies_dead",
    "troubled_schedules": "tickwork_schedules_trouble",
    "troubled_endpoints": "sqlite_autoindex_tickwork_endpoints_2",
    "troubled_runs": "tickwork_runs_trouble",
    "dead_deliveries_since": "tickwork_deliveries_tenant_dead",
    "page_queues": "tickwork_queues_name",
    "count_endpoints": "sqlite_autoindex_tickwork_endpoints_2",
    "count_queues": "tickwork_queues_name",
    "count_sessions": "tickwork_sessions_tenant",
    "count_subscriptions": "tickwork_subscriptions_once",
    "end_sessions_of_key": "tickwork_sessions_tenant",
}
"""The index by which SQLite finds the rows of each list, or of what a quota counts."""

SORTED = {"schedules_of_owner_by_due", "recent_dead", "page_queues", "troubled_runs"}
"""Sorts what one user has, the counters of dead messages by type, two pages of queues, and the
workflows of a hundred runs."""


@pytest.mark.parametrize("name", WAYS)
def test_a_list_is_read_by_an_index_on_sqlite(
    file_connection: sqlite3.Connection, name: str
) -> None:
    steps = plan(file_connection, name)
    (found,) = [step for step in steps if step.startswith(("SCAN", "SEARCH"))][:1]
    assert (found.startswith("SEARCH"), way(found)) == (True, WAYS[name])
    has_sort = any("TEMP B-TREE" in step for step in steps)
    assert has_sort == (name in SORTED)


def test_a_page_of_queues_reads_two_stretches_of_an_index_on_sqlite(
    file_connection: sqlite3.Connection,
) -> None:
    steps = [step for step in plan(file_connection, "page_queues") if "tickwork_queues" in step]
    assert [step.partition("_name ")[2] for step in steps] == [
        "(<expr>=? AND name>?)",
        "(<expr>=? AND name>?)",
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_page_of_queues_of_a_tenant_is_not_cut_from_the_whole_list(
    homes: Homes, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SQL if kind == "postgres" else SQLITE, "list_queues", "not a statement")
    async with homes.take(kind) as home:
        store = await home.open()
        try:
            queue = await store.queues.put(DEFAULT, "q", QueueSettings())
            assert await store.queues.list(DEFAULT, limit=1) == (queue,)
            with pytest.raises(StoreError):
                await store.queues.list(DEFAULT)
        finally:
            await store.close()


STREAMS = {
    "list_stream": ["tickwork_stream_events_tenant", "tickwork_audit_tenant"],
    "list_whole_stream": [
        "sqlite_autoindex_tickwork_stream_events_1",
        "sqlite_autoindex_tickwork_audit_1",
    ],
}
"""The indexes by which SQLite finds the events and the changes of a stream."""


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_is_read_by_indexes_on_sqlite(
    file_connection: sqlite3.Connection, name: str
) -> None:
    tables = [step for step in plan(file_connection, name) if " tickwork_" in step]
    assert all(step.startswith("SEARCH") for step in tables)
    assert [way(step) for step in tables] == STREAMS[name]


BOUNDED = {
    "list_ready": "(visible_at,id)>(?,?) AND (visible_at,id)<(?,?)",
    "ready_window_end": "(visible_at,id)>(?,?) AND (visible_at,id)<(?,?)",
    "list_of_key": "key=? AND place>? AND place<?",
    "key_window_end": "key=? AND place>? AND place<?",
    "list_of_keys": "key>? AND key<?",
    "keys_window_end": "key>? AND key<?",
    "list_correlated": "id>? AND id<?",
    "correlated_window_end": "id>? AND id<?",
    "pick_dead_letters": "queue_id=? AND (failed_at,id)>(?,?) AND (failed_at,id)<(?,?)",
    "dead_letters_window_end": "queue_id=? AND (failed_at,id)>(?,?) AND (failed_at,id)<(?,?)",
    "pick_tenant_dead_letters": "tenant=? AND (failed_at,id)>(?,?) AND (failed_at,id)<(?,?)",
    "tenant_dead_letters_window_end": "tenant=? AND (failed_at,id)>(?,?) AND (failed_at,id)<(?,?)",
}
"""The rows of its index that SQLite reads for each part of a list of messages or dead letters."""


@pytest.mark.parametrize("name", BOUNDED)
def test_a_page_reads_one_stretch_of_an_index_on_sqlite(
    file_connection: sqlite3.Connection, name: str
) -> None:
    (found,) = reached(plan(file_connection, name), "m", "tickwork_dead_letters")
    assert found.startswith("SEARCH")
    assert BOUNDED[name] in found
    if not name.endswith("window_end"):
        assert not any("TEMP B-TREE" in step for step in plan(file_connection, name))


async def test_messages_are_listed_with_a_plan_for_their_filters_on_postgres(
    homes: Homes, clock: VirtualClock
) -> None:
    """A plan for any values would read a queue of a million messages and sort them."""
    async with homes.take("postgres") as home:
        store = await home.open(clock)
        try:
            await store.queues.put(DEFAULT, "q", QueueSettings())
            for _ in range(3):
                await store.messages.list(DEFAULT, "q", MessageSelection(), 10)
            database: Database = vars(store)["_database"]
            rows = await database.run(lambda connection: connection.fetch(_PLANS_MADE))
        finally:
            await store.close()
    assert {(row["custom_plans"] > 0, row["generic_plans"]) for row in rows} == {(True, 0)}
    assert len(rows) == 2  # The claimed messages, and the ready ones.


_PLANS_MADE = """
SELECT custom_plans, generic_plans FROM pg_prepared_statements
WHERE statement LIKE '-- % messages of one tenant%' AND statement LIKE '%LIMIT $5%'
"""
"""The statements of a list that a session has prepared, and which plans it used."""


TABLES = (
    "tickwork_api_keys",
    "tickwork_audit",
    "tickwork_dead_letters",
    "tickwork_limits",
    "tickwork_messages",
    "tickwork_queues",
    "tickwork_schedules",
    "tickwork_sessions",
    "tickwork_stream_events",
    "tickwork_subscriptions",
)
ROWS, TENANTS, LIMIT = 20_000, 1_000, 10

_FILL = [
    f"INSERT INTO tickwork_tenants (id) SELECT 'tenant-' || n FROM generate_series(1, {TENANTS}) n",
    f"""
    INSERT INTO tickwork_api_keys (id, tenant, name, scopes, created_at, secret_hash)
    SELECT md5(n::text), 'tenant-' || 1 + n % {TENANTS}, 'key', '{{read}}', now(), 'x'
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_sessions (id, key_id, secret_hash, expires_at, tenant)
    SELECT n::text::bytea, md5(n::text), 'x', now() + interval '1 hour',
        'tenant-' || 1 + n % {TENANTS}
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_audit (id, tenant, at, actor, action, subject)
    SELECT md5(n::text)::uuid, 'tenant-' || 1 + n % {TENANTS}, now(), 'a', 'b', 'c'
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_stream_events (id, tenant, at, type, data)
    SELECT md5('event' || n)::uuid, 'tenant-' || 1 + n % {TENANTS}, now(), 'message.dead', '{{}}'
    FROM generate_series(1, {ROWS}) AS n
    """,
    """
    INSERT INTO tickwork_queues (id, name, settings, max_retries, retention_seconds)
    VALUES (md5('queue')::uuid, 'work', '{}', 3, 1000)
    """,
    f"""
    INSERT INTO tickwork_queues (id, tenant, name, settings, max_retries, retention_seconds)
    SELECT md5(n::text)::uuid, CASE n % 3 WHEN 0 THEN 'tenant-1' WHEN 1 THEN 'tenant-2' END,
        'queue-' || n, '{{}}', 3, 1000
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_subscriptions (tenant, types, queue_id)
    SELECT 'tenant-' || 1 + n % {TENANTS}, 'type-' || n, md5('queue')::uuid
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_messages (id, queue_id, tenant, visible_at, sent_at, body, correlation_id)
    SELECT md5(n::text)::uuid, md5('queue')::uuid, 'tenant-1', now(), now(), 'x', 'story'
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_messages (
        id, queue_id, tenant, visible_at, sent_at, body, state, key, place
    )
    SELECT md5('keyed' || n)::uuid, md5('queue')::uuid, 'tenant-1', now(), now(), 'x', 'held',
        'key-' || n % 4, n
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_dead_letters (
        id, tenant, queue_id, message_id, reason, attempts, failed_at, hops, priority, run,
        content_type, format, sent_at, body
    )
    SELECT md5(n::text)::uuid, 'tenant-1', md5('queue')::uuid, md5(n::text)::uuid, 'permanent', 1,
        timestamptz '2026-01-01 00:00Z' + n * interval '1 second', 0, 4, 0, 'json', 1, now(), 'x'
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_limits (tenant, name, rate, period_seconds)
    SELECT 'tenant-' || 1 + n % {TENANTS}, 'limit-' || n, 1, 1
    FROM generate_series(1, {ROWS}) AS n
    """,
    f"""
    INSERT INTO tickwork_schedules (
        tenant, id, queue_id, bucket, status, next_slot, due_at, look_at, grace_seconds, priority,
        overlap, on_dead, rule, queue, type, content_type, owner, created_at, updated_at,
        changed_at, metadata, body
    )
    SELECT
        'tenant-' || CASE WHEN n % 2 = 0 THEN 1 ELSE 1 + n % {TENANTS} END, md5(n::text)::uuid,
        md5('queue')::uuid, n % 4096, 'active', slot, slot, slot, 60, 4, 'allow', 'continue',
        '{{}}', 'work', 'fired', 'json', 'owner-' || n % 2000, now(), now(), now(), '', 'x'
    FROM generate_series(1, {ROWS}) AS n, LATERAL (SELECT now() + n * interval '1 second' AS slot)
    """,
]
filled, database = filled_with_and_without_statistics(TABLES, _FILL)

NOTHING = "'00000000-0000-0000-0000-000000000000'"
LAST = "'ffffffff-ffff-ffff-ffff-ffffffffffff'"
A_ZERO = "-0000-0000-0000-000000000000"
ANY_TIME = "'-infinity', 'infinity'"
MESSAGES = f"md5('queue')::uuid, 'tenant-1', NULL, NULL, {LIMIT}"
OF_NO_TYPE = f"md5('queue')::uuid, 'tenant-1', 'none', NULL, {LIMIT}"
ALL_DEAD = f"'-infinity', {NOTHING}", f"'infinity', {LAST}"
DEAD = f"{ALL_DEAD[0]}, {ALL_DEAD[1]}, NULL, NULL, NULL, false, {LIMIT}"
DEAD_OF_NO_REASON = (
    f"'2026-01-01 02:00Z', {NOTHING}, '2026-01-01 02:00:30Z', {LAST}, 'none', NULL, NULL, false, "
    f"{LIMIT}"
)
DEAD_WINDOW = f"{LIMIT}, {', '.join(ALL_DEAD)}"
ALL_TENANTS, ONE_TENANT = "md5('queue')::uuid, NULL", "md5('queue')::uuid, 'tenant-1'"
LISTS = {
    "list_api_keys": f"'tenant-7', '', {LIMIT}",
    "list_all_api_keys": f"'5', {LIMIT}",
    "list_tenants": f"'tenant-7', 'tenant-7', '', {LIMIT}",
    "list_audit": f"'tenant-7', 'ffffffff-ffff-ffff-ffff-ffffffffffff', {LIMIT}",
    "list_limits": "'tenant-7'",
    "list_ready": (
        f"{MESSAGES}, ARRAY[4], ARRAY['-infinity'::timestamptz], ARRAY[{NOTHING}::uuid], "
        f"ARRAY['infinity'::timestamptz], ARRAY[{NOTHING}::uuid]"
    ),
    "list_ready of few": (
        f"{OF_NO_TYPE}, ARRAY[4], ARRAY[now()], ARRAY['80000000{A_ZERO}'::uuid], "
        f"ARRAY[now()], ARRAY['80200000{A_ZERO}'::uuid]"
    ),
    "list_of_key": f"{MESSAGES}, 'held', {ANY_TIME}, 'key-2', 9000, 20000",
    "list_of_key of few": f"{OF_NO_TYPE}, 'held', {ANY_TIME}, 'key-2', 9000, 9040",
    "list_of_keys": f"{MESSAGES}, 'held', {ANY_TIME}, 'key-1', 'key-3'",
    "list_of_keys of few": f"{OF_NO_TYPE}, 'held', {ANY_TIME}, 'key-2', 'key-3'",
    "list_correlated": f"{MESSAGES}, NULL, {ANY_TIME}, 'story', NULL, {NOTHING}, {LAST}",
    "list_correlated of few": (
        f"{OF_NO_TYPE}, NULL, {ANY_TIME}, 'story', NULL, '80000000{A_ZERO}', '80200000{A_ZERO}'"
    ),
    "ready_window_end": (
        f"md5('queue')::uuid, 'tenant-1', {LIMIT}, 4, '-infinity', {NOTHING}, 'infinity', {LAST}"
    ),
    "key_window_end": f"md5('queue')::uuid, 'tenant-1', {LIMIT}, 'key-2', 9000, 20000",
    "keys_window_end": f"md5('queue')::uuid, 'tenant-1', {LIMIT}, 'key-1', 'key-3'",
    "correlated_window_end": f"'tenant-1', 'story', {LIMIT}, {NOTHING}, {LAST}",
    "page_queues": f"'tenant-1', 'queue-5', '', {LIMIT}",
    "count_queues": f"'tenant-1', {LIMIT}",
    "count_sessions": f"NULL, 'tenant-7', {ROWS}",
    "count_subscriptions": "'tenant-7'",
    "end_sessions_of_key": "'tenant-7', 'none'",
    "pick_dead_letters": f"{ALL_TENANTS}, {DEAD}",
    "pick_dead_letters of few": f"{ALL_TENANTS}, {DEAD_OF_NO_REASON}",
    "dead_letters_window_end": f"{ALL_TENANTS}, {DEAD_WINDOW}",
    "pick_tenant_dead_letters": f"{ONE_TENANT}, {DEAD}",
    "pick_tenant_dead_letters of few": f"{ONE_TENANT}, {DEAD_OF_NO_REASON}",
    "tenant_dead_letters_window_end": f"{ONE_TENANT}, {DEAD_WINDOW}",
    "list_stream": f"'tenant-7', {NOTHING}, {LIMIT}",
    "troubled_schedules": f"'tenant-1', {LIMIT}",
    "list_whole_stream": f"'7fffffff-0000-0000-0000-000000000000', {LIMIT}",
    "schedules_by_due": (
        f"'tenant-1', 'tenant-1', NULL, {NOTHING}, NULL, NULL, NULL, NULL, {LIMIT}, "
        "NULL, NULL, NULL"
    ),
}
"""Statements with the values of a list for one tenant, or of what it has."""

MADE_FOR_VALUES = {
    *("list_ready", "list_of_key", "list_of_keys", "list_correlated", "schedules_by_due"),
    *("pick_dead_letters", "pick_tenant_dead_letters", "troubled_schedules"),
}
"""Have a plan for their values, because their filters are optional."""

READ_MAX = 2 * ROWS // TENANTS
"""Most rows that a list may read."""


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    async with unchanged(database) as opened:
        yield opened


@pytest.mark.parametrize("name", LISTS)
async def test_a_list_reads_what_it_shows_on_postgres(connection: Connection, name: str) -> None:
    statement = name.removesuffix(" of few")
    mode = "custom" if statement in MADE_FOR_VALUES else "generic"
    await connection.execute(f"SET plan_cache_mode = force_{mode}_plan; SET enable_seqscan = off")
    await connection.execute(f"PREPARE list AS {getattr(SQL, statement)}")
    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE list ({LISTS[name]})"
    found = json.loads(await connection.fetchval(explained))[0]["Plan"]
    scans = [node for node in nodes(found) if "Scan" in node["Node Type"]]
    assert scans
    for scan in scans:
        assert scan["Node Type"] != "Seq Scan"
        read = scan["Actual Rows"] + scan.get("Rows Removed by Filter", 0)
        assert read * scan["Actual Loops"] <= READ_MAX, name
