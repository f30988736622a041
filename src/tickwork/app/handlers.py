"""Checks of what an app declares: handler functions, their results, names and queue settings.

A message is acked when its handler returns. A handler that returns a coroutine or a generator would
be acked without having run, so it is refused.
"""

from __future__ import annotations

import inspect
from asyncio import Future
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from functools import partial
from reprlib import repr as shortened
from typing import Any

from tickwork.app.invocation import Noted
from tickwork.core.fields import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, Reader, text_faults, type_faults
from tickwork.core.limits import check_not_hidden
from tickwork.core.model import QueueSettings
from tickwork.core.queue.fields import SETTINGS, check_queue
from tickwork.errors import FieldError, InvalidInput


def written(function: Callable[..., Any]) -> Any:
    """The object with a handler's name: the function of a `partial`, the class of an object."""
    while isinstance(function, partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def name_of(function: Callable[..., Any]) -> str:
    """Module and qualified name of a handler."""
    defined = written(function)
    return f"{defined.__module__}.{defined.__qualname__}"


def shape_fault(function: Callable[..., Any]) -> str | None:
    """Why this cannot be a handler: calling it would fail or run nothing. None if it can."""
    call = type(function).__call__
    for callable_ in (function, call):
        if inspect.isgeneratorfunction(callable_) or inspect.isasyncgenfunction(callable_):
            return "is a generator function, which would never run; remove the yield"
    if inspect.iscoroutinefunction(call) and not inspect.iscoroutinefunction(function):
        return (
            "is an object whose __call__ is a coroutine function; declare the method: "
            "app.on(…)(handler.__call__)"
        )
    try:
        # The wrapper of a decorated function is called; it may supply further arguments.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # A callable not written in Python may have no signature.
        return None
    try:
        signature.bind(None)
    except TypeError:
        return f"is called with one argument, the message or batch; it takes {signature}"
    return None


def return_fault(returned: object) -> str | None:
    """Why a handler's result is refused: it is work that has not run. Closes it."""
    match returned:
        case None | Noted():
            return None
        case Coroutine():
            returned.close()
            kind = "a coroutine"
        case Generator():
            returned.close()
            kind = "a generator"
        case AsyncGenerator():
            kind = "an async generator"
        case Future() if returned.done():
            return None
        case _ if inspect.isawaitable(returned):
            kind = f"an awaitable ({type(returned).__name__})"
        case _:
            return None
    return (
        f"the handler returned {kind}, which never runs. Make the handler `async def` and await "
        "the call there; a decorator around it must do the same"
    )


def check_queue_name(field: str, given: object) -> None:
    """Raises `InvalidInput` for an invalid queue name."""
    if isinstance(given, str):
        faults = text_faults(field, given, NAME_LENGTH_MAX)
    else:
        fault = f"must be the name of a queue, a text, not {shortened(given)}"
        if isinstance(name := getattr(given, "name", None), str):
            fault += f"; give {name!r}"
        elif callable(given):
            fault += "; pass it in parentheses, as in @app.on('emails')"
        faults = [FieldError(field, fault)]
    if faults:
        raise InvalidInput(faults)


def check_own_queue(field: str, given: object) -> None:
    """Raises `InvalidInput` for what cannot be a queue of an app: its name is invalid, or Tickwork
    itself uses it."""
    check_queue_name(field, given)
    check_not_hidden(str(given), field)


def check_type_name(given: object) -> None:
    """Raises `InvalidInput` for an invalid message type."""
    faults = type_faults("type", given, str | None)
    if isinstance(given, str):
        faults = text_faults("type", given, TEXT_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)


def queue_settings(name: str, given: Mapping[str, Any]) -> QueueSettings:
    """The settings of a queue; raises `InvalidInput` with every error in them."""
    faults: list[FieldError] = []
    reader = Reader(given, faults)
    reader.refuse_unknown(SETTINGS.keys())
    values = reader.read(SETTINGS)
    if faults:
        raise InvalidInput(faults)
    settings = QueueSettings(**values)
    check_queue(name, settings)
    return settings
