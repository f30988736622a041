"""Ids, the owner of a record, and the clock: what every store needs before its first statement.

Ids are UUIDv7 and are made by the caller, so that a repeated call is recognised by its id.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from secrets import token_bytes as random_bytes
from uuid import UUID

from uuid_utils.compat import uuid7

from tickwork.core.model import DEFAULT, Scope

__all__ = [
    "SCHEDULES_TOPIC",
    "Moment",
    "database_time",
    "new_id",
    "own_tenant",
    "random_bytes",
]

SCHEDULES_TOPIC = UUID(int=1)
"""The topic that leaders of schedules watch; consumers watch the id of a queue."""


def new_id() -> UUID:
    """Returns an id that sorts by the time it was made."""
    return uuid7()


FIRST_TENANT, LAST_TENANT = "", "\U0010ffff"
"""Bounds of all ids of tenants."""


def own_tenant(scope: Scope) -> str:
    """The tenant that owns a new record: in the system scope the default tenant."""
    tenant = scope.tenant or DEFAULT.tenant
    assert tenant is not None
    return tenant


Moment = Callable[[], datetime | None]
"""Returns the time of a virtual clock, or None for the database's own clock."""


def database_time() -> None:
    """Returns None: the database's own clock counts."""
    return
