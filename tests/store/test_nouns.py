"""The statements of nouns are the same to Python in both stores: their parameters, the names of
their columns, and what the columns are. A statement that exists in one store only, or a column that
a port would not decode, is found here and not at run time."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import asyncpg
import pytest

from tests.store.query_plans import parameters
from tests.stores.home import Home
from tickwork.store import nouns
from tickwork.store.postgres.engine.sql import SQL as POSTGRES
from tickwork.store.shared.columns import Kind
from tickwork.store.sqlite.engine.file import DatabaseFile
from tickwork.store.sqlite.engine.sql import SQL as SQLITE
from tickwork.store.steps import Statement

DECODED = {"uuid": Kind.ID, "timestamptz": Kind.TIME, "bool": Kind.FLAG, "text[]": Kind.TEXTS}
"""Types of PostgreSQL, by the driver's names, that a file stores as something else."""


MODULES = [
    import_module(f"{nouns.__name__}.{module.name}") for module in iter_modules(nouns.__path__)
]


def _statements_in(value: object) -> Iterator[Statement]:
    """The statements of a constant: itself, or those of a table."""
    if isinstance(value, Statement):
        yield value
    elif isinstance(value, dict):
        yield from _statements_in((*value.keys(), *value.values()))
    elif isinstance(value, tuple):
        for part in value:
            yield from _statements_in(part)


STATEMENTS = {
    statement
    for module in MODULES
    for value in vars(module).values()
    for statement in _statements_in(value)
}


def test_every_statement_is_a_constant_of_its_module() -> None:
    """The other laws see only those."""
    texts = [path.read_text("utf-8") for path in Path(nouns.__path__[0]).glob("*.py")]
    assert sum(len(re.findall(r"\bStatement\(", text)) for text in texts) == len(STATEMENTS)


@pytest.mark.parametrize("name", sorted({statement.name for statement in STATEMENTS}))
def test_a_statement_has_the_same_parameters_in_both_stores(name: str) -> None:
    numbers = re.findall(r"\$(\d+)", re.sub(r"--.*", "", getattr(POSTGRES, name)))
    assert parameters(getattr(SQLITE, name)) == max(map(int, numbers), default=0)


@pytest.fixture
async def server(home: Home) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(home.url)
    yield connection
    await connection.close()


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_statements_have_the_same_columns_in_both_stores(
    server: asyncpg.Connection[asyncpg.Record], path: Path
) -> None:
    with closing(DatabaseFile(path).connect()) as file:
        for statement in STATEMENTS:
            name = statement.name
            columns = (await server.prepare(getattr(POSTGRES, name))).get_attributes()
            names = [column.name for column in columns]
            types = {column.name: column.type.name for column in columns}
            assert _names(file, getattr(SQLITE, name)) == names, name
            known = {name: kind for name, kind in statement.kinds.items() if name in types}
            decoded = {name: DECODED[type_] for name, type_ in types.items() if type_ in DECODED}
            assert known == decoded, name
            assert statement.named.keys() <= types.keys(), name


def _names(file: sqlite3.Connection, statement: str) -> list[str]:
    """The names of the columns that a statement returns."""
    if returned := re.search(r"\bRETURNING\s+(.*)$", statement, re.DOTALL):
        return [column.split()[-1].split(".")[-1] for column in returned[1].split(",")]
    file.execute("BEGIN")
    values = [0] * parameters(statement)
    description = file.execute(statement, values).description if _reads(statement) else None
    file.rollback()
    return [column[0] for column in description or ()]


def _reads(statement: str) -> bool:
    return re.sub(r"--.*", "", statement).lstrip().startswith(("SELECT", "WITH"))
