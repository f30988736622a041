"""What can be a handler, and what a handler may return.

A handler is done when it returns. So one whose call only makes something that others would have to
run (a coroutine, a generator) would be acked, and nothing of it would have happened.

What an author gives an app, looked at where it is written: of the right kind, or refused.

The settings of a queue as an app writes them.
"""

from __future__ import annotations

import inspect
from asyncio import Future
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from difflib import get_close_matches
from functools import partial
from reprlib import repr as shortened
from types import NoneType
from typing import Any, get_args

import msgspec
from msgspec import Struct, structs

from tickwork.app.handling import Noted
from tickwork.core.limits import NAME_LENGTH_MAX, TEXT_LENGTH_MAX, check_queue, text_faults
from tickwork.core.message.backoff import Backoff
from tickwork.core.model import QueueSettings
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


_WORDS = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    NoneType: "None",
}
_BACKOFF = "Fixed(60), Listed((60, 300)) or Exponential(30) of tickwork.core.message.backoff"


def kind_faults(field: str, value: object, wanted: Any) -> list[FieldError]:
    """What is wrong with a value that is not of the wanted type, however much it looks like it."""
    try:
        plain = msgspec.to_builtins(value) if isinstance(value, Struct) else value
        msgspec.convert(plain, wanted, strict=True)
    except (msgspec.ValidationError, TypeError):
        return [FieldError(field, f"must be {_words(wanted)}, not {shortened(value)}")]
    return []


def _words(wanted: Any) -> str:
    if wanted == Backoff:
        return _BACKOFF
    return " or ".join(_WORDS[each] for each in get_args(wanted) or (wanted,))


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
    faults = kind_faults("type", given, str | None)
    if isinstance(given, str):
        faults = text_faults("type", given, TEXT_LENGTH_MAX)
    if faults:
        raise InvalidInput(faults)


_KINDS = {field.name: field.type for field in structs.fields(QueueSettings)}


def queue_settings(name: str, given: dict[str, Any]) -> QueueSettings:
    """The settings of a queue; `InvalidInput` that names what cannot be."""
    known = QueueSettings.__struct_fields__
    faults = [
        FieldError(f"{name}.{field}", f"is no setting of a queue; {_nearest(field, known)}")
        for field in given
        if field not in known
    ]
    for field, value in given.items():
        wanted = _KINDS.get(field)
        faults += kind_faults(field, value, wanted) if wanted else []
    if faults:
        raise InvalidInput(faults)
    settings = QueueSettings(**given)
    check_queue(name, settings)
    return settings


def _nearest(field: str, known: tuple[str, ...]) -> str:
    near = get_close_matches(field, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"use {', '.join(known)}"
