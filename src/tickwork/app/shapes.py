"""What can be a handler, and what a handler may return.

A handler is done when it returns. So one whose call only makes something that others would have to
run (a coroutine, a generator) would be acked, and nothing of it would have happened.
"""

from __future__ import annotations

import inspect
from asyncio import Future
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from functools import partial
from typing import Any

from tickwork.app.handling import Noted


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
