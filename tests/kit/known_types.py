"""What asyncpg asks every new connection about PostgreSQL's own types, asked once per process.

The answer is the same in every database of every server, and every test opens connections anew:
asking takes longer than most tests. Types that somebody created are asked about as ever.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg

CREATED_OID_MIN = 16_384
"""From here on the numbers are given to what users create."""


@contextmanager
def remembered_types() -> Iterator[None]:
    """Remembers meanwhile."""
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
