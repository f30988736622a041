"""One invocation of a handler, and what it said.

Whatever a handler raises ends here and becomes an outcome; nothing of it reaches the worker.
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

from tickwork.app.declarations import HandlerDeclaration
from tickwork.app.handlers import return_fault
from tickwork.app.handling import NOTHING_MADE, Handling, Made, enter, leave
from tickwork.app.message import (
    ClaimedBatch,
    ClaimedMessage,
    Permanent,
    Snooze,
    checked_seconds,
    single_error,
)
from tickwork.app.payloads import PayloadInvalid
from tickwork.core.message import outcome as outcomes
from tickwork.core.message.outcome import Failed, Outcome, RetryRequested, Snoozed, Succeeded
from tickwork.core.model import Message as Stored

TRACEBACK_FRAMES_MAX = 20
TICKWORK_CODE = str(Path(__file__).parents[2])

_log = logging.getLogger("tickwork")

CANCELLED_BY_HANDLER = Failed("the handler was cancelled from within")

SETTLED_BEFORE_ERROR: dict[type[Outcome], str] = {
    Succeeded: "acked; the ack counts, and the error for nothing",
    RetryRequested: "asked for a retry; the retry counts, and the error is told with it",
}
"""Words of a handler that it may say before it raises, and what counts then."""

HandlerArgument: TypeAlias = ClaimedMessage[Any] | ClaimedBatch[Any]
"""What a handler is given."""

Run: TypeAlias = Callable[[Handling, HandlerArgument], Awaitable[Outcome | None]]
"""Runs a handler to its end: None if it returned, else what its error means."""


class MessageOutcome(Struct, frozen=True):
    """What came of a message: the outcome, and what was sent and made with it."""

    message: ClaimedMessage[Any]
    outcome: Outcome
    made: Made


class InvocationResult(Struct, frozen=True):
    """What came of an invocation; `is_failed` if the handler raised or was stopped.

    `made` is what belongs to the invocation as a whole, which happens if it returned.
    """

    said: Sequence[MessageOutcome]
    made: Made
    is_failed: bool


def decode_payload(handler: HandlerDeclaration, stored: Stored) -> Any:
    """The payload for a handler; `PayloadInvalid` whatever the app's own types raise."""
    try:
        return handler.payload.decode(stored.body, stored.content_type)
    except PayloadInvalid:
        raise
    except Exception as error:
        raise PayloadInvalid(describe(error)) from error


async def invoke(run: Run, given: HandlerArgument) -> InvocationResult:
    """One invocation; what it sends meanwhile is its own."""
    handling = given.handling = Handling(given)
    before = enter(handling)
    try:
        failure = await run(handling, given)
    except Exception as error:  # A fault of ours: it costs no slot.
        failure = Failed(describe(error))
    finally:
        made = handling.end()
        leave(before)
    return result_of(given, made, failure)


def result_of(given: HandlerArgument, made: Made, failure: Outcome | None) -> InvocationResult:
    """What comes of an invocation that returned, or (`failure`) did not."""
    given.end()
    is_failed = False
    if failure is not None:
        _warn_if_settled_before(given, failure)
        is_failed = not isinstance(failure, Snoozed)
        if isinstance(given, ClaimedBatch) or not isinstance(given.outcome, Succeeded):
            made = NOTHING_MADE  # Else it is acked, with all that was done until then.
    if isinstance(given, ClaimedBatch):
        said = [
            _message_outcome(each, each.outcome or given.outcome, failure) for each in given.claimed
        ]
        return InvocationResult(said, made, is_failed)
    said = [_message_outcome(given, given.outcome, failure, made)]
    return InvocationResult(said, NOTHING_MADE, is_failed)


def _warn_if_settled_before(given: HandlerArgument, failure: Outcome) -> None:
    """A handler that raises after its word contradicts it: the word counts. After an ack nobody
    would hear of the error, and after a retry not that it would have ended otherwise."""
    if not isinstance(failure, Failed | outcomes.Permanent):
        return
    messages = given.claimed if isinstance(given, ClaimedBatch) else [given]
    for word, contradicted in SETTLED_BEFORE_ERROR.items():
        spoken = [each for each in messages if isinstance(each.outcome or given.outcome, word)]
        if spoken:
            _log.warning(
                "a handler failed after it had %s (message %s%s)\n%s",
                contradicted,
                spoken[0].id,
                f", and {len(spoken) - 1} more" if len(spoken) > 1 else "",
                failure.error,
            )


def result_when_stopped(given: HandlerArgument, outcome: Outcome) -> InvocationResult:
    """What comes of an invocation that was stopped from outside: what it had said counts, and
    the rest ends so. What it does from here on, if it goes on, it is told is too late."""
    made = NOTHING_MADE if given.handling is None else given.handling.end()
    return result_of(given, made, outcome)


async def invoke_guarded(
    invocation: Awaitable[InvocationResult], given: HandlerArgument
) -> InvocationResult:
    """An invocation that goes through more than its handler: no fault of ours costs a slot."""
    try:
        return await invocation
    except Exception as error:
        return result_when_stopped(given, Failed(describe(error)))


def report_safely(
    end: Callable[[InvocationResult, float], None], invoked: InvocationResult, started: float
) -> None:
    """Hands on what came of an invocation; if that cannot be, that it failed, so that its messages
    are settled at all."""
    try:
        end(invoked, started)
    except Exception as error:
        failed = Failed(describe(error))
        said = [MessageOutcome(each.message, failed, NOTHING_MADE) for each in invoked.said]
        end(InvocationResult(said, NOTHING_MADE, is_failed=True), started)


async def run_coroutine(
    function: Callable[[Any], Awaitable[Any]], handling: Handling, given: Any
) -> Outcome | None:
    """Awaits a coroutine function and what it began in the background."""
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
            # Who is closed can wait for nothing any more.
            if handling.has_background and not isinstance(sys.exception(), GeneratorExit):
                await handling.abandon()
    except asyncio.CancelledError:
        if task.cancelling():
            raise  # We are stopped from outside; whoever does it knows why.
        return CANCELLED_BY_HANDLER
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # Also sys.exit(): it would end the worker.
        if is_task_closing(task, error):
            raise
        return outcome_of_error(error)
    return None


def is_task_closing(task: asyncio.Task[Any], error: BaseException) -> bool:
    """Whether this is the end of a task that is thrown away, and not raised by what it runs."""
    return isinstance(error, GeneratorExit) and asyncio.current_task(task.get_loop()) is not task


def run_safely(call: Callable[[], Outcome | None]) -> Outcome | None:
    """Calls what turns a handler's error into an outcome: should that fail, it is an outcome too,
    since whoever calls this must go on."""
    try:
        return call()
    except BaseException as error:
        return Failed(describe(error))


def run_function(function: Callable[[Any], Any], given: Any) -> Outcome | None:
    """Calls a plain function."""
    try:
        return _failure(return_fault(function(given)))
    except BaseException as error:
        return outcome_of_error(error)


def _failure(fault: str | None) -> Failed | None:
    return None if fault is None else Failed(fault)


def outcome_of_error(error: BaseException) -> Outcome:
    """What it means that a handler raised this. Errors are an app's own classes, and may not even
    be able to say what they are; this never raises."""
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
        fault = "a Snooze that does not say its seconds; a subclass calls super().__init__(seconds)"
        told = TypeError(fault)
        told.__cause__ = error
        return Failed(describe(told))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return describe(error)


def describe(error: BaseException) -> str:
    """An error for whoever looks at a dead letter: what it was, and where. It never raises."""
    try:
        return _describe(error)
    except Exception as another:
        kind, hindered = type(error).__qualname__, type(another).__qualname__
        return f"{kind}: an error that cannot be described ({hindered})"


def _describe(error: BaseException) -> str:
    """It begins with the app's own code: how that was called says nothing about the error."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename.startswith(TICKWORK_CODE):
        frame = frame.tb_next
    shown = frame or error.__traceback__
    return "".join(
        traceback.format_exception(type(error), error, shown, limit=-TRACEBACK_FRAMES_MAX)
    ).rstrip()  # The blanks before a group are part of how it is drawn.


def _message_outcome(
    message: ClaimedMessage[Any],
    said: Outcome | None,
    failure: Outcome | None,
    made: Made = NOTHING_MADE,
) -> MessageOutcome:
    """What came of a message; `made` is what its handler made beside it."""
    outcome = outcomes.effective_outcome(said, failure)
    if message.sends and isinstance(outcome, Succeeded):
        made = made._replace(sends=(*message.sends, *made.sends))
    return MessageOutcome(message, outcome, made)
