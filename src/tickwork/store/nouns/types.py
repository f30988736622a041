"""Types of messages, as apps declare them. What a queue takes is cached: each send asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from tickwork.clock import monotonic
from tickwork.core.answers.message_type import ANY_TYPE, DeclaredType
from tickwork.core.limits import check_limit, check_system, is_name
from tickwork.core.message.subscription import Subscription, matches
from tickwork.core.model import Scope
from tickwork.core.types.declared import DifferingType, NewType, QueueTypes
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import NOW, After, Noun, Port, Row, Statement, Steps, reads, writes

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_REGISTER = Statement("register_types")
_OF_QUEUE = Statement("types_of_queue", DeclaredType)
_LIST = Statement("list_types", DeclaredType)

_DIFFERING = Statement("differing_types")
_SUBSCRIPTIONS = Statement("list_subscriptions", queue_id=Kind.ID)

TYPES_REMEMBERED_MAX = 10_000
"""Maximum number of queues whose types are cached, and of tenants whose subscriptions are; beyond
it all are dropped."""

TYPES_REMEMBERED_SECONDS = 2.0
"""Seconds that the types of a queue and subscriptions are cached: other processes change them."""

_NOTHING = ""
"""How the type `*` is stored: no message has an empty type."""


class _Remembered(NamedTuple, Generic[T]):
    value: T
    until_monotonic: float


class Types(Noun):
    """Types of messages by queue."""

    def __init__(self, port: Port) -> None:
        super().__init__(port)
        self._known: dict[tuple[str | None, str], _Remembered[QueueTypes]] = {}
        self._subscribed: dict[str | None, _Remembered[tuple[Subscription, ...]]] = {}

    @writes(repeatable=True)
    def register(self, scope: Scope, app: str, types: Sequence[NewType]) -> Steps[None]:
        rows = [
            (
                new.queue_id,
                _stored(new.type),
                new.version,
                new.schema,
                msgspec.json.encode(new.handlers).decode(),
            )
            for new in types
        ]
        yield from _REGISTER.fetch_each(rows, NOW, scope.tenant, app)
        yield After(self._known.clear)

    async def of_queue(self, scope: Scope, queue: str) -> QueueTypes:
        async def read() -> QueueTypes:
            return QueueTypes(await self._of_queue(scope, queue))

        return await _remembered(self._known, (scope.tenant, queue), read)

    async def subscribed(self, scope: Scope, type: str) -> tuple[str, ...]:  # noqa: A002
        """The queues that subscribe to a type, of the tenant and of all tenants."""
        found = await _remembered(
            self._subscribed, scope.tenant, lambda: self._subscriptions(scope)
        )
        names = (one.queue for one in found if matches(one.types, type))
        return tuple(dict.fromkeys(names))

    @reads
    def list(
        self,
        scope: Scope,
        limit: int,
        *,
        type: str | None = None,  # noqa: A002
        queue: str | None = None,
    ) -> Steps[tuple[DeclaredType, ...]]:
        check_limit(limit)
        if not all(name is None or is_name(name) for name in (scope.tenant, type, queue)):
            return ()
        wanted = None if type is None else _stored(type)
        rows = yield from _LIST.fetch(scope.tenant, wanted, queue, limit)
        return tuple(map(_read, rows))

    @reads
    def differing(self, scope: Scope, limit: int) -> Steps[tuple[DifferingType, ...]]:
        check_system(scope)
        rows = yield from _DIFFERING.fetch(limit)
        return tuple(
            DifferingType(row["queue"], row["type"] or ANY_TYPE, row["apps"]) for row in rows
        )

    @reads
    def _of_queue(self, scope: Scope, queue: str) -> Steps[tuple[DeclaredType, ...]]:
        if not is_name(queue) or not (scope.tenant is None or is_name(scope.tenant)):
            return ()
        return tuple(map(_read, (yield from _OF_QUEUE.fetch(scope.tenant, queue))))

    @reads
    def _subscriptions(self, scope: Scope) -> Steps[tuple[Subscription, ...]]:
        found = list[Subscription]()
        for tenant in {scope.tenant, None}:
            if tenant is None or is_name(tenant):
                found += [Subscription(**row) for row in (yield from _SUBSCRIPTIONS.fetch(tenant))]
        return tuple(found)


async def _remembered(
    known: dict[K, _Remembered[T]], key: K, read: Callable[[], Awaitable[T]]
) -> T:
    """What is cached, or else is read now."""
    found = known.get(key)
    if found is not None and found.until_monotonic > monotonic():
        return found.value
    if len(known) >= TYPES_REMEMBERED_MAX:
        known.clear()
    value = await read()
    known[key] = _Remembered(value, monotonic() + TYPES_REMEMBERED_SECONDS)
    return value


def _stored(type_: str) -> str:
    return _NOTHING if type_ == ANY_TYPE else type_


def _read(row: Row) -> DeclaredType:
    return DeclaredType(
        **{
            **row,
            "type": row["type"] or ANY_TYPE,
            "handlers": tuple(msgspec.json.decode(row["handlers"])),
            "schema": msgspec.json.decode(row["schema"]),
        }
    )
