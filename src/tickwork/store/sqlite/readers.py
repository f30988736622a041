"""SQLite has no roles: whoever may read the file reads all of it."""

from __future__ import annotations

from typing import NoReturn

from tickwork.core.model import Scope
from tickwork.errors import FieldError, InvalidInput
from tickwork.store.access_contract import Reader


class SqliteReaders:
    """Refuses everything: the contract has roles, a file has none."""

    async def grant(self, scope: Scope, reader: Reader) -> None:  # noqa: ARG002
        _refuse()

    async def revoke(self, scope: Scope, role: str) -> None:  # noqa: ARG002
        _refuse()

    async def list(self, scope: Scope) -> tuple[Reader, ...]:  # noqa: ARG002
        _refuse()


def _refuse() -> NoReturn:
    text = "must be a PostgreSQL server: a SQLite file has no roles, its readers see all tenants"
    raise InvalidInput([FieldError("database", text)])
