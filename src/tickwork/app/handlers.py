"""What can be a handler, and what a handler may return.

A handler is done when it returns. So one whose call only makes something that others would have to
run (a coroutine, a generator) would be acked, and nothing of it would have happened.

What an author gives an app, looked at where it is written: of the right kind, or refused.

The settings of a queue as an app writes them.
"""

from __future__ import annotations

import inspect
from asyncio import Future
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from functools import partial
from reprlib import repr as shortened
from typing import Any

from tickwork.app.handling import Noted
from tickwork.core.fields import Reader, type_faults
from tickwork.core.limits import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, check_queue, text_faults
from tickwork.core.model import QueueSettings
from tickwork.core.queue.fields import SETTINGS
from tickwork.errors import FieldError, InvalidInput


def written(function: Callable[..., Any]) -> Any:
    """What has the name of a handler: the function of a `partial`, the class of an object."""
    while isinstance(function, partial):
        function = function.func
    return function if hasattr(function, "__qualname__") else type(function)


def name_of(function: Callable[..., Any]) -> str:
    """Where a handler is defined."""
    defined = written(function)
    return f"{defined.__module__}.{defined.__qualname__}"


def shape_fault(function: Callable[..., Any]) -> str | None:
    """Why this can be no handler: to call it would run nothing, or fail."""
    call = type(function).__call__
    for each in (function, call):
        if inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each):
            return (
                "is a generator: to call it runs nothing of it. Write a function without yield, "
                "and make what it goes through a function of its own"
            )
    if inspect.iscoroutinefunction(call) and not inspect.iscoroutinefunction(function):
        return (
            "is an object whose __call__ is a coroutine function; declare that itself: "
            "app.on(…)(handler.__call__)"
        )
    try:
        # Of a decorated function it is the wrapper that is called, and it may supply the rest.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError):  # Of what is not written in Python nothing is known.
        return None
    try:
        signature.bind(None)
    except TypeError:
        return f"is called with one argument, what it is to handle; it takes {signature}"
    return None


def return_fault(returned: object) -> str | None:
    """What is wrong with what a handler returned: work that is not done. It is closed."""
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
            kind = f"something to await ({type(returned).__name__})"
        case _:
            return None
    return (
        f"the handler returned {kind}, which nobody runs, so its work is not done. Make the "
        "handler `async def`, and await there what it calls; so must a decorator around it"
    )


def check_queue_name(field: str, given: object) -> None:
    """Raises `InvalidInput` for what no queue can be called."""
    if isinstance(given, str):
        faults = text_faults(field, given, NAME_LENGTH_MAX)
    else:
        fault = f"must be the name of a queue, a text, not {shortened(given)}"
        if isinstance(name := getattr(given, "name", None), str):
            fault += f"; give {name!r}"
        elif callable(given):
            fault += "; it stands in parentheses, as in @app.on('emails')"
        faults = [FieldError(field, fault)]
    if faults:
        raise InvalidInput(faults)


def check_type_name(given: object) -> None:
    """Raises `InvalidInput` for what no type of messages can be called."""
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
