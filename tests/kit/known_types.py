"""Caches asyncpg's queries about PostgreSQL's built-in types, once per process.

The result is the same in every database of every server, and every test opens new connections: the
queries take longer than most tests. User-defined types are still queried.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

CREATED_OID_MIN = 16_384
"""Object ids from here on belong to user-defined types."""


@contextmanager
def remembered_types() -> Iterator[None]:
    """Caches while the block runs."""
    ask: Any = asyncpg.Connection._introspect_types  # type: ignore[attr-defined]
    known: dict[frozenset[int], Any] = {}

    async def introspect(connection: Any, oids: Iterable[int], *rest: Any) -> Any:
        wanted = frozenset(oids)
        if max(wanted) >= CREATED_OID_MIN:
            return await ask(connection, oids, *rest)
        if wanted not in known:
            known[wanted] = await ask(connection, oids, *rest)
        return known[wanted]

    asyncpg.Connection._introspect_types = introspect  # type: ignore[attr-defined]
    try:
        yield
    finally:
        asyncpg.Connection._introspect_types = ask  # type: ignore[attr-defined]
