"""Looks up queues by name on SQLite, in the transaction that uses them."""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from tickwork.core.model import QueueSettings, Scope
from tickwork.errors import NotFound
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows


class QueueRow(NamedTuple):
    """A queue as its row has it."""

    id: bytes
    tenant: str | None
    name: str
    settings_text: str
    paused: int
    spent_until: int | None

    @property
    def settings(self) -> QueueSettings:
        return rows.settings(self.settings_text)


def is_storable(text: str) -> bool:
    """Whether a text can be stored in the file; one that cannot need not be looked up."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def find_queue(transaction: Transaction, scope: Scope, name: str) -> QueueRow:
    """The queue of a name, looked up in the transaction that uses it.

    A tenant's own queue takes precedence over a shared one. Two simple lookups are faster than one
    for both.
    """
    row = None
    values = (scope.tenant, name)
    with suppress(UnicodeEncodeError):  # No name contains a lone surrogate.
        row = transaction.execute(SQL.get_queue, values).fetchone()
        if row is None and not scope.is_system:
            row = transaction.execute(SQL.get_shared_queue, values).fetchone()
    if row is None:
        raise NotFound("queue", name)
    return QueueRow(*row)


def tenants_of(transaction: Transaction, scope: Scope) -> list[str]:
    """The tenants that a scope sees."""
    if scope.tenant is not None:
        return [scope.tenant]
    return [tenant for (tenant,) in transaction.execute(SQL.all_tenants)]
