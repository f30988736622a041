"""A record is found by its id through its mark, however many chunks are newer."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from tests.kit.databases import PostgresHost
from tests.store.filled import filled_database
from tickwork.core.message.history import mark_of_id
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine.database import SESSION
from tickwork.store.postgres.engine.sql import CUSTOM_PLAN, SQL

CHUNKS = 2_000
"""Chunks in one partition, all newer than the one that is looked up."""

LOOKED_UP = new_id()

_CHUNK = """
INSERT INTO tickwork_message_history (ended_at, drop_at, tenant, queue, node, records, marks)
SELECT now() + n * interval '1 second', '2100-01-01', 'default', 'work', 'node',
    ARRAY[ROW (
        id, 'done', NULL, 1, now(), now(), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
        NULL, NULL, NULL
    )::tickwork_ended],
    ARRAY[hashtext(left(id::text, 10))]
"""


@pytest.fixture(scope="module")
def database(postgres_server: PostgresHost) -> Iterator[str]:
    fill = [
        f"{_CHUNK} FROM (SELECT 0 AS n, '{LOOKED_UP}'::uuid AS id)",
        f"{_CHUNK} FROM (SELECT n, md5(n::text)::uuid AS id FROM generate_series(1, {CHUNKS}) n)",
        "ANALYZE",
    ]
    with filled_database(postgres_server, fill) as url:
        yield url


@pytest.mark.parametrize("first", ["2000-01-01", "2099-12-31 23:00"])
async def test_a_look_up_by_id_reads_only_the_chunks_with_its_mark(
    database: str, first: str
) -> None:
    """In all partitions, and in those in which most records are."""
    connection = await asyncpg.connect(database, server_settings=SESSION)
    statement: str = SQL.history_of_id
    async with connection.transaction():
        await connection.execute(CUSTOM_PLAN)
        await connection.execute(
            f"PREPARE look_up (text, text, uuid, timestamptz, timestamptz) AS {statement}"
        )
        explained = await connection.fetchval(
            f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE look_up "
            f"('default', '{mark_of_id(LOOKED_UP)}', '{LOOKED_UP}', '{first}', '2100-01-01')"
        )
    await connection.close()
    (plan,) = json.loads(explained)
    assert plan["Plan"]["Actual Rows"] == 1
    assert _rows_read(plan["Plan"]) == 1


def _rows_read(node: dict[str, Any]) -> int:
    """Rows of the history that were read, whether they fit or not."""
    below = sum(map(_rows_read, node.get("Plans", ())))
    if not str(node.get("Relation Name", "")).startswith("tickwork_message_history"):
        return below
    return below + int(node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
