"""The work of one step: calls its function and collects what it sends and writes."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from hashlib import blake2b
from typing import Any, NoReturn, TypeVar
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.app.invocation import Handling, Made, Rows, Written, enter, leave
from tickwork.app.message import ClaimedMessage, Permanent
from tickwork.app.payloads import Payload, PayloadInvalid
from tickwork.app.workflows import result_payload
from tickwork.core.message.body import check_finite
from tickwork.core.model import BatchWithItems, ContentType, Send
from tickwork.core.stable_hash import derived_id
from tickwork.core.workflow.model import OUTPUT_BYTES_MAX
from tickwork.core.workflow.retries import Retries
from tickwork.errors import FieldError, InvalidInput
from tickwork.service.worker.permits import go_on

T = TypeVar("T")

ARGS_DEPTH_MAX = 50
"""Number of levels of lists and dicts down to which arguments without text keys are compared."""

DIGEST_BYTES = 8
"""Number of bytes of the digest of a step's arguments."""

STEP_TIMEOUT_SECONDS = 600.0
"""Seconds that one attempt at a step may take, unless the step says otherwise."""


class Identity(Struct, frozen=True):
    """A step of a run since its last restart. It gives the ids of the step's effects: the same in
    each attempt. Most steps have no effects, so the id is made when it is needed."""

    run: UUID
    generation: int
    key: str

    @property
    def id(self) -> UUID:
        return derived_id(self.run, f"{self.generation} {self.key}")


class Work(Struct, frozen=True):
    """What a step does, and how it is retried."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    retries: Retries
    timeout_seconds: float
    compensate: Callable[..., Any] | None = None
    has_rows: bool = False


def name_call(function: Callable[..., Any], arguments: bytes) -> str:
    """What a step calls, as its record names it: the function, and a digest of its arguments. A
    function may move to another module, or out of a function."""
    while isinstance(function, functools.partial):
        arguments += encode_args((*function.args, function.keywords))
        function = function.func
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    if "." in name:  # Most functions of steps are not nested.
        name = name.rpartition("<locals>.")[2]
    return f"{name} {blake2b(arguments, digest_size=DIGEST_BYTES).hexdigest()}"


def encode_args(args: object) -> bytes:
    """The arguments of a step as JSON, the same in every process. What is not JSON is only
    known by its type."""
    try:
        return _ARGS.encode(args)
    except (TypeError, ValueError, RecursionError):
        return _ARGS.encode(_with_text_keys(args, ARGS_DEPTH_MAX))


def check_args(name: object, args: tuple[Any, ...], encoded: bytes) -> None:
    """Raises `InvalidInput` for a NaN or an infinity in the arguments of a step: in the record they
    would be null."""
    with suppress(TypeError, ValueError, RecursionError):  # They are told apart by their type.
        check_finite(args, encoded, f"step {name!r}", root="args", plain=_as_json)


def _with_text_keys(value: object, depth: int) -> object:
    """A value whose dicts have texts as keys: an order of others is not defined."""
    if depth == 0:
        return type(value).__qualname__
    if isinstance(value, dict):
        return {str(key): _with_text_keys(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_text_keys(item, depth - 1) for item in value]
    try:
        return msgspec.Raw(_ARGS.encode(value))
    except (TypeError, ValueError, RecursionError):
        return type(value).__qualname__


def _as_json(value: object) -> object:
    if isinstance(value, str):  # An id.
        return str(value)
    dump = getattr(value, "model_dump", None)  # A model of Pydantic.
    return dump(mode="json") if callable(dump) else type(value).__qualname__


_ARGS = msgspec.json.Encoder(order="deterministic", enc_hook=_as_json)


class Unrecordable(Permanent):
    """The result of a step is no JSON, or too large. Another attempt would not help."""


class Done(Struct, frozen=True):
    """The result of one attempt: its output as JSON and as the body sees it, and its effects."""

    output: bytes
    value: Any
    made: Made
    rows: Written | None


class StepHandling(Handling):
    """Collects what a step sends. Its ids differ from those of the run's other steps."""

    __slots__ = ("_identity",)

    def __init__(self, given: object, identity: Identity) -> None:
        super().__init__(given)
        self._identity = identity

    def detached_id(self, number: int) -> UUID:
        return derived_id(self._identity.id, f"batch {number}")

    def next_call_key(self) -> str:
        self._check_open()
        self._calls_named += 1
        return f"{self._identity.id}:{self._calls_named}"


class BodyHandling(Handling):
    """Refuses what would happen again whenever the body runs again."""

    __slots__ = ()

    def send(self, send: Send) -> NoReturn:
        what = "publishes an event" if send.queue is None else f"sends to {send.queue}"
        self._refuse(what)

    def batch(self, batch: BatchWithItems) -> NoReturn:
        self._refuse(f"makes a batch in {batch.queue}")

    def number_batch(self) -> NoReturn:
        self._refuse("makes a batch")

    def next_call_key(self) -> NoReturn:
        self._refuse("calls an entity")

    def check_effect(self, what: str) -> NoReturn:
        self._refuse(what)

    def _refuse(self, what: str) -> NoReturn:
        fault = f"{what} outside a step, and would do so again on every replay; use step.do(…)"
        raise InvalidInput([FieldError("the body of the workflow", fault)])


async def carry_out(work: Work, identity: Identity, message: ClaimedMessage[Any]) -> Done:
    """Makes one attempt. Raises what the function raises, or `TimeoutError`."""
    handling, written = StepHandling(message, identity), None
    args = work.args
    if work.has_rows:
        written = Written()
        args = (Rows(written), *args)
    before, function = enter(handling), work.function
    handling.loop = loop = asyncio.get_running_loop()
    until = loop.time() + work.timeout_seconds
    try:
        if _makes_coroutine(function):
            running = function(*args)
            try:
                wanted = running.send(None)
            except StopIteration as end:
                returned = end.value  # It did not wait, so it needs no timer.
            else:
                returned = await _within(work, until, go_on(running, wanted))
        else:
            returned = await _within(work, until, _call(function, args))
        if handling.has_background:
            await _within(work, until, handling.finish())
    finally:
        made = handling.end()
        leave(before)
        if written is not None:
            written.end()
    payload = result_payload(work.function)
    try:
        output = encode_value(payload, returned, "result")
        if len(output) > OUTPUT_BYTES_MAX:
            check_size(f"step {identity.key!r}", output)
        value = payload.decode(output, ContentType.JSON)
    except (InvalidInput, PayloadInvalid) as error:
        text = f"the result of step {identity.key!r} cannot be recorded: {error}"
        raise Unrecordable(text) from error
    rows = None if written is None or written.is_empty else written
    return Done(output, value, made, rows)


async def _within(work: Work, until: float, awaited: Awaitable[T]) -> T:
    """Awaits something until the time of a step is over."""
    limit = asyncio.timeout_at(until)
    try:
        async with limit:
            return await awaited
    except TimeoutError as error:
        if not limit.expired():
            raise  # It is the function's own.
        text = f"the step took longer than {work.timeout_seconds:g} seconds"
        raise TimeoutError(text) from error


def _makes_coroutine(function: Callable[..., Any]) -> bool:
    """Whether it is an `async def` itself, and no wrapper that may return any awaitable."""
    code = getattr(function, "__code__", None)
    return code is not None and bool(code.co_flags & inspect.CO_COROUTINE)


async def _call(function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Calls a plain function in a thread, and a wrapper of a coroutine function here."""
    if inspect.iscoroutinefunction(inspect.unwrap(function)):
        return await function(*args)
    returned = await asyncio.to_thread(function, *args)
    return await returned if inspect.isawaitable(returned) else returned


def encode_value(payload: Payload[T], value: T, field: str, root: str | None = None) -> bytes:
    """A value as JSON; `InvalidInput` of the field, with the path of a NaN from `root` on."""
    try:
        return payload.encode(value)
    except InvalidInput as error:
        refused = error
    with suppress(TypeError):  # What is no JSON at all was refused for that.
        check_finite(value, b"null", field, root=root)
    faults = [FieldError(field, fault.message) for fault in refused.errors]
    raise InvalidInput(faults) from refused.__cause__


def check_size(field: str, value: bytes) -> None:
    """Raises `InvalidInput` for JSON that is too large to store."""
    if len(value) > OUTPUT_BYTES_MAX:
        fault = f"has {len(value)} bytes; at most {OUTPUT_BYTES_MAX}; keep a reference instead"
        raise InvalidInput([FieldError(field, fault)])
