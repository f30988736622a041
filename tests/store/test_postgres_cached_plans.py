"""A plan made while a table is empty is cached, and must still be good when it is full.

A table vacuumed while empty has no pages, and the planner believes that reading all of it costs
nothing. A session that prepared a statement then keeps that plan until the table is analysed, which
may be a minute and many thousand rows later.
"""

import asyncpg

from tests.store.test_postgres_plans import Connection, generic_plan, ways_to
from tests.store.test_postgres_schedule_plans import MESSAGES, SCHEDULES, TABLES, WAYS
from tests.stores.open_homes import Homes
from tickwork.store.postgres.engine import database

READ_WHOLE = "Seq Scan"
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


async def test_a_plan_made_on_an_empty_table_does_no_sequential_scan(homes: Homes) -> None:
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
