"""Which queues there are: those that an app declares, and those that its store has."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tickwork.app.checking import check_queue_name
from tickwork.app.declarations import Registry
from tickwork.app.handling import current_handling
from tickwork.core.model import Scope
from tickwork.errors import FieldError, InvalidInput, NotFound
from tickwork.store.contract import Store


async def is_there(store: Store, scope: Scope, name: str) -> bool:
    """Whether the store has a queue of that name."""
    try:
        await store.queues.get(scope, name)
    except NotFound:
        return False
    return True


async def check_there(
    open_store: Callable[[], Awaitable[Store]],
    registry: Registry,
    scope: Scope,
    **named: str | None,
) -> None:
    """Raises `InvalidInput`, by their fields, for queues that neither the app nor the store has;
    what runs in a process without the database is told later."""
    given = {field: name for field, name in named.items() if name is not None}
    for field, name in given.items():
        check_queue_name(field, name)
    handling = current_handling()
    for field, name in given.items():
        if name in registry.queues or (handling is not None and not handling.has_store):
            continue
        if not await is_there(await open_store(), scope, name):
            fault = f"{name!r} is not declared; {registry.nearest(name)}"
            raise InvalidInput([FieldError(field, fault)])
