"""The steps that call a function: each attempt, its record, and what follows from a failure."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Coroutine
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tickwork.app.message import ClaimedMessage, Permanent, single_error
from tickwork.app.workflows import result_payload
from tickwork.core.message.decide import clean_error
from tickwork.core.model import ContentType
from tickwork.core.workflow.model import RunEvent, RunStep, StepError, StepKind, StepState
from tickwork.errors import ClaimLost, StoreError, StoreUnavailable
from tickwork.service.worker.invoke import describe
from tickwork.workflow.call import StepCall, Unfit, resolve_call, step_failed
from tickwork.workflow.work import Done, Identity, Work

if TYPE_CHECKING:
    from tickwork.workflow.steps import Steps

ERROR_LENGTH_MAX = 2_000
"""Maximum number of characters of the message of a recorded error."""

CarryOut = Callable[[Work, Identity, ClaimedMessage[Any]], Coroutine[Any, Any, Done]]
"""Makes one attempt at the work of a step."""


class Crashed(BaseException):
    """Raised at a boundary by a test: everything in memory is lost, as if the process had died."""


class Dos:
    """The steps of one execution of a body that call a function."""

    def __init__(
        self, steps: weakref.ref[Steps], message: ClaimedMessage[Any], carry_out: CarryOut
    ) -> None:
        self._own = steps
        self._message = message
        self._carry_out = carry_out

    @property
    def _steps(self) -> Steps:
        steps = self._own()
        assert steps is not None
        return steps

    def begin(
        self, call: StepCall[Any], work: Work, called: str | None, args: bytes | None
    ) -> None:
        """Starts a step. One with a compensation is recorded before it starts, so that it is undone
        even if it never ends."""
        steps = self._steps
        step = steps.record.new(call.key, StepKind.DO, StepState.STARTED, called, args)
        if work.compensate is None:
            steps.start(self._attempt(call, work, step))
        else:
            steps.start(self._attempt(call, work, step, is_recorded=False))

    def go_on(
        self, call: StepCall[Any], work: Work, known: RunStep, *, is_recorded: bool = True
    ) -> None:
        """Goes on with a step that has not ended, as far as its record is."""
        if known.state is StepState.RETRYING and is_recorded:
            self._wait_for_retry(call, work, known)
        else:
            self._steps.start(self._attempt(call, work, known, is_recorded=is_recorded))

    async def _attempt(
        self, call: StepCall[Any], work: Work, step: RunStep, *, is_recorded: bool = True
    ) -> None:
        """Makes one attempt at a step, and records what follows."""
        steps = self._steps
        if not is_recorded:
            await steps.write(step)
            if steps.is_stopping:
                return
        if not self._message.is_ours:
            # Another worker may have the run, and may have recorded this step.
            raise StoreUnavailable("the lease of this node is not renewed; no step starts")
        try:
            steps.at_boundary("start", call.key)
            run = steps.record.run
            identity = Identity(run.uid, run.generation, call.key)
            if run.deadline_at is not None and not steps.is_compensating:
                work = _limited(work, steps.record.seconds_left(run.deadline_at))
            done = await self._carry_out(work, identity, self._message)
            steps.at_boundary("done", call.key)
            ended = structs.replace(
                step,
                state=StepState.DONE,
                attempts=step.attempts + 1,
                output=done.output,
                finished_at=steps.record.now(),
                wake_at=None,
                ended=steps.record.take_number(),
            )
            number = await steps.record.write(ended, made=done.made, rows=done.rows)
            steps.at_boundary("recorded", call.key)
        except (StoreError, ClaimLost, Crashed):
            raise
        except BaseException as error:
            if steps.is_dropped or isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            await self._record_failure(call, work, step, error)
            return
        steps.look_at_control()
        steps.arrive(number, call, done.value)

    async def _record_failure(
        self, call: StepCall[Any], work: Work, step: RunStep, error: BaseException
    ) -> None:
        self._steps.deliver_arrived()  # The number of a result that could not be recorded is free.
        cause = single_error(error)
        attempts = step.attempts + 1
        now = self._steps.record.now()
        text = clean_error(str(cause))[:ERROR_LENGTH_MAX]
        data = StepError(type(cause).__name__, text, clean_error(describe(error)))
        delay = None if isinstance(cause, Permanent) else work.retries.after(attempts)
        failed = structs.replace(
            step,
            state=StepState.FAILED if delay is None else StepState.RETRYING,
            attempts=attempts,
            error=msgspec.json.encode(data),
            wake_at=None if delay is None else now + timedelta(seconds=delay),
            finished_at=now if delay is None else None,
        )
        number = await self._steps.write(failed)
        if delay is None:
            self._steps.arrive(number, call, error=step_failed(failed))
        else:
            self._wait_for_retry(call, work, failed)

    def _wait_for_retry(self, call: StepCall[Any], work: Work, known: RunStep) -> None:
        def go_on(_: RunEvent | None) -> None:
            self._steps.start(self._attempt(call, work, known))

        self._steps.wait(call, go_on, until=known.wake_at)


def _limited(work: Work, seconds: float) -> Work:
    """The work of a step, within the deadline of its run."""
    return structs.replace(work, timeout_seconds=min(work.timeout_seconds, seconds))


def resolve_recorded(call: StepCall[Any], function: Callable[..., Any], step: RunStep) -> None:
    """Gives the body a recorded result, as the type that the function declares. Raises `Unfit`."""
    if step.state is StepState.FAILED:
        resolve_call(call, error=step_failed(step))
        return
    try:
        value = result_payload(function).decode(step.output or b"null", ContentType.JSON)
    except Exception as error:  # A type of the app may raise anything.
        raise Unfit(call.key, error) from None
    resolve_call(call, value)
