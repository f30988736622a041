"""The verbs of an app on a local database, with the answers of the client.

A command calls `client.queues.list()` and so on, and is written once. With --server that is the
client; with --database it is this: each verb calls the verb of the same name of an app, and turns
its result into the answer that the server would give: the same values, ids with their prefix. A
test holds both to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

import msgspec

from tickwork.client import answers, run_answers
from tickwork.core.answers.ids import Id, plain_id, with_prefixes
from tickwork.core.message.subscription import Subscription
from tickwork.core.queue.stats import QueueStats
from tickwork.core.schedule.model import Calendar
from tickwork.facade.app import Tickwork, engine_of
from tickwork.facade.queue import Queue
from tickwork.ops.context import Context
from tickwork.ops.keys import CreatedKey
from tickwork.ops.queues import (
    find_queue,
    queue_names,
    queue_view,
)

if TYPE_CHECKING:
    from tickwork.client.client import Client


def as_client(app: Tickwork) -> Client:
    """The app with the answers of a client."""
    return cast("Client", LocalVerbs(app, app))


class LocalVerbs:
    """The verbs of an app, or of one of its nouns."""

    def __init__(self, app: Tickwork, noun: Any) -> None:
        self._app, self._noun = app, noun

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._noun, name)
        if not callable(found):
            return LocalVerbs(self._app, found)
        if name == "queue":  # Without declaring it.
            return lambda queue: LocalVerbs(self._app, Queue(engine_of(self._app), queue))
        if name == "call":  # Its result is the value of a method, as it is.
            return found
        if name == "get" and not iscoroutinefunction(found):  # A handle of a run.
            return lambda *args: LocalVerbs(self._app, found(*args))
        return self._verb(found)

    def _verb(self, found: Any) -> Callable[..., Coroutine[Any, Any, Any]]:
        parameters = signature(found).parameters.values()
        has_fields = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        has_limit = has_fields or any(parameter.name == "limit" for parameter in parameters)

        async def call(*args: Any, **kwargs: Any) -> Any:
            most = None if has_limit else kwargs.pop("limit", None)
            if has_limit and not has_fields and kwargs.get("limit", 0) is None:
                del kwargs["limit"]
            result = await found(*args, **kwargs)
            if isinstance(result, tuple):
                result = result[:most]
            return await self._answer(result, args)

        return call

    async def _answer(self, result: Any, args: tuple[Any, ...]) -> Any:
        engine = engine_of(self._app)
        if isinstance(result, QueueStats):
            store, name = await engine.open(), args[0] if args else self._noun.name
            return queue_view(await find_queue(Context(store, engine.scope), name), result)
        if isinstance(result, dict):
            return tuple(run_answers.StorageEntry(name, value) for name, value in result.items())
        names = None
        first = result[0] if isinstance(result, tuple) and result else result
        if hasattr(first, "queue_id"):
            names = await queue_names(Context(await engine.open(), engine.scope))
        return answer_of(result, names)


_ANSWERS: dict[type[Any], type[Any]] = {
    Calendar: answers.CalendarAnswer,
    Subscription: answers.SubscriptionBody,
    CreatedKey: run_answers.CreatedKey,
}
"""The answer for each value of an app."""


def answer_of(value: Any, queues: Mapping[UUID, str] | None = None) -> Any:
    """The answer for what a verb of an app returned. `queues` are the names of queues by id."""
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(answer_of(member, queues) for member in value)
    kind = next((_ANSWERS[base] for base in type(value).__mro__ if base in _ANSWERS), None)
    if kind is None:
        return value
    value = with_prefixes(value)
    given = {"queue": _queue_name(value, queues or {})}
    fields = {
        name: _shown(given[name] if name in given else _field(value, name))
        for name in kind.__struct_fields__
        if name in given or _has(value, name)
    }
    return msgspec.convert(msgspec.to_builtins(fields, enc_hook=plain_id), kind)


def _queue_name(value: Any, queues: Mapping[UUID, str]) -> str | None:
    own: str | None = getattr(value, "queue", None)
    return own if own is not None else queues.get(getattr(value, "queue_id", UUID(int=0)))


def _has(value: Any, name: str) -> bool:
    return hasattr(value, name) or hasattr(getattr(value, "settings", None), name)


def _field(value: Any, name: str) -> Any:
    return getattr(value if hasattr(value, name) else value.settings, name)


def _shown(value: Any) -> Any:
    return str(value) if isinstance(value, Id | UUID) else value
