"""Runs one invocation of a handler and turns its result into outcomes.

Whatever a handler raises becomes an outcome here; no error of a handler reaches the worker.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import traceback
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct

from tickwork import spans
from tickwork.app.declarations import HandlerDeclaration
from tickwork.app.handlers import return_fault
from tickwork.app.invocation import NOTHING_MADE, Handling, Made, enter, leave
from tickwork.app.message import (
    ClaimedBatch,
    ClaimedMessage,
    Permanent,
    Snooze,
    checked_seconds,
    single_error,
)
from tickwork.app.payloads import PayloadInvalid
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message import decide
from tickwork.core.message import outcome as outcomes
from tickwork.core.message.outcome import Failed, Outcome, RetryRequested, Snoozed, Succeeded
from tickwork.core.model import Message as Stored

TRACEBACK_FRAMES_MAX = 20
"""Maximum number of frames in a stored traceback."""

TICKWORK_CODE = str(Path(__file__).parents[2])
"""Path prefix of our own frames, which are left out of tracebacks."""

_log = logging.getLogger("tickwork")

CANCELLED_BY_HANDLER = Failed("the handler was cancelled from within")

SETTLED_BEFORE_ERROR: dict[type[Outcome], str] = {
    Succeeded: "message.ack(); the message stays acked and the error is ignored",
    RetryRequested: "message.retry(); the message is retried and the error is stored with it",
}
"""What a handler may have called before it raised, and which of the two takes effect."""

HandlerArgument: TypeAlias = ClaimedMessage[Any] | ClaimedBatch[Any]
"""What a handler is called with."""

Run: TypeAlias = Callable[[Handling, HandlerArgument], Awaitable[Outcome | None]]
"""Runs a handler until it finishes: None if it returned, otherwise the outcome of its error."""


class MessageOutcome(Struct, frozen=True):
    """The outcome of a message, and what was sent with it."""

    message: ClaimedMessage[Any]
    outcome: Outcome
    made: Made


class InvocationResult(Struct, frozen=True):
    """The result of an invocation. `is_failed`: the handler raised or was stopped.

    `made` is what the invocation sends as a whole, stored if the handler returned.
    """

    outcomes: Sequence[MessageOutcome]
    made: Made
    is_failed: bool


def decode_payload(handler: HandlerDeclaration, stored: Stored) -> Any:
    """The payload for a handler. Any error of the app's own types becomes `PayloadInvalid`."""
    try:
        return handler.payload.decode(stored.body, stored.content_type)
    except PayloadInvalid:
        raise
    except Exception as error:
        raise PayloadInvalid(describe(error)) from error


async def invoke(run: Run, given: HandlerArgument) -> InvocationResult:
    """Runs one invocation and collects what it sends."""
    handling = given.handling = Handling(given)
    before = enter(handling)
    try:
        failure = await run(handling, given)
    except Exception as error:  # An error of ours must not cost a permit.
        failure = Failed(describe(error))
    finally:
        made = handling.end()
        leave(before)
    return result_of(given, made, failure)


def result_of(given: HandlerArgument, made: Made, failure: Outcome | None) -> InvocationResult:
    """The result of an invocation that returned, or that ended with `failure`."""
    given.end()
    is_failed = False
    if failure is not None:
        _warn_if_settled_before(given, failure)
        is_failed = not isinstance(failure, Snoozed)
        if isinstance(given, ClaimedBatch) or not isinstance(given.outcome, Succeeded):
            made = NOTHING_MADE  # An acked message keeps what was sent before the error.
    if isinstance(given, ClaimedBatch):
        each_outcome = [
            _message_outcome(message, message.outcome or given.outcome, failure)
            for message in given.claimed
        ]
        return InvocationResult(each_outcome, made, is_failed)
    outcome = _message_outcome(given, given.outcome, failure, made)
    return InvocationResult([outcome], NOTHING_MADE, is_failed)


def _warn_if_settled_before(given: HandlerArgument, failure: Outcome) -> None:
    """Warns if a handler raised after ack() or retry(), which take precedence: otherwise the error
    after an ack would be lost, and a permanent error would be retried without notice."""
    if not isinstance(failure, Failed | outcomes.Permanent):
        return
    messages = given.claimed if isinstance(given, ClaimedBatch) else [given]
    for settled_as, text in SETTLED_BEFORE_ERROR.items():
        settled = [
            message
            for message in messages
            if isinstance(message.outcome or given.outcome, settled_as)
        ]
        if settled:
            _log.warning(
                "a handler raised after %s (message %s%s)\n%s",
                text,
                settled[0].id,
                f", and {len(settled) - 1} more" if len(settled) > 1 else "",
                failure.error,
            )


def result_when_stopped(given: HandlerArgument, outcome: Outcome) -> InvocationResult:
    """The result of an invocation that the worker stopped. Messages that were settled before keep
    their outcome; the others get this one. If the handler continues, its calls raise an error."""
    made = NOTHING_MADE if given.handling is None else given.handling.end()
    return result_of(given, made, outcome)


async def traced(
    handler: HandlerDeclaration,
    given: HandlerArgument,
    invocation: Awaitable[InvocationResult],
) -> InvocationResult:
    """Runs an invocation in a span: below the sender of its message, or linked to those of its
    batch. Also records how long each message waited for its claim."""
    messages = [
        claimed.stored
        for claimed in ([*given.claimed] if isinstance(given, ClaimedBatch) else [given])
    ]
    for message in messages:
        since = max(message.visible_at, message.sent_at)
        spans.wait_span(
            f"wait {handler.queue}", since, message.claimed_at or since, parent=message.traceparent
        )
    senders = [message.traceparent for message in messages if message.traceparent is not None]
    parent = senders[0] if senders and not handler.is_batch else None
    attributes: dict[str, str | int | bool] = {
        "code.function.name": handler.name,
        "messaging.batch.message_count": len(messages),
        "messaging.message.id": public_id(Prefix.MESSAGE, messages[0].id),
        "tickwork.tenant": messages[0].tenant,
        "tickwork.attempt": messages[0].attempts + 1,
    }
    with spans.span(
        f"process {handler.queue}",
        "consumer",
        attributes,
        parent=parent,
        links=senders if parent is None else (),
    ) as span:
        result = await invocation
        if span is not None and result.is_failed:
            span.set_attribute("error.type", type(result.outcomes[0].outcome).__name__)
    return result


async def invoke_guarded(
    invocation: Awaitable[InvocationResult], given: HandlerArgument
) -> InvocationResult:
    """Runs an invocation in another process; an error of ours must not cost a permit."""
    try:
        return await invocation
    except Exception as error:
        return result_when_stopped(given, Failed(describe(error)))


def report_safely(
    on_finished: Callable[[InvocationResult, float], None], result: InvocationResult, started: float
) -> None:
    """Passes on the result of an invocation. If that raises, passes on a failure instead, so that
    the messages are settled in any case."""
    try:
        on_finished(result, started)
    except Exception as error:
        failed = Failed(describe(error))
        failures = [
            MessageOutcome(outcome.message, failed, NOTHING_MADE) for outcome in result.outcomes
        ]
        on_finished(InvocationResult(failures, NOTHING_MADE, is_failed=True), started)


async def run_coroutine(
    function: Callable[[Any], Awaitable[Any]], handling: Handling, given: Any
) -> Outcome | None:
    """Awaits a coroutine function and its background tasks."""
    handling.loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    try:
        try:
            returned = await function(given)
            if handling.has_background:
                await handling.finish()
            if returned is not None:
                return _failure(return_fault(returned))
        finally:
            # A coroutine that is being closed cannot await.
            if handling.has_background and not isinstance(sys.exception(), GeneratorExit):
                await handling.abandon()
    except asyncio.CancelledError:
        if task.cancelling():
            raise  # The worker stops this task.
        return CANCELLED_BY_HANDLER
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # Including sys.exit(), which would end the worker.
        if is_task_closing(task, error):
            raise
        return outcome_of_error(error)
    return None


def is_task_closing(task: asyncio.Task[Any], error: BaseException) -> bool:
    """Whether the task itself is being closed, and not its handler that raised GeneratorExit."""
    return isinstance(error, GeneratorExit) and asyncio.current_task(task.get_loop()) is not task


def run_safely(call: Callable[[], Outcome | None]) -> Outcome | None:
    """Runs a call that returns an outcome. If it raises, the error becomes the outcome, so that the
    calling thread survives."""
    try:
        return call()
    except BaseException as error:
        return Failed(describe(error))


def run_function(function: Callable[[Any], Any], given: Any) -> Outcome | None:
    """Calls a plain function handler."""
    try:
        return _failure(return_fault(function(given)))
    except BaseException as error:
        return outcome_of_error(error)


def _failure(fault: str | None) -> Failed | None:
    return None if fault is None else Failed(fault)


def outcome_of_error(error: BaseException) -> Outcome:
    """The outcome of an error that a handler raised. Never raises, even if the app's error class
    fails to describe itself."""
    match single_error(error):
        case Snooze() as snooze:
            return _snoozed(snooze)
        case Permanent() as permanent:
            return outcomes.Permanent(_text(permanent))
        case asyncio.CancelledError():
            return CANCELLED_BY_HANDLER
        case _:
            return Failed(describe(error))


def _snoozed(error: Snooze) -> Outcome:
    try:
        return Snoozed(checked_seconds(error.seconds))
    except ValueError as out_of_range:
        out_of_range.__cause__ = error
        return Failed(describe(out_of_range))
    except Exception:
        fault = "a Snooze without seconds; a subclass must call super().__init__(seconds)"
        without_seconds = TypeError(fault)
        without_seconds.__cause__ = error
        return Failed(describe(without_seconds))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return describe(error)


def describe(error: BaseException) -> str:
    """The text of an error for a dead letter: its type, message and traceback. Never raises."""
    try:
        return _describe(error)
    except Exception as another:
        kind, cause = type(error).__qualname__, type(another).__qualname__
        return f"{kind}: an error that cannot be described ({cause})"


def _describe(error: BaseException) -> str:
    """Leaves out our own frames before the app's code: they say nothing about the error."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(TICKWORK_CODE):
        frame = frame.tb_next
    shown = frame or error.__traceback__
    return "".join(
        traceback.format_exception(type(error), error, shown, limit=-TRACEBACK_FRAMES_MAX)
    ).rstrip()  # Leading blanks belong to the drawing of an exception group.


def _message_outcome(
    message: ClaimedMessage[Any],
    settled: Outcome | None,
    failure: Outcome | None,
    made: Made = NOTHING_MADE,
) -> MessageOutcome:
    """The outcome of a message; `made` is what its handler sent besides."""
    outcome = decide.effective_outcome(settled, failure)
    if message.sends and isinstance(outcome, Succeeded):
        made = made._replace(sends=(*message.sends, *made.sends))
    return MessageOutcome(message, outcome, made)
