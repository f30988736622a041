"""The PostgreSQL of these tests is a real one, and is what the tests take it for."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from tests.kit.databases import ExternalPostgres, PostgresHost
from tests.kit.postgres import PostgresFailed, PostgresServer
from tests.kit.waiting import eventually

DIES_WITH_ITS_SERVER_RUNNING = """
import os, signal
from tests.kit.postgres import PostgresServer
server = PostgresServer()
server.start()
print(server.pid, server.data_dir, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


async def value(url: str, query: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


async def execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def test_the_server_is_a_real_and_recent_postgresql(postgres_url: str) -> None:
    number = await value(postgres_url, "SELECT current_setting('server_version_num')::int")
    assert isinstance(number, int)
    assert number >= 160_000


async def test_a_fresh_database_is_empty(postgres_url: str) -> None:
    count = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    assert await value(postgres_url, count) == 0
    await execute(postgres_url, "CREATE TABLE seen (id int)")
    assert await value(postgres_url, count) == 1


async def test_databases_do_not_see_each_other(
    postgres_url: str, postgres_server: PostgresHost
) -> None:
    await execute(postgres_url, "CREATE TABLE mine (id int)")
    other = await postgres_server.create_database()
    assert await value(other, "SELECT to_regclass('mine')::text") is None
    await postgres_server.drop_database(other)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await asyncpg.connect(other)


async def test_a_database_can_be_copied_from_a_prepared_one(
    postgres_url: str, postgres_server: PostgresHost
) -> None:
    await execute(postgres_url, "CREATE TABLE prepared AS SELECT 7 AS id")
    copy = await postgres_server.create_database(template_url=postgres_url)
    assert await value(copy, "SELECT id FROM prepared") == 7
    await postgres_server.drop_database(copy)


async def test_a_database_is_dropped_under_its_users(postgres_server: PostgresHost) -> None:
    url = await postgres_server.create_database()
    connection = await asyncpg.connect(url)
    await postgres_server.drop_database(url)
    await eventually(connection.is_closed)


async def test_committed_rows_survive_a_crash(durable_postgres: PostgresServer) -> None:
    url = durable_postgres.url
    assert await value(url, "SELECT current_setting('fsync')") == "on"
    await execute(url, "CREATE TABLE kept AS SELECT generate_series(1, 100) AS id")
    before = durable_postgres.pid
    durable_postgres.stop("immediate")
    with pytest.raises(OSError, match=r"refused|Connect call failed"):
        await asyncpg.connect(url)
    durable_postgres.start()
    assert durable_postgres.pid != before
    assert await value(url, "SELECT count(*) FROM kept") == 100


async def test_the_server_comes_back_after_its_postmaster_is_killed() -> None:
    with PostgresServer() as server:
        os.kill(server.pid, signal.SIGKILL)
        await eventually(lambda: not server.is_running)
        server.restart()
        assert await value(server.url, "SELECT 1") == 1


def test_the_server_runs_as_an_ordinary_user() -> None:
    with PostgresServer() as server:
        assert Path(f"/proc/{server.pid}").stat().st_uid != 0


def test_a_wrong_setting_fails_with_the_log() -> None:
    with (
        pytest.raises(PostgresFailed, match="no_such_setting"),
        PostgresServer(settings={"no_such_setting": "1"}),
    ):
        pass


async def test_a_wrong_external_url_is_a_clear_failure() -> None:
    with pytest.raises(RuntimeError, match=r"no database can be created at .*:1/"):
        await ExternalPostgres("postgresql://postgres@127.0.0.1:1/postgres").check()


async def test_a_server_dies_with_its_test_process() -> None:
    killed = subprocess.run(  # noqa: ASYNC221  nothing else is to run meanwhile
        [sys.executable, "-c", DIES_WITH_ITS_SERVER_RUNNING], capture_output=True, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    pid, data_dir = killed.stdout.decode().split()
    await eventually(lambda: not Path(f"/proc/{pid}").exists(), what=f"postmaster {pid} to end")
    await eventually(lambda: not Path(data_dir).parent.exists(), what=f"{data_dir} to be removed")
