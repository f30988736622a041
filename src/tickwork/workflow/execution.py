"""One execution of a run's body: from the claim of its message until it ends or waits.

When no step runs and the body awaits only steps that wait, it is dropped: its tasks are cancelled,
and what it calls from then on has no effect. A body that does not ask for what is recorded has
diverged: it is dropped before anything happens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from tickwork.app.invocation import enter, leave
from tickwork.app.message import ClaimedMessage, single_error
from tickwork.app.workflows import WorkflowDeclaration, result_payload
from tickwork.core.effects import Effect
from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.message.decide import clean_error
from tickwork.core.message.outcome import Committed, Outcome, Permanent, Snoozed
from tickwork.core.model import ContentType
from tickwork.core.when import iso
from tickwork.core.workflow.control import suspended
from tickwork.core.workflow.model import (
    Control,
    Run,
    RunEnd,
    RunHistory,
    RunStatus,
    RunStep,
    StepState,
    join_keys,
)
from tickwork.core.workflow.step_key import compensation_name
from tickwork.errors import ClaimLost, InvalidInput, StepFailed, StoreError, StoreUnavailable
from tickwork.service.worker.invoke import describe
from tickwork.store.contract import Store
from tickwork.workflow.body_calls import BodyCalls
from tickwork.workflow.body_loop import NO_STEP, OTHER_LOOP
from tickwork.workflow.do_steps import CarryOut
from tickwork.workflow.map_steps import OnMap
from tickwork.workflow.record import RunRecord
from tickwork.workflow.step import ContinueAs, Step
from tickwork.workflow.steps import AtBoundary
from tickwork.workflow.work import (
    STEP_TIMEOUT_SECONDS,
    BodyHandling,
    Work,
    carry_out,
    check_size,
    encode_args,
    encode_value,
)

AGAIN_SECONDS = 5.0
"""Seconds until a run is tried again whose record could not be read or written."""

DROP_SECONDS_MAX = 5.0
"""Seconds that a dropped body may take to clean up."""

CHECK_SECONDS = 2.0
"""Maximum number of seconds between two looks at what happened to a run while a step runs."""

DIVERGED_SECONDS_MIN = 1.0
DIVERGED_SECONDS_MAX = 60.0
"""Seconds between two tries to find a node whose code agrees with the record of a run: half of the
time for which it has diverged, within these bounds."""

UNDONE = "its steps were undone, so its changed code did not go on; restart it"
"""Why a run failed whose body failed before, and would not any more."""

PARAMS, RESULT = "the params of the run", "the result of the run"

ERROR_SHOWN_MAX = 500
"""Maximum number of characters of an error that a divergence shows."""

_log = logging.getLogger("tickwork")


class Execution:
    """Runs the body of one run. `monotonic` is the worker's clock."""

    def __init__(
        self,
        store: Store,
        message: ClaimedMessage[Any],
        history: RunHistory,
        declared: WorkflowDeclaration,
        *,
        monotonic: Callable[[], float],
        carry_out: CarryOut = carry_out,
        at_boundary: AtBoundary | None = None,
        on_map: OnMap | None = None,
    ) -> None:
        self._message, self._declared = message, declared
        self._record = RunRecord(store, message.stored, history, monotonic)
        self._calls = BodyCalls(self._record, message, carry_out, at_boundary, on_map)
        self._steps = self._calls.steps
        self._failed_compensations: list[str] = []

    async def execute(self) -> Outcome:
        """Runs the body as far as it goes; the outcome of the run's message. Raises `Diverged`."""
        run = self._record.run
        if not self._record.has_message:
            return self._ended(run.status, run.error)
        if run.paused:
            return self._suspended()
        self._steps.is_stopping = run.control is not None or self._record.is_past_deadline()
        try:
            await self._record.load_maps()
            try:
                params = read_params(self._declared, run)
            except Diverged as misfit:
                return await self._refuse(misfit)
            return await self._conclude(await self._drive(self._body(params)))
        except ClaimLost:
            return Snoozed(0.0)  # The store refuses it: another worker has the message.
        except StoreError:
            return Snoozed(AGAIN_SECONDS)
        finally:
            await self._drop()

    async def _refuse(self, misfit: Diverged) -> Outcome:
        """What follows if this code cannot read the params of the run."""
        run = self._record.run
        has_record, is_cancelled = bool(self._record.steps), run.control is Control.CANCEL
        if not run.is_accepted and not is_cancelled and (has_record or run.control is None):
            raise misfit
        if run.control is not None:
            return await self._stop(run.control)
        return await self._undo_and_end(RunStatus.FAILED, str(misfit))

    async def _body(self, params: tuple[Any, ...]) -> bytes:
        """Calls the function of the workflow; its result as JSON."""
        declared = self._declared
        try:
            returned = await declared.function(Step(self._calls), *params)
        finally:
            if not self._steps.is_dropped:
                await self._await_forgotten()
        output = encode_value(declared.result, returned, RESULT, "result")
        check_size(RESULT, output)
        return output

    async def _await_forgotten(self) -> None:
        """A step that nobody awaited ends before its run does."""
        if forgotten := self._calls.forgotten():
            keys = ", ".join(step.key for step in forgotten)
            _log.warning("run %s: nobody awaits the steps %s", self._record.run.id, keys)
            await asyncio.gather(*forgotten, return_exceptions=True)

    async def _drive(self, body: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Runs a body until it ends, or until it only waits. Raises `ClaimLost` if another worker
        has the run, and `StoreError` if it cannot be recorded."""
        steps, before = self._steps, enter(BodyHandling(self._message))
        try:
            task = steps.loop.start(body)
        finally:
            leave(before)
        while not steps.is_lost and not steps.is_broken:
            steps.changed.clear()
            if self._record.run.diverged_at is not None and not self._calls.is_recalling:
                await self._record.converge()
            if steps.running or steps.loop.is_busy:
                await self._wait_for_change()
            elif task.done() or self._calls.is_recalling:  # It has diverged if it still recalls.
                break
            elif steps.wake_due():
                continue
            elif steps.is_stopping or steps.is_awaited:
                break
            else:
                await self._wait_for_change()  # The body awaits something that is no step.
        while steps.running and not steps.is_lost:  # What runs is recorded in any case.
            steps.changed.clear()
            await self._wait_for_change()
        if steps.is_lost:
            raise ClaimLost([self._message.stored.id])
        if steps.is_broken:
            raise StoreError("a step could not be recorded")
        return task

    async def _wait_for_change(self) -> None:
        """Waits until the body or its last running step ends, or a step that waits can go on."""
        steps, seconds = self._steps, CHECK_SECONDS
        wake_at = None if steps.is_stopping else steps.next_wake()
        if wake_at is not None:
            left = (wake_at - self._record.now()).total_seconds()
            seconds = min(max(left, 0.01), seconds)
        if not await steps.wait_for_change(seconds):
            with suppress(StoreUnavailable):  # The steps that run go on; the next look may see.
                await steps.refresh()
        steps.wake_due()

    async def _conclude(self, task: asyncio.Task[Any]) -> Outcome:
        divergence = self._calls.divergence()
        if divergence is not None and self._record.run.control is not Control.CANCEL:
            raise Diverged(divergence, how_ended(task))
        if divergence is not None:
            return self._end(RunStatus.CANCELLED)
        control = self._record.run.control
        if not task.done():
            return await self._conclude_waiting()
        if control is not None and _has_succeeded(task):
            return await self._stop(control)  # It was to end before.
        if task.cancelled():
            return await self._undo_and_end(RunStatus.FAILED, "the body was cancelled from within")
        error = task.exception()
        if self._steps.is_undone and (error is None or isinstance(error, ContinueAs)):
            return await self._undo_and_end(RunStatus.FAILED, UNDONE)
        if error is None:
            return self._end(RunStatus.COMPLETED, result=task.result())
        if isinstance(error, ContinueAs):
            return await self._continue_as(error.params)
        failed_step = join_keys(self._calls.failed_steps(error))
        return await self._undo_and_end(RunStatus.FAILED, _failure_text(error), failed_step)

    async def _conclude_waiting(self) -> Outcome:
        run = self._record.run
        if run.paused:
            return self._suspended()
        if run.control is not None:
            return await self._stop(run.control)
        if self._record.is_past_deadline():
            assert run.deadline_at is not None
            at = iso(run.deadline_at.replace(microsecond=0))
            text = f"the run did not end before its deadline at {at}"
            return await self._undo_and_end(RunStatus.FAILED, text)
        if self._steps.is_undone:
            return await self._undo_and_end(RunStatus.FAILED, UNDONE)
        if self._steps.is_stopping:  # It was paused and resumed meanwhile.
            return suspended(run)
        return self._suspended()

    async def _stop(self, control: Control) -> Outcome:
        """Ends a run that was cancelled, or whose workers died too often."""
        if control is Control.CANCEL:
            return self._end(RunStatus.CANCELLED)
        if control is Control.COMPENSATE:
            return await self._undo_and_end(RunStatus.CANCELLED, None)
        return await self._undo_and_end(RunStatus.FAILED, self._record.run.error)

    async def _undo_and_end(
        self, status: RunStatus, error: str | None, failed_step: str | None = None
    ) -> Outcome:
        """Runs the compensations, and then ends the run."""
        steps = self._steps
        steps.waiting.clear()
        self._check_compensations()
        if self._calls.compensations:
            steps.is_stopping, steps.is_compensating = self._record.run.paused, True
            task = await self._drive(self._undo())
            if not task.done():
                was_paused = steps.is_stopping and not self._record.run.paused
                return suspended(self._record.run) if was_paused else self._suspended()
            task.result()
        return self._end(status, error=error, failed_step=failed_step)

    def _check_compensations(self) -> None:
        """Every recorded step that can be undone must have its compensation in this code. Raises
        `Diverged`; if somebody accepts that, the step becomes part of a dead letter."""
        run = self._record.run
        for step in self._record.steps.values():
            if step.args is None or step.key in self._calls.compensations:
                continue
            text = f"step {step.key!r} cannot be undone: this code has no compensation for it, or "
            text += "does not get to it"
            if step.position > run.accepted and not step.optional:
                raise Diverged(text)
            self._failed_compensations.append(text)

    async def _undo(self) -> None:
        """Undoes the steps that have started, the last one first."""
        recorded = self._record.steps
        started = [key for key in self._calls.compensations if key in recorded]
        started.sort(key=lambda key: recorded[key].position, reverse=True)
        for key in started:
            step, undo = recorded[key], self._calls.compensations[key]
            args = (_recorded_output(step, undo.function), *_recorded_args(step, undo.args))
            work = Work(undo.compensate, args, undo.retries, STEP_TIMEOUT_SECONDS)
            try:
                await self._calls.compensate(compensation_name(key), work)
            except StepFailed as error:
                self._failed_compensations.append(str(error))

    def _end(
        self,
        status: RunStatus,
        *,
        result: bytes | None = None,
        error: str | None = None,
        failed_step: str | None = None,
    ) -> Outcome:
        """Ends the run, in one commit with the end of its message."""
        run = self._record.run
        end = RunEnd(
            uid=run.uid,
            status=status,
            result=result,
            error=None if error is None else clean_error(error),
            failed_step=failed_step,
        )
        if self._failed_compensations:
            return Permanent(f"run {run.id}: {'; '.join(self._failed_compensations)}", (end,))
        return self._ended(status, error, (end,))

    def _ended(
        self, status: RunStatus, error: str | None, effects: tuple[Effect, ...] = ()
    ) -> Outcome:
        """The outcome of the message of a run that has ended. A slot succeeds with its run only."""
        if self._message.stored.schedule_id is None or status is RunStatus.COMPLETED:
            return Committed(effects)
        text = f"run {self._record.run.id} {status}" + (f": {error}" if error else "")
        return Permanent(text, effects)

    async def _continue_as(self, params: object) -> Outcome:
        try:
            encoded = encode_value(self._declared.params, params, PARAMS, "params")
            check_size(PARAMS, encoded)
        except InvalidInput as error:
            text = f"step.continue_as cannot go on with these params: {error}"
            return await self._undo_and_end(RunStatus.FAILED, text)
        await self._record.continue_as(encoded)
        return suspended(self._record.run)

    def _suspended(self) -> Outcome:
        """The run waits, until its next time or its next signal."""
        run, seconds = self._record.run, float(DELAY_SECONDS_MAX)
        times = [self._steps.next_wake(), run.deadline_at]
        wake_at = min((time for time in times if time is not None), default=None)
        if wake_at is None or run.paused:
            return suspended(run, seconds)
        left = max((wake_at - self._record.now()).total_seconds(), 0.0)
        if left > seconds:
            return suspended(run, seconds)
        return suspended(run, left, wake_at)

    async def _drop(self) -> None:
        """Ends the tasks of a body that waits, and of steps whose claim is lost."""
        left = self._calls.drop()
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=DROP_SECONDS_MAX)
        for task in left:
            if task.done() and not task.cancelled():
                task.exception()  # What a dropped step raises says nothing.
        await self._steps.loop.end(DROP_SECONDS_MAX)


def _has_succeeded(task: asyncio.Task[Any]) -> bool:
    if task.cancelled():
        return False
    error = task.exception()
    return error is None or isinstance(error, ContinueAs)


class Diverged(Exception):
    """The code of a run does not agree with its record. Nothing was done. `difference` is the same
    whenever this code is tried; what it raised may not be."""

    def __init__(self, difference: str, ended: str = "") -> None:
        self.difference = difference
        super().__init__(f"{difference}; {ended}" if ended else difference)


def read_params(declared: WorkflowDeclaration, run: Run) -> tuple[Any, ...]:
    """The params of a run, as its function takes them; for a map the item. Raises `Diverged` for
    what this code cannot read: a deploy has changed the type, or nobody has checked it."""
    if not declared.takes_params:
        return ()
    try:
        return (declared.params.decode(run.params, ContentType.JSON),)
    except Exception as error:  # A type of the app may raise anything.
        what = "the params of the run do" if run.parent_id is None else "the item does"
        text = clean_error(f"{type(error).__name__}: {error}")[:ERROR_SHOWN_MAX]
        raise Diverged(f"{what} not fit this code", text) from None


def how_ended(body: asyncio.Future[Any]) -> str:
    """How a body has ended before it asked for its whole record; nothing for one that waits."""
    if not body.done() or body.cancelled():
        return ""
    error = body.exception()
    if error is None or isinstance(error, ContinueAs):
        return "this code ends before"
    cause = single_error(error)
    text = clean_error(f"{type(cause).__name__}: {cause}")
    return f"this code raises {text[:ERROR_SHOWN_MAX]}"


def _recorded_output(step: RunStep, function: Callable[..., Any]) -> Any:
    """The result of a step that is undone, as the type that its function declares; None if the step
    has none. What does not fit the type any more comes as it is stored."""
    if step.output is None or step.state is not StepState.DONE:
        return None
    try:
        return result_payload(function).decode(step.output, ContentType.JSON)
    except Exception:  # A type of the app may raise anything.
        return msgspec.json.decode(step.output)


def _recorded_args(step: RunStep, args: tuple[Any, ...]) -> Sequence[Any]:
    """The arguments of the recorded call. Code that was accepted may call the step with others."""
    if step.args is None or step.args == encode_args(args):
        return args
    found: list[Any] = msgspec.json.decode(step.args)
    return found


def _failure_text(error: BaseException) -> str:
    """Why a run failed."""
    cause = single_error(error)
    if isinstance(cause, StepFailed):
        return str(cause)
    text = describe(error)
    return f"{text} ({NO_STEP})" if OTHER_LOOP in str(cause) else text
