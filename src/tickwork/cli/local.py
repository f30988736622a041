"""The verbs of an app on a local database, as those of the client.

A command calls `client.queues.list()` and so on, and is written once. With --server that is the
client; with --database it is this: each verb calls the verb of the same name of an app, which
returns the same records. A test holds both to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import iscoroutinefunction, signature
from typing import TYPE_CHECKING, Any, cast

from tickwork.core.answers.entity import StorageEntry
from tickwork.core.queue.stats import QueueStats
from tickwork.facade.app import Tickwork, engine_of
from tickwork.facade.queue import Queue
from tickwork.ops.context import Context
from tickwork.ops.queues import (
    find_queue,
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
            return tuple(StorageEntry(name, value) for name, value in result.items())
        return result
