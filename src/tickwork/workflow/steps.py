"""The steps that a body calls: each runs as a task beside it, waits, or is resolved at once.

A step whose result is recorded is resolved. One that has to wait (a sleep, an event, a retry) is
kept in `waiting`. After `is_stopping` was set no step starts, and none is resolved: the run is
paused, cancelled or past its deadline.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from tickwork.app.message import ClaimedMessage, Permanent, single_error
from tickwork.app.workflows import result_payload
from tickwork.core.message.decide import clean_error
from tickwork.core.model import ContentType
from tickwork.core.workflow.children import MapItem
from tickwork.core.workflow.model import RunEvent, RunStep, StepError, StepKind, StepState
from tickwork.core.workflow.retries import Retries
from tickwork.core.workflow.step_key import StepKeys, compensation_name
from tickwork.errors import ClaimLost, StepFailed, StoreError, StoreUnavailable
from tickwork.service.worker.invoke import describe
from tickwork.workflow.call import StepCall, Waiting, resolve_call, step_failed
from tickwork.workflow.map_steps import Mapped, Maps, OnMap
from tickwork.workflow.record import RunRecord
from tickwork.workflow.work import Done, Identity, Work

ERROR_LENGTH_MAX = 2_000
"""Maximum number of characters of the message of a recorded error."""

STEPS_SHOWN_MAX = 20
"""Maximum number of steps that a report of a divergence names."""

CarryOut = Callable[[Work, str, ClaimedMessage[Any]], Coroutine[Any, Any, Done]]
"""Makes one attempt at the work of a step."""

AtBoundary = Callable[[str, str], None]
"""Called with `start` before each attempt at a step, `done` before its result is recorded, and
`recorded` before the body gets it; and with the key of the step."""

_log = logging.getLogger("tickwork")


class Dropped(BaseException):
    """Raised in a body that calls a step after it was dropped."""


class Crashed(BaseException):
    """Raised at a boundary by a test: everything in memory is lost, as if the process had died."""


class Compensation(NamedTuple):
    """How a step is undone."""

    key: str
    compensate: Callable[..., Any]
    args: tuple[Any, ...]
    retries: Retries


class Steps:
    """The steps of one execution of a body."""

    def __init__(
        self,
        record: RunRecord,
        message: ClaimedMessage[Any],
        carry_out: CarryOut,
        at_boundary: AtBoundary | None = None,
        on_map: OnMap | None = None,
    ) -> None:
        self.record, self._message, self._carry_out = record, message, carry_out
        self.at_boundary = at_boundary or _do_nothing
        self._keys = StepKeys()
        self.calls: dict[str, StepCall[Any]] = {}
        self.running: set[asyncio.Task[None]] = set()
        self.waiting: dict[str, Waiting] = {}
        # Weak: a cycle would keep the whole record in memory until the next garbage collection.
        self.maps = Maps(weakref.proxy(self), on_map)
        self.compensations: list[Compensation] = []
        self.mismatches: list[str] = []
        self.changed, self.called = asyncio.Event(), 0
        self.is_stopping = self.is_lost = self.is_broken = self.is_dropped = False
        self.is_compensating = False
        self._undone: list[str] = []

    # What a body calls

    @property
    def run_id(self) -> str:
        return self.record.run.id

    @property
    def tenant(self) -> str:
        return self.record.run.tenant

    def do(self, name: object, key: object, work: Work) -> StepCall[Any]:
        call, known = self._call(name, StepKind.DO, key)
        if work.compensate is not None:
            self.compensations.append(
                Compensation(call.key, work.compensate, work.args, work.retries)
            )
            if (undo := compensation_name(call.key)) in self.record.steps:
                self._undone.append(undo)
        if known is not None and known.state is StepState.DONE:
            _resolve_recorded(call, work.function, known)
        elif known is not None and known.state is StepState.FAILED:
            resolve_call(call, error=step_failed(known))
        elif known is not None and known.state is StepState.RETRYING:
            self._wait_for_retry(call, work, known)
        elif not self.is_stopping:
            self.start(self._attempt(call, work, known))
        return call

    def sleep(self, name: object, seconds: float | None, until: datetime | None) -> StepCall[None]:
        call, known = self._call(name, StepKind.SLEEP)
        if known is not None:
            self._sleep_until(call, known.wake_at)
        elif not self.is_stopping:
            wake_at = until or self.record.now() + timedelta(seconds=seconds or 0.0)
            self.start(self._begin_sleep(call, wake_at))
        return call

    def wait_for_event(
        self, name: object, type_: str, timeout_seconds: float | None
    ) -> StepCall[Any]:
        call, known = self._call(name, StepKind.EVENT)
        if known is not None and known.state is StepState.DONE:
            resolve_call(call, msgspec.json.decode(known.output or b"null"))
        elif known is not None and known.state is StepState.FAILED:
            resolve_call(call, error=step_failed(known))
        elif known is not None:
            self._wait_for_event(call, type_, known)
        elif not self.is_stopping:
            self.start(self._begin_event_wait(call, type_, timeout_seconds))
        return call

    def patched(self, name: object) -> StepCall[bool]:
        call, known = self._call(name, StepKind.PATCH)
        if known is not None:
            resolve_call(call, known.output == b"true")
        elif not self.is_stopping:
            # Steps that are recorded and not yet called lie beyond this point.
            is_new = all(key in self.calls for key in self.record.steps)
            self.start(self._record_patch(call, is_new=is_new))
        return call

    def map(
        self, name: object, work: Work, items: Sequence[MapItem], concurrency: int
    ) -> StepCall[list[Any]]:
        call, known = self._call(name, StepKind.MAP)
        self.maps.call(call, known, Mapped(str(name), work, items, concurrency))
        return call

    # What drives a body

    @property
    def is_undone(self) -> bool:
        """Whether compensations have run, after which the body may start nothing any more."""
        return any(each not in self.calls for each in self._undone)

    def wake_due(self) -> bool:
        """Lets steps go on whose time has come or whose event is there; whether there are any."""
        if self.is_stopping or not self.waiting:
            return False
        now, woken = self.record.now(), list[tuple[Waiting, RunEvent | None]]()
        for key, each in [*self.waiting.items()]:
            event = None if each.event_type is None else self.record.take_event(each.event_type)
            is_due = each.wake_at is not None and each.wake_at <= now
            if event is not None or is_due or self.maps.has_ended(key):
                del self.waiting[key]
                woken.append((each, event))
        for each, event in woken:
            self.start(each.go_on(event))
        return bool(woken)

    def next_wake(self) -> datetime | None:
        """When the first waiting step wakes by itself."""
        times = [each.wake_at for each in self.waiting.values() if each.wake_at is not None]
        return min(times, default=None)

    @property
    def waits_for_signal(self) -> bool:
        """Whether a step waits for an event, or a map for its items."""
        return any(
            each.event_type is not None or key in self.maps.works
            for key, each in self.waiting.items()
        )

    @property
    def is_awaited(self) -> bool:
        """Whether the body awaits a step that waits."""
        return any(each.call.is_awaited for each in self.waiting.values())

    async def refresh(self) -> None:
        """Reads what happened to the run from outside."""
        await self.record.refresh()
        self._look_at_control()

    def drop(self) -> list[asyncio.Task[None]]:
        """Refuses further calls, and returns the steps that are running."""
        self.is_dropped = True
        for call in self.calls.values():
            call.future.cancel()
        return [each for each in self.running if not each.done()]

    def divergence(self) -> str | None:
        """How the record and the calls of a body that has ended differ."""
        unknown = [key for key in self.record.steps if key not in self.calls]
        found = [*self.mismatches]
        if unknown:
            shown = ", ".join(sorted(unknown)[:STEPS_SHOWN_MAX])
            found.append(f"recorded, but not called by this code: {shown}")
        return "; ".join(found) or None

    def forgotten(self) -> list[StepCall[Any]]:
        """The steps that have not ended, and that nobody awaits."""
        return [
            each for each in self.calls.values() if not each.is_awaited and not each.future.done()
        ]

    # Steps

    def _call(
        self, name: object, kind: StepKind, key: object = None
    ) -> tuple[StepCall[Any], RunStep | None]:
        """Reserves the key of a step; and its record, if it has one."""
        if self.is_dropped:
            raise Dropped
        made = self._keys.next(name, key, task=asyncio.current_task())
        call = self.calls[made] = StepCall(made, asyncio.get_running_loop().create_future())
        self.called += 1
        known = self.record.steps.get(made)
        if known is not None and known.kind is not kind:
            text = f"step {made} is a {known.kind} in the record and a {kind} in this code"
            self.mismatches.append(text)
            known = None
        if known is None and self.is_undone and not self.is_compensating:
            self.is_stopping = True
        return call, known

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self.running.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)
        # Usually the body has its result by now, and has called the next step.
        elif self.running and not self.waiting:
            return
        self.changed.set()

    def _on_error(self, error: BaseException) -> None:
        if isinstance(error, ClaimLost | Crashed):
            self.is_lost = True
            return
        self.is_broken = True
        if not isinstance(error, StoreError):
            _log.error("run %s: a step cannot be recorded", self.run_id, exc_info=error)

    async def _attempt(self, call: StepCall[Any], work: Work, known: RunStep | None) -> None:
        """Makes one attempt at a step, and records what follows."""
        step = known or self.record.new(call.key, StepKind.DO, StepState.STARTED)
        if known is None and work.compensate is not None:
            # Recorded before it starts, so that it is undone even if it never ends.
            await self.write(step)
            if self.is_stopping:
                return
        if not self._message.is_ours:
            # Another worker may have the run, and may have recorded this step.
            raise StoreUnavailable("the lease of this node is not renewed; no step starts")
        try:
            self.at_boundary("start", call.key)
            done = await self._carry_out(self._limited(work, call.key), call.key, self._message)
            self.at_boundary("done", call.key)
            ended = structs.replace(
                step,
                state=StepState.DONE,
                attempts=step.attempts + 1,
                output=done.output,
                finished_at=self.record.now(),
                wake_at=None,
            )
            await self.record.write(ended, made=done.made, rows=done.rows)
            self.at_boundary("recorded", call.key)
        except (StoreError, ClaimLost, Crashed):
            raise
        except BaseException as error:
            if self.is_dropped or isinstance(error, KeyboardInterrupt | GeneratorExit):
                raise
            await self._record_failure(call, work, step, error)
            return
        self._look_at_control()
        self.resolve(call, done.value)

    async def _record_failure(
        self, call: StepCall[Any], work: Work, step: RunStep, error: BaseException
    ) -> None:
        cause, attempts, now = single_error(error), step.attempts + 1, self.record.now()
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
        await self.write(failed)
        if delay is None:
            self.resolve(call, error=step_failed(failed))
        else:
            self._wait_for_retry(call, work, failed)

    def _wait_for_retry(self, call: StepCall[Any], work: Work, known: RunStep) -> None:
        async def go_on(_: RunEvent | None) -> None:
            await self._attempt(call, work, known)

        self.waiting[call.key] = Waiting(call, known.wake_at, None, go_on)

    async def _begin_sleep(self, call: StepCall[None], wake_at: datetime) -> None:
        step = self.record.new(call.key, StepKind.SLEEP, StepState.WAITING)
        await self.write(structs.replace(step, wake_at=wake_at))
        self._sleep_until(call, wake_at)

    def _sleep_until(self, call: StepCall[None], wake_at: datetime | None) -> None:
        async def go_on(_: RunEvent | None) -> None:
            self.resolve(call, None)

        if wake_at is None or wake_at <= self.record.now():
            resolve_call(call, None)  # Also in a run that is to stop: nothing new happens by that.
        else:
            self.waiting[call.key] = Waiting(call, wake_at, None, go_on)

    async def _begin_event_wait(
        self, call: StepCall[Any], type_: str, timeout_seconds: float | None
    ) -> None:
        step = self.record.new(call.key, StepKind.EVENT, StepState.WAITING)
        if (event := self.record.take_event(type_)) is not None:
            await self._receive(call, step, event)
            return
        if timeout_seconds is not None:
            wake_at = self.record.now() + timedelta(seconds=timeout_seconds)
            step = structs.replace(step, wake_at=wake_at)
        await self.write(step)
        self._wait_for_event(call, type_, step)

    def _wait_for_event(self, call: StepCall[Any], type_: str, step: RunStep) -> None:
        async def go_on(event: RunEvent | None) -> None:
            if event is not None:
                await self._receive(call, step, event)
                return
            data = StepError("EventTimedOut", f"no event {type_!r} came in time")
            failed = structs.replace(
                step,
                state=StepState.FAILED,
                error=msgspec.json.encode(data),
                finished_at=self.record.now(),
            )
            await self.write(failed)
            self.resolve(call, error=step_failed(failed))

        self.waiting[call.key] = Waiting(call, step.wake_at, type_, go_on)

    async def _receive(self, call: StepCall[Any], step: RunStep, event: RunEvent) -> None:
        done = structs.replace(
            step,
            state=StepState.DONE,
            output=event.data,
            finished_at=self.record.now(),
            wake_at=None,
        )
        await self.write(done, event=event.number)
        self.resolve(call, msgspec.json.decode(event.data))

    async def _record_patch(self, call: StepCall[bool], *, is_new: bool) -> None:
        step = self.record.new(call.key, StepKind.PATCH, StepState.DONE)
        output = b"true" if is_new else b"false"
        await self.write(structs.replace(step, output=output, finished_at=step.started_at))
        self.resolve(call, is_new)

    async def write(self, step: RunStep, *, event: int | None = None) -> None:
        await self.record.write(step, event=event)
        self.at_boundary("recorded", step.key)
        self._look_at_control()

    def _look_at_control(self) -> None:
        run = self.record.run
        if run.paused or (run.control is not None and not self.is_compensating):
            self.is_stopping = True

    def _limited(self, work: Work, key: str) -> Work:
        """The work of a step, within the deadline of the run."""
        run, seconds = self.record.run, work.timeout_seconds
        left = None if self.is_compensating else self.record.seconds_left()
        if left is not None:
            seconds = min(seconds, left)
        identity = Identity(run.uid, f"{run.generation} {key}")
        return structs.replace(work, identity=identity, timeout_seconds=seconds)

    def resolve(
        self, call: StepCall[Any], value: Any = None, error: BaseException | None = None
    ) -> None:
        """Gives the body the result of a step, unless the run is to stop here."""
        if not self.is_stopping:
            resolve_call(call, value, error)


def _do_nothing(_boundary: str, _key: str) -> None:
    """Nothing happens at a boundary, except in tests."""


def _resolve_recorded(call: StepCall[Any], function: Callable[..., Any], step: RunStep) -> None:
    """Gives the body a recorded result, as the type that the function declares."""
    try:
        value = result_payload(function).decode(step.output or b"null", ContentType.JSON)
    except Exception as error:  # The function declares another type than when it was recorded.
        resolve_call(call, error=StepFailed(call.key, type(error).__name__, str(error)))
    else:
        resolve_call(call, value)
