"""Types of one's own are known by their connection, and PostgreSQL's by all."""

import asyncpg

from tests.kit.known_types import remembered_types


async def test_a_type_of_ones_own_is_asked_about_anew(postgres_url: str) -> None:
    for change in ("CREATE TYPE own AS (a integer)", "ALTER TYPE own ADD ATTRIBUTE b integer"):
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(change)
        fields = (7, 8) if "ALTER" in change else (7,)
        found = await connection.fetchval("SELECT $1::text::own", str(fields).replace(",)", ")"))
        assert tuple(found) == fields
        await connection.close()


async def test_what_was_told_to_one_connection_serves_the_next(postgres_url: str) -> None:
    asked = 0
    ask = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]

    async def counted(*arguments: object) -> object:
        nonlocal asked
        asked += 1
        return await ask(*arguments)

    asyncpg.Connection._introspect_types = counted  # type: ignore[attr-defined]
    try:
        with remembered_types():
            for numbers in ([1, 2], [3]):
                connection = await asyncpg.connect(postgres_url)
                assert await connection.fetchval("SELECT $1::bigint[]", numbers) == numbers
                await connection.close()
    finally:
        asyncpg.Connection._introspect_types = ask  # type: ignore[attr-defined]
    assert asked == 1
