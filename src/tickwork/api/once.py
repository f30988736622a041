"""`Idempotency-Key`: a POST that is repeated with the same key creates nothing more.

The first answer is kept for 24 hours and given again. Another body under the same key is a
conflict, and so is a repeat while the first request is still running. A request that failed keeps
nothing: its repeat is a new attempt, with the same ids, so that what it did store is recognised.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Annotated, Any, TypeVar
from uuid import UUID

import msgspec
from litestar import Request, Response
from litestar.params import HeaderParameter

from tickwork.core.access import Caller
from tickwork.core.answers.ids import ENCODER
from tickwork.errors import FieldError, InvalidInput
from tickwork.ops import requests
from tickwork.ops.context import Context

T = TypeVar("T")
Answer = TypeVar("Answer")

_REPLAYED = {"Idempotency-Replayed": "true"}

IdempotencyKey = Annotated[
    str | None,
    HeaderParameter(
        name="Idempotency-Key",
        description="Names this request: repeats within 24 hours return the first answer.",
    ),
]


async def once(
    make: Callable[[UUID], Awaitable[T]],
    *,
    context: Context,
    caller: Caller,
    request: Request[Any, Any, Any],
    key: str | None,
    kept: Callable[[T], T] = lambda answer: answer,
) -> Response[T]:
    """The answer of `make`, or the one it gave before under the same key. `make` gets an id, from
    which it takes the ids of what it creates. `kept` is the answer without its secrets."""
    if key is None:
        return Response(await make(requests.new_seed()), status_code=201)
    name = _checked(key, caller)
    print_ = _fingerprint(request, await request.body())
    begun = await requests.begin(context, name, print_)
    if begun.answer is not None:
        return _again(begun.answer)
    answer: T | None = None
    try:
        answer = await make(begun.seed)
    finally:
        if answer is None:
            await requests.forget(context, name, begun.seed)
    body = ENCODER.encode(kept(answer))
    await requests.finish(context, name, begun.seed, body)
    return Response(answer, status_code=201)


async def change_once(
    change: Callable[[requests.DoneMark], Awaitable[T]],
    show: Callable[[T | None], Awaitable[Answer]],
    *,
    context: Context,
    caller: Caller,
    request: Request[Any, Any, Any],
    key: str | None,
) -> Response[Answer]:
    """As `once` for a change that has no id of its own to be recognised by: the request is marked
    as done in the transaction of the change. `show` makes the answer from the result, or from None
    if a process died after the change and nobody knows the result."""
    if key is None:
        return Response(await show(await change(requests.DoneMark())), status_code=201)
    name = _checked(key, caller)
    print_ = _fingerprint(request, await request.body())
    begun = await requests.begin(context, name, print_)
    if begun.answer == requests.PENDING_ANSWER:
        return Response(await show(None), status_code=201, headers=_REPLAYED)
    if begun.answer is not None:
        return _again(begun.answer)
    is_done = False
    try:
        async with requests.done_with_change(context, name, begun.seed) as mark:
            result = await change(mark)
        is_done = True
    finally:
        if not is_done:
            await requests.forget(context, name, begun.seed)
    answer = await show(result)
    await requests.finish(context, name, begun.seed, ENCODER.encode(answer))
    return Response(answer, status_code=201)


def _again(body: bytes) -> Response[Any]:
    return Response(
        msgspec.Raw(body), status_code=201, media_type="application/json", headers=_REPLAYED
    )


def _checked(key: str, caller: Caller) -> str:
    """The key as it is stored; each owner has keys of its own."""
    if not 1 <= len(key) <= requests.KEY_LENGTH_MAX or not key.isprintable():
        fault = f"must have 1 to {requests.KEY_LENGTH_MAX} printable characters"
        raise InvalidInput([FieldError("Idempotency-Key", fault)])
    return key if caller.owner is None else f"{caller.owner}\n{key}"


def _fingerprint(request: Request[Any, Any, Any], body: bytes) -> bytes:
    asked = f"{request.method} {request.url.path}\n".encode()
    return blake2b(asked + body, digest_size=16).digest()
