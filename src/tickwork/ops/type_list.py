"""Lists the types of messages: those that apps declare, those that were counted, and those that
queues and endpoints subscribe to; and compares an app's with what is declared."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from msgspec import Struct, structs

from tickwork.app.declarations import Registry
from tickwork.app.declared_types import OwnType, types_of
from tickwork.core.answers.message_type import DeclaredType, MessageType
from tickwork.core.limits import ENDPOINTS_MAX
from tickwork.core.message.subscription import matches
from tickwork.core.types.change import SchemaChange, schema_changes
from tickwork.core.types.declared import TYPES_LISTED_MAX
from tickwork.errors import NotFound
from tickwork.ops.context import Context
from tickwork.ops.queues import QUEUES_MAX, list_queues
from tickwork.ops.topology import visible_subscriptions


class _Seen:
    """What is known of a type."""

    def __init__(self) -> None:
        self.sources: set[str] = set()
        self.queues: set[str] = set()
        self.messages: Counter[str] = Counter()
        self.declared: list[DeclaredType] = []


class MessageTypes(NamedTuple):
    """Types by name. `truncated`: there are more than `QUEUES_MAX` queues, and the types were
    counted in the first of them."""

    items: tuple[MessageType, ...]
    truncated: bool


async def list_types(context: Context) -> MessageTypes:
    """Returns the types that apps declare, those that were counted in the last hour, and those that
    queues or endpoints of the tenant subscribe to; without schemas."""
    found = await _types(context)
    items = tuple(
        structs.replace(
            item, declared=tuple(structs.replace(one, schema=None) for one in item.declared)
        )
        for item in found.items
    )
    return MessageTypes(items, found.truncated)


async def get_type(context: Context, name: str) -> MessageType:
    """Returns a type with what apps declare about it, and its schemas. Raises `NotFound` if it is
    not listed."""
    for item in (await _types(context)).items:
        if item.type == name:
            return item
    raise NotFound("type", name, "no app declares it, and nobody subscribes to it")


async def _types(context: Context) -> MessageTypes:
    seen: dict[str, _Seen] = {}
    for one in await context.store.types.list(context.scope, TYPES_LISTED_MAX):
        known = seen.setdefault(one.type, _Seen())
        known.queues.add(one.queue)
        known.declared.append(one)
    counted = await list_queues(context, limit=QUEUES_MAX + 1)
    shown = counted[:QUEUES_MAX]
    stats = await context.store.stats.queues(context.scope, shown, at_most=1)
    for queue, found_there in zip(shown, stats, strict=True):
        for kind in found_there.kinds:
            if kind.type is not None:
                known = seen.setdefault(kind.type, _Seen())
                known.queues.add(queue.name)
                known.messages[str(kind.counter)] += kind.messages
                known.sources |= set() if kind.source is None else {kind.source}
    subscriptions = await visible_subscriptions(context)
    queues = {(subscription.types, subscription.queue) for subscription in subscriptions}
    endpoints = {
        (pattern, endpoint.name)
        for endpoint in await context.store.endpoints.list(context.scope, ENDPOINTS_MAX)
        for pattern in endpoint.settings.types
    }
    patterns = {pattern for pattern, _ in queues | endpoints}
    found = tuple(
        MessageType(
            type=name,
            sources=tuple(sorted(known.sources)),
            queues=tuple(sorted(known.queues)),
            messages=dict(known.messages),
            subscribers=_who(queues, name),
            endpoints=_who(endpoints, name),
            declared=tuple(known.declared),
        )
        for name in sorted({*seen, *patterns})
        for known in [seen.get(name, _Seen())]
    )
    return MessageTypes(found, len(counted) > QUEUES_MAX)


def _who(asked: set[tuple[str, str]], name: str) -> tuple[str, ...]:
    """Who subscribes to a type or asks with this pattern, by name."""
    return tuple(sorted({who for pattern, who in asked if matches(pattern, name)}))


class TypeCheck(Struct, frozen=True, kw_only=True):
    """A type of an app beside what the database has: of this app, or of `app`, another one.

    `app` is None if nobody has declared it. It is breaking if a change is.
    """

    queue: str
    type: str
    version: str
    app: str | None
    stored_version: str | None
    changes: tuple[SchemaChange, ...]
    breaking: bool


async def check_types(context: Context, registry: Registry) -> tuple[TypeCheck, ...]:
    """Compares the types of an app with those in the database: what a deploy would change for those
    who send. Changes nothing."""
    stored: dict[tuple[str, str], list[DeclaredType]] = {}
    for one in await context.store.types.list(context.scope, TYPES_LISTED_MAX):
        stored.setdefault((one.queue, one.type), []).append(one)
    checks: list[TypeCheck] = []
    for own in types_of(registry):
        others = stored.get((own.queue, own.type), [])
        before = [one for one in others if one.app == registry.app_name] or others
        checks += [_compared(own, one) for one in before] or [_compared(own, None)]
    return tuple(checks)


def _compared(own: OwnType, stored: DeclaredType | None) -> TypeCheck:
    changes = () if stored is None else schema_changes(stored.schema or {}, own.schema)
    return TypeCheck(
        queue=own.queue,
        type=own.type,
        version=own.version,
        app=None if stored is None else stored.app,
        stored_version=None if stored is None else stored.version,
        changes=changes,
        breaking=any(change.breaking for change in changes),
    )
