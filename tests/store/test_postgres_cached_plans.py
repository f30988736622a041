"""A plan made while a table is empty is cached, and must still be good when it is full.

A table vacuumed while empty has no pages, and the planner believes that reading all of it costs
nothing. A session that prepared a statement then keeps that plan until the table is analysed, which
may be a minute and many thousand rows later.
"""

import asyncpg

from tests.store.test_postgres_plans import Connection, generic_plan, nodes, ways_to
from tests.store.test_postgres_schedule_plans import MESSAGES, SCHEDULES, TABLES, WAYS
from tests.stores.open_homes import Homes
from tickwork.store.postgres.engine import database
from tickwork.store.postgres.engine.migrate import migrate

READ_WHOLE = "Seq Scan"
CONDITIONS = ("Index Cond", "TID Cond", "Recheck Cond")
DURABLE_TABLES = (
    "tickwork_entities",
    "tickwork_entity_results",
    "tickwork_entity_storage",
    "tickwork_keys",
    "tickwork_run_events",
    "tickwork_run_steps",
    "tickwork_runs",
)
LOOKED_UP = (
    "ack_plain",
    "adopt_runs",
    "assign_version",
    "bury_alarm",
    "count_run_events",
    "count_run_steps",
    "count_undone_steps",
    "count_waiting_calls",
    "count_waiting_events",
    "delete_alarms",
    "delete_calls",
    "delete_entities",
    "delete_entity_values",
    "end_runs",
    "enter_call",
    "entered_call",
    "entity_head",
    "entity_values",
    "find_runs",
    "finish_runs",
    "forget_events",
    "forget_steps",
    "get_run",
    "list_entity_storage",
    "list_entity_storage_reversed",
    "lock_keys",
    "lock_run",
    "lock_run_message",
    "open_run_steps",
    "put_entities",
    "put_entity_results",
    "record_checkpoint",
    "record_checkpoints",
    "record_dead_letters",
    "retry_step",
    "run_events",
    "run_events_window",
    "run_results",
    "run_steps",
    "run_steps_window",
    "take_run_message",
    "unblock_keys",
    "update_run",
    "wake_enabled",
    "wake_run_message",
    "wake_signalled_runs",
    "withdrawable_call",
)
HOT = (
    "ack",
    "ack_plain",
    "claim",
    "due_schedules",
    "ready_tenants",
    "newer_due",
    "next_look_at",
    "plan",
)


async def test_a_plan_made_on_an_empty_table_does_no_sequential_scan(
    homes: Homes,
) -> None:
    async with homes.take("postgres") as home:
        connection: Connection = await asyncpg.connect(home.url, server_settings=database.SESSION)
        try:
            await connection.execute(f"VACUUM (ANALYZE) {', '.join(TABLES)}")
            for name in sorted({*WAYS, *HOT}):
                plan = await generic_plan(connection, name)
                for table in (MESSAGES, SCHEDULES):
                    assert READ_WHOLE not in ways_to(table, plan), (name, table)
        finally:
            await connection.close()


async def test_a_plan_made_on_empty_tables_looks_up_each_row_by_its_key(
    postgres_url: str,
) -> None:
    await migrate(postgres_url)  # A database that was used before may have empty pages.
    connection: Connection = await asyncpg.connect(postgres_url, server_settings=database.SESSION)
    tables = (*DURABLE_TABLES, MESSAGES, SCHEDULES)
    try:
        await connection.execute(f"VACUUM (ANALYZE) {', '.join(tables)}")
        for name in LOOKED_UP:
            for node in nodes(await generic_plan(connection, name)):
                is_scan = node["Node Type"].endswith("Scan")
                if is_scan and node.get("Relation Name") in tables:
                    assert any(condition in node for condition in CONDITIONS), (name, node)
    finally:
        await connection.close()
