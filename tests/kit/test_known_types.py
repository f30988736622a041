"""User types are queried by their connection; built-in types are cached for all."""

import asyncpg

from tests.kit.known_types import remembered_types


async def test_user_types_are_queried_by_each_connection(postgres_url: str) -> None:
    for change in ("CREATE TYPE own AS (a integer)", "ALTER TYPE own ADD ATTRIBUTE b integer"):
        connection = await asyncpg.connect(postgres_url)
        await connection.execute(change)
        fields = (7, 8) if "ALTER" in change else (7,)
        found = await connection.fetchval("SELECT $1::text::own", str(fields).replace(",)", ")"))
        assert tuple(found) == fields
        await connection.close()


async def test_built_in_types_queried_once_serve_later_connections(postgres_url: str) -> None:
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
