"""Where other systems keep their schedules: objects in modules, and tables in databases.

Both are only read. A pickle in a file or table runs code when it is read: import only what you
trust.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tickwork.cli.run import error_location
from tickwork.errors import FieldError, InvalidInput


def needed(package: str) -> None:
    """Raises `InvalidInput` if a package of the other system is not installed here."""
    if find_spec(package) is None:
        raise InvalidInput(
            [FieldError(package, f"is not installed here; run pip install {package}")]
        )


def load_object(reference: str, what: str) -> Any:
    """The object that `module:name` names."""
    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        fault = f"must be MODULE:NAME of {what}, a database or a file, not {reference!r}"
        raise InvalidInput([FieldError("SOURCE", fault)])
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        found: Any = import_module(module)
    except (Exception, SystemExit) as error:
        what = f"{type(error).__name__}: {error}{error_location(error)}"
        fault = f"importing {module} failed: {what}"
        raise InvalidInput([FieldError("SOURCE", fault)]) from None
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidInput([FieldError("SOURCE", f"{module} has no {name!r}")])
        found = getattr(found, part)
    return found


def query(url: str, name: str) -> list[Sequence[Any]]:
    """The rows of a statement in a SQLite file or a PostgreSQL database."""
    statement = files("tickwork.cli").joinpath("sql", f"{name}.sql").read_text("utf-8")
    if url.startswith("sqlite:///"):
        return _query_sqlite(url.removeprefix("sqlite:///"), statement)
    scheme, _, rest = url.partition("://")
    if scheme.partition("+")[0] not in ("postgresql", "postgres"):
        fault = f"must be sqlite:///… or postgresql://…, not {scheme}://…"
        raise InvalidInput([FieldError("SOURCE", fault)])
    return asyncio.run(_query_postgres(f"postgresql://{rest}", statement))


def _query_sqlite(path: str, statement: str) -> list[Sequence[Any]]:
    import sqlite3

    try:
        connection = sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
        try:
            return [*connection.execute(statement).fetchall()]
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise InvalidInput([FieldError("SOURCE", f"{path} cannot be read: {error}")]) from None


async def _query_postgres(url: str, statement: str) -> list[Sequence[Any]]:
    from tickwork.wiring import postgres_extra

    with postgres_extra():
        import asyncpg
    try:
        connection = await asyncpg.connect(url)
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close()
    except (asyncpg.PostgresError, OSError) as error:
        raise InvalidInput(
            [FieldError("SOURCE", f"the database cannot be read: {error}")]
        ) from None
