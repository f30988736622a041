"""Hot statements reach their rows through an index, whatever their values.

The plans are generic, made without looking at values: our sessions make no others. A few statements
are exceptions on purpose, such as a lookup in a queue, which is planned for each scope.
"""

import json
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeAlias

import asyncpg
import pytest

from tests.kit.databases import PostgresHost
from tests.store.filled import filled_database, unchanged
from tickwork.core.schedule.model import SHARDS
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.shared.shard_layout import fit_statement

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

BY_KEY, BY_PLACE = "tickwork_messages_pkey", "Tid Scan"
COUNTED = "tickwork_messages_counted"

WAYS = {
    "ack": {BY_KEY, BY_PLACE},
    "ack_plain": {BY_KEY, BY_PLACE, "tickwork_messages_slot"},
    "record_dead_letters": {BY_KEY, BY_PLACE},
    "claim": {"tickwork_messages_ready", COUNTED, BY_PLACE},
    "claim_of_receivers": {"tickwork_messages_receiver", COUNTED, BY_PLACE},
    "claim_suspects": {"tickwork_messages_suspect", COUNTED, BY_PLACE},
    "suspects": {"tickwork_messages_suspect"},
    "with_ready": {"tickwork_messages_ready"},
    "delete_messages": {BY_KEY, BY_PLACE},
    "expired_pull_leases": {"tickwork_messages_lease"},
    "expired_messages": {"tickwork_messages_expiring"},
    "extend": {BY_KEY},
    "take_message": {BY_KEY},
    "unblock_keys": {"tickwork_messages_key", "tickwork_messages_calls", BY_PLACE},
    "give_back": {"tickwork_messages_holder"},
    "give_back_unknown": {"tickwork_messages_holder"},
    "ready_tenants": {"tickwork_messages_ready"},
    "ready_receivers": {"tickwork_messages_receiver"},
    "lost_too_often": {"tickwork_messages_holder"},
    "list_ready": {"tickwork_messages_ready"},
    "list_claimed": {"tickwork_messages_holder", BY_KEY},
    "count_line": {"tickwork_messages_receiver", "tickwork_messages_holder"},
    "list_of_key": {"tickwork_messages_key"},
    "list_of_keys": {"tickwork_messages_key"},
    "list_correlated": {"tickwork_messages_correlation"},
    "ready_window_end": {"tickwork_messages_ready"},
    "key_window_end": {"tickwork_messages_key"},
    "keys_window_end": {"tickwork_messages_key"},
    "correlated_window_end": {"tickwork_messages_correlation"},
    "next_expiry": {"tickwork_messages_lease", "tickwork_messages_expiring"},
    "next_visible_at": {"tickwork_messages_ready"},
    "record_firings": {BY_KEY},
    "retired_messages": {"tickwork_messages_ready"},
    "retry": {BY_KEY, BY_PLACE},
    "send": set[str](),
    "claim_expired": {BY_KEY, BY_PLACE},
    "count_waiting_calls": {"tickwork_messages_key"},
    "enter_call": {"tickwork_messages_key"},
    "entered_call": {BY_KEY},
    "withdrawable_call": {BY_KEY},
    "calls_of_dead_nodes": {"tickwork_messages_caller"},
    "delete_calls": {BY_KEY, BY_PLACE},
    "delete_alarms": {BY_KEY, BY_PLACE},
    "find_trace": {"tickwork_messages_correlation", BY_KEY},
}
"""How each hot statement reaches its messages."""

IN_ORDER = ("claim", "ready_tenants", "next_expiry", "next_visible_at", "retired_messages")
"""These read the messages of one tenant and priority in index order."""

TENANT = "tenant-7"

_FILL = [
    # Nothing but the test itself touches the tables.
    "ALTER TABLE tickwork_messages SET (autovacuum_enabled = off)",
    """
    INSERT INTO tickwork_queues (id, tenant, name, settings, max_retries, retention_seconds)
    SELECT md5('queue ' || n)::uuid, NULL, 'queue-' || n, '{}', 3, 345600
    FROM generate_series(1, 5) AS n
    """,
    """
    INSERT INTO tickwork_nodes (id, name, roles, started_at, expires_at)
    SELECT md5('node ' || n)::uuid, 'node', '{worker}', now(), now() + n * interval '1 second'
    FROM generate_series(1, 3000) AS n
    """,
    """
    INSERT INTO tickwork_messages (
        id, queue_id, tenant, priority, state, holder, claim, lease_until, expires_at, lost,
        visible_at, sent_at, body
    )
    SELECT
        md5('message ' || n)::uuid, md5('queue ' || (1 + n % 5))::uuid,
        'tenant-' || CASE WHEN n > 5000 THEN 7 ELSE n % 50 END,
        CASE WHEN n % 10 = 0 THEN 9 ELSE 4 END,
        CASE WHEN is_claimed THEN 'claimed' ELSE 'ready' END,
        CASE WHEN is_claimed THEN md5('node ' || n % 3000)::uuid END,
        is_claimed::integer,
        CASE WHEN is_claimed AND n % 8 = 0 THEN now() + n * interval '1 second' END,
        CASE WHEN n % 20 = 0 THEN now() + n * interval '1 second' END,
        CASE WHEN n % 1000 = 1 THEN 2 ELSE 0 END,
        now() + n * interval '1 millisecond', now(), 'x'
    FROM generate_series(1, 10000) AS n, LATERAL (SELECT n % 4 = 0 AS is_claimed)
    """,
    """
    INSERT INTO tickwork_entities (
        tenant, id, type, key, changed_by, schema_version, bytes, schedules, created_at, updated_at
    )
    SELECT 'default', md5('entity ' || n)::uuid, 'Brand', 'key ' || n, md5('message')::uuid, 1, 0,
        '[]', now(), now()
    FROM generate_series(1, 2000) AS n
    """,
    """
    INSERT INTO tickwork_entity_storage (tenant, entity_id, name, value)
    SELECT 'default', md5('entity ' || n % 2000)::uuid, 'name ' || n, '1'
    FROM generate_series(1, 10000) AS n
    """,
]


@pytest.fixture(scope="module", params=["analysed"])
def database(request: pytest.FixtureRequest, postgres_server: PostgresHost) -> Iterator[str]:
    statements = [*_FILL]
    if request.param == "analysed":
        statements.append("ANALYZE")
    with filled_database(postgres_server, statements) as url:
        yield url


@pytest.fixture
async def connection(database: str) -> AsyncIterator[Connection]:
    """A connection to a database with many messages, with full or little statistics."""
    async with unchanged(database) as opened:
        yield opened


async def generic_plan(connection: Connection, name: str, shards: int = SHARDS) -> dict[str, Any]:
    """The generic plan of a statement."""
    statement = fit_statement(getattr(SQL, name), shards)
    values = ", ".join(["NULL"] * parameters(statement))
    await connection.execute("SET plan_cache_mode = force_generic_plan")
    await connection.execute(f"PREPARE {name}_plan AS {statement}")
    return await plan_of(connection, f"EXECUTE {name}_plan ({values})")


async def plan_of(connection: Connection, statement: str) -> dict[str, Any]:
    found = await connection.fetchval(f"EXPLAIN (FORMAT JSON) {statement}")
    plan: dict[str, Any] = json.loads(found)[0]["Plan"]
    return plan


def parameters(statement: str) -> int:
    return max(int(number) for number in re.findall(r"\$(\d+)", statement))


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", []):
        yield from nodes(part)


def ways_to(table: str, plan: dict[str, Any]) -> set[str]:
    """The indexes, or other ways, by which rows of a table are found."""
    ways: set[str] = set()
    for node in nodes(plan):
        if node["Node Type"] == "Bitmap Index Scan" and node["Index Name"].startswith(table):
            ways.add(node["Index Name"])
        elif "Scan" in node["Node Type"] and node.get("Relation Name") == table:
            ways.add(node.get("Index Name") or node["Node Type"])
    return ways - {"Bitmap Heap Scan"}


def has_sort(plan: dict[str, Any]) -> bool:
    return any("Sort" in node["Node Type"] for node in nodes(plan))


@pytest.mark.parametrize("database", ["analysed", "not analysed"], indirect=True)
async def test_every_statement_finds_its_rows_by_an_index(connection: Connection) -> None:
    plans = {name: await generic_plan(connection, name) for name in WAYS}
    assert {name: ways_to("tickwork_messages", plan) for name, plan in plans.items()} == WAYS
    for name in IN_ORDER:
        assert not has_sort(plans[name]), f"{name} reads a whole lane to sort it"
    expired_nodes = await generic_plan(connection, "expired_nodes")
    assert ways_to("tickwork_nodes", expired_nodes) == {"tickwork_nodes_expiry"}


@pytest.mark.parametrize("database", ["analysed", "not analysed"], indirect=True)
async def test_entities_and_their_storage_are_found_by_their_ids(connection: Connection) -> None:
    by_id, by_name = "tickwork_entities_pkey", "tickwork_entity_storage_pkey"
    ways: dict[str, tuple[set[str], set[str]]] = {
        "entity_head": ({by_id}, {by_name}),
        "entity_values": ({by_id}, {by_name}),
        "list_entity_storage": ({by_id}, {by_name}),
        "list_entity_storage_reversed": ({by_id}, {by_name}),
        "put_entities": (set(), {by_name}),
        "delete_entity_values": (set(), {by_name, BY_PLACE}),
        "delete_entities": ({by_id, BY_PLACE}, set()),
        "list_entities": ({"tickwork_entities_key"}, set()),
        "count_entities": ({"tickwork_entities_key"}, set()),
    }
    for name, (to_entities, to_storage) in ways.items():
        plan = await generic_plan(connection, name)
        assert ways_to("tickwork_entities", plan) == to_entities
        assert ways_to("tickwork_entity_storage", plan) == to_storage


async def test_a_tenants_lookup_in_its_queue_is_planned_for_the_tenant(
    connection: Connection,
) -> None:
    await connection.execute("SET plan_cache_mode = force_custom_plan")
    await connection.execute(f"PREPARE look AS {SQL.peek}")
    queue_id = await connection.fetchval("SELECT id FROM tickwork_queues WHERE name = 'queue-3'")
    plan = await plan_of(connection, f"EXECUTE look (NULL, '{queue_id}', '{TENANT}', 10)")
    assert ways_to("tickwork_messages", plan) == {"tickwork_messages_ready"}
    assert not has_sort(plan)
    assert TENANT in json.dumps([node.get("Index Cond") for node in nodes(plan)])


@pytest.mark.parametrize("name", ["ack", "ack_plain", "record_dead_letters", "retry"])
async def test_an_ack_does_not_search_all_claims_of_its_holder(
    connection: Connection, name: str
) -> None:
    """The fence is compared at the row; a join on it would read all claims of its holder."""
    await connection.execute(
        "UPDATE tickwork_messages SET holder = md5('node 1')::uuid WHERE state = 'claimed'"
    )
    await connection.execute("ANALYZE tickwork_messages")
    plan = await generic_plan(connection, name)
    joins = [node for node in nodes(plan) if "Hash Cond" in node or "Merge Cond" in node]
    assert not [node for node in joins if "holder" in str(node.get("Hash Cond"))]
    assert ways_to("tickwork_messages", plan) == WAYS[name]
