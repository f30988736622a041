"""The steps that a body calls: each runs as a task beside it, waits, or has a recorded result.

While the body is recalling its record, it gets recorded results only, in their order; what it calls
besides is kept in `_pending`. When it waits and has asked for the whole record, all of that begins.
If it waits and has not, the record and the code have diverged, and nothing begins.

A step that has to wait (a sleep, an event, a retry) is kept in `waiting`. After `is_stopping` was
set no step starts, and no new result is given: the run is paused, cancelled, failed or past its
deadline.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from tickwork.app.message import ClaimedMessage
from tickwork.core.workflow.children import MapItem
from tickwork.core.workflow.model import RunEvent, RunStep, StepError, StepKind, StepState
from tickwork.core.workflow.recall import Recall
from tickwork.core.workflow.retries import Retries
from tickwork.core.workflow.step_key import StepKeys, is_compensation
from tickwork.errors import (
    ClaimLost,
    FieldError,
    InvalidInput,
    StoreError,
)
from tickwork.workflow.body_loop import BodyLoop, Dropped
from tickwork.workflow.call import StepCall, Waiting, resolve_call, step_failed
from tickwork.workflow.do_steps import CarryOut, Crashed, Dos, resolve_recorded
from tickwork.workflow.map_steps import Mapped, Maps, OnMap
from tickwork.workflow.record import RunRecord
from tickwork.workflow.wait_steps import Waits, decoded
from tickwork.workflow.work import Work, encode_args, name_call

AtBoundary = Callable[[str, str], None]
"""Called with `start` before each attempt at a step, `done` before its result is recorded, and
`recorded` before the body gets it; and with the key of the step."""

_log = logging.getLogger("tickwork")


class Compensation(NamedTuple):
    """How a step is undone, and the function that it calls."""

    compensate: Callable[..., Any]
    function: Callable[..., Any]
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
        self.record = record
        self.at_boundary = at_boundary or _do_nothing
        self._outer = asyncio.get_running_loop()
        # Weak: a cycle would keep the whole record in memory until the next garbage collection.
        own = weakref.proxy(self)
        self.loop = BodyLoop(own)
        self._dos, self._waits = Dos(weakref.ref(self), message, carry_out), Waits(own)
        self.maps = Maps(own, on_map)
        self._keys = StepKeys()
        self.calls: dict[str, StepCall[Any]] = {}
        self.running: set[asyncio.Task[None]] = set()
        self.waiting: dict[str, Waiting] = {}
        self.compensations: dict[str, Compensation] = {}
        self.changed = asyncio.Event()
        self.is_lost = self.is_broken = self.is_dropped = False
        self.is_compensating = False
        self.is_undone = any(map(is_compensation, record.steps))
        self.is_stopping = False
        self._recall = Recall(record.steps.values(), record.run.accepted)
        self.is_recalling = bool(record.steps)
        self._held: dict[str, Callable[[], None]] = {}
        self._pending: dict[str, Callable[[], None]] = {}
        self._patches: list[StepCall[bool]] = []
        self._arrived: dict[int, tuple[StepCall[Any], Any, BaseException | None]] = {}
        self._delivered = record.number

    # What a body calls

    @property
    def run_id(self) -> str:
        return self.record.run.id

    @property
    def tenant(self) -> str:
        return self.record.run.tenant

    def do(self, name: object, key: object, work: Work) -> StepCall[Any]:
        arguments = encode_args(work.args)
        called = name_call(work.function, arguments)
        call, known = self._call(name, StepKind.DO, key, called)
        if work.compensate is not None:
            undo = Compensation(work.compensate, work.function, work.args, work.retries)
            self.compensations[call.key] = undo
        if known is not None and known.state.is_final:
            self._hold(call, lambda: resolve_recorded(call, work.function, known))
        elif known is None:
            args = None if work.compensate is None else arguments
            if self.is_recalling:
                self._begin(call, lambda: self._dos.begin(call, work, called, args))
            elif not self.is_stopping:
                self._dos.begin(call, work, called, args)
        elif known.called in (None, called):
            self._begin(call, lambda: self._dos.go_on(call, work, known))
        else:  # Somebody accepted other arguments, which are to be undone then.
            args = None if work.compensate is None else arguments
            changed = structs.replace(known, called=called, args=args)
            self._begin(call, lambda: self._dos.go_on(call, work, changed, is_recorded=False))
        return call

    def compensate(self, name: str, work: Work) -> StepCall[Any]:
        """Calls the step that undoes another one."""
        call, known = self._call(name, StepKind.DO)
        if known is not None and known.state.is_final:
            resolve_recorded(call, work.function, known)
        elif known is None:
            self._begin(call, lambda: self._dos.begin(call, work, None, None))
        else:
            self._begin(call, lambda: self._dos.go_on(call, work, known))
        return call

    def sleep(self, name: object, seconds: float | None, until: datetime | None) -> StepCall[None]:
        call, known = self._call(name, StepKind.SLEEP)
        if known is None:
            self._begin(call, lambda: self._waits.begin_sleep(call, seconds, until))
            return call
        if self.is_recalling:
            self._hold(call, lambda: resolve_call(call))
        if not call.future.done():
            self._begin(call, lambda: self._waits.sleep_until(call, known.wake_at))
        return call

    def wait_for_event(
        self, name: object, type_: str, timeout_seconds: float | None
    ) -> StepCall[Any]:
        call, known = self._call(name, StepKind.EVENT, called=type_)
        if known is not None and known.state is StepState.DONE:
            self._hold(call, lambda: resolve_call(call, decoded(known)))
        elif known is not None and known.state is StepState.FAILED:
            self._hold(call, lambda: resolve_call(call, error=step_failed(known)))
        elif known is not None and known.state is StepState.WAITING:
            self._begin(call, lambda: self._waits.wait_for_event(call, type_, known))
        else:
            self._begin(
                call, lambda: self._waits.ask_for_event(call, known, type_, timeout_seconds)
            )
        return call

    def patched(self, name: object) -> StepCall[bool]:
        call, known = self._call(name, StepKind.PATCH)
        if known is not None:
            resolve_call(call, known.output == b"true")
        elif self.is_recalling:
            self._patches.append(call)
        else:
            self._begin_patch(call)
        return call

    def map(
        self, name: object, work: Work, items: Sequence[MapItem], concurrency: int
    ) -> StepCall[list[Any]]:
        called = name_call(work.function, encode_args([[item.key, item.item] for item in items]))
        call, known = self._call(name, StepKind.MAP, called=called)
        mapped = Mapped(str(name), called, work, items, concurrency)
        self.maps.works[call.key] = work
        if known is not None and known.state.is_final:
            self._hold(call, lambda: self.maps.resolve(call, mapped, known))
        else:
            self._begin(call, lambda: self.maps.begin(call, mapped, known))
        return call

    # What drives a body

    def on_idle(self) -> None:
        """The body waits: it gets its next recorded result, or what it has called begins."""
        if not self.is_recalling:
            if not self.running:
                self.changed.set()
            return
        try:
            self._go_on()
        except Exception as error:  # Else nobody would know that the body waits.
            self._on_error(error)
            self.changed.set()

    def _go_on(self) -> None:
        while self.is_recalling and not self.is_dropped:
            if self._give_next():
                return
            if self.divergence() is not None:
                break
            self._end_recall()
            if self.loop.is_busy:
                return
        if not self.running:
            self.changed.set()

    def _give_next(self) -> bool:
        """Gives the body its next recorded result; whether there is one."""
        key = self._recall.next(self.record.now())
        if key is not None:
            self._recall.give(key)
            self._pending.pop(key, None)
            self._held.pop(key)()
            return True
        if self._patches and self._recall.has_unasked():
            # The record goes on beyond this point, by the old way.
            resolve_call(self._patches.pop(0), value=False)
            return True
        return False

    def _end_recall(self) -> None:
        self.is_recalling = False
        self.changed.set()  # The run does not diverge.
        self._delivered = self.record.number = max(self.record.number, self._recall.last)
        pending, self._pending = self._pending, {}
        if self.is_stopping or self.is_undone:
            self.is_stopping = True
            return
        for begin in pending.values():
            begin()
        for call in self._patches:
            self._begin_patch(call)

    def divergence(self) -> str | None:
        """How the record and the calls of a body that waits or has ended differ."""
        return self._recall.divergence() if self.is_recalling else None

    async def wait_for_change(self, seconds: float) -> bool:
        """Waits until `changed` is set; False if that takes too long."""
        until = self._outer.time() + seconds
        timer = self._outer.call_at(until, self.changed.set)
        try:
            await self.changed.wait()
        finally:
            timer.cancel()
        return self._outer.time() < until

    def wake_due(self) -> bool:
        """Lets steps go on whose time has come or whose event is there; whether there are any."""
        if self.is_stopping or not self.waiting:
            return False
        now, woken = self.record.now(), list[tuple[Waiting, RunEvent | None]]()
        for key, waiting in [*self.waiting.items()]:
            event_type = waiting.event_type
            event = None if event_type is None else self.record.take_event(event_type)
            is_due = waiting.wake_at is not None and waiting.wake_at <= now
            if event is not None or is_due or self.maps.has_ended(key):
                del self.waiting[key]
                woken.append((waiting, event))
        if len(woken) > 1:  # As `Recall` gives sleeps back.
            woken.sort(key=self._wake_order)
        for waiting, event in woken:
            waiting.go_on(event)
        return bool(woken)

    def _wake_order(self, woken: tuple[Waiting, RunEvent | None]) -> tuple[float, int]:
        waiting, _ = woken
        wake_at = 0.0 if waiting.wake_at is None else waiting.wake_at.timestamp()
        return wake_at, self.record.steps[waiting.call.key].position

    def next_wake(self) -> datetime | None:
        """When the first waiting step wakes by itself."""
        times = [each.wake_at for each in self.waiting.values() if each.wake_at is not None]
        return min(times, default=None)

    @property
    def is_awaited(self) -> bool:
        """Whether the body awaits a step that waits."""
        return any(waiting.call.is_awaited for waiting in self.waiting.values())

    async def refresh(self) -> None:
        """Reads what happened to the run from outside."""
        await self.record.refresh()
        self.look_at_control()

    def drop(self) -> list[asyncio.Task[None]]:
        """Refuses further calls, and returns the steps that are running."""
        self.is_dropped = True
        for call in self.calls.values():
            call.future.cancel()
        self.loop.cancel_tasks()
        for refers_to_this in (self._held, self._pending, self.waiting):
            refers_to_this.clear()
        return [task for task in self.running if not task.done()]

    def forgotten(self) -> list[StepCall[Any]]:
        """The steps that have not ended, and that nobody awaits."""
        return [
            call for call in self.calls.values() if not call.is_awaited and not call.future.done()
        ]

    # Steps

    def _call(
        self, name: object, kind: StepKind, key: object = None, called: str | None = None
    ) -> tuple[StepCall[Any], RunStep | None]:
        """Reserves the key of a step; and its record, if it has one."""
        if self.is_dropped:
            raise Dropped
        made = self._keys.next(name, key, task=self.loop.current_task())
        if self.is_compensating is not is_compensation(made):
            raise Dropped if self.is_compensating else _reserved(made)
        if self.record.run.accepted:
            made = self._recall.key(made, kind)
        call = self.calls[made] = StepCall(made, self.loop.create_future())
        if self.is_recalling:
            return call, self._recall.ask(made, kind, called)
        return call, self.record.steps.get(made)

    def _hold(self, call: StepCall[Any], give: Callable[[], None]) -> None:
        """Keeps a recorded result until it is the next. A body without branches that asks for the
        next one gets it at once."""
        if not self.is_recalling:
            give()
        elif not self.loop.has_branches and self._next_at_once() == call.key:
            self._recall.give(call.key)
            give()
        else:
            self._held[call.key] = give

    def _next_at_once(self) -> str | None:
        return self._recall.next(self.record.now(), may_pass=False)

    def _begin(self, call: StepCall[Any], begin: Callable[[], None]) -> None:
        """Begins a step, or keeps it until the body has asked for its whole record."""
        if self.is_recalling:
            self._pending[call.key] = begin
        elif not self.is_stopping:
            begin()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work of a step in the loop of the worker."""
        task = self._outer.create_task(work)
        self.running.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)
            self.changed.set()
        elif self._arrived:
            self.loop.run_after(self.deliver_arrived)
        elif not self.running and not self.loop.is_busy:  # Else the body goes on with its result.
            self.changed.set()

    def _on_error(self, error: BaseException) -> None:
        if isinstance(error, ClaimLost | Crashed):
            self.is_lost = True
            return
        self.is_broken = True
        if not isinstance(error, StoreError):
            _log.error("run %s: a step cannot be recorded", self.run_id, exc_info=error)

    def wait(
        self,
        call: StepCall[Any],
        go_on: Callable[[RunEvent | None], None],
        *,
        until: datetime | None = None,
        event_type: str | None = None,
    ) -> None:
        """Lets a step wait: until a time, for an event of a type, or for the items of its map."""
        self.waiting[call.key] = Waiting(call, until, event_type, go_on)
        self.changed.set()

    async def fail(self, call: StepCall[Any], step: RunStep, error: StepError) -> None:
        """Records a step that has failed without an attempt at it."""
        failed = structs.replace(
            step,
            state=StepState.FAILED,
            error=msgspec.json.encode(error),
            finished_at=self.record.now(),
        )
        self.arrive(await self.write(failed), call, error=step_failed(failed))

    def _begin_patch(self, call: StepCall[bool]) -> None:
        if not self.is_stopping:
            self.start(self._record_patch(call))

    async def _record_patch(self, call: StepCall[bool]) -> None:
        step = self.record.new(call.key, StepKind.PATCH, StepState.DONE)
        await self.write(structs.replace(step, output=b"true", finished_at=step.started_at))
        if not self.is_stopping:
            resolve_call(call, value=True)

    async def write(self, step: RunStep, *, event: int | None = None) -> int:
        """Records a step; the number of its result, if it has ended."""
        number = await self.record.write(step, event=event)
        self.at_boundary("recorded", step.key)
        self.look_at_control()
        return number

    def look_at_control(self) -> None:
        """Stops if the run was paused or cancelled meanwhile."""
        run = self.record.run
        if run.paused or (run.control is not None and not self.is_compensating):
            self.is_stopping = True

    def arrive(
        self,
        number: int,
        call: StepCall[Any],
        value: Any = None,
        error: BaseException | None = None,
    ) -> None:
        """Keeps the result of a step, which the body gets when the task of the step has ended."""
        self._arrived[number] = (call, value, error)

    def deliver_arrived(self) -> None:
        """Gives the body the results that have arrived, unless the run is to stop here. A result
        waits for those with lower numbers, which are still being recorded."""
        arrived, skipped = self._arrived, self.record.skipped
        while (number := self._delivered + 1) in arrived or number in skipped:
            self._delivered = number
            result = arrived.pop(number, None)
            if result is not None and not self.is_stopping:
                resolve_call(*result)


def _do_nothing(_boundary: str, _key: str) -> None:
    """Nothing happens at a boundary, except in tests."""


def _reserved(key: str) -> InvalidInput:
    fault = "begins like the name of a compensation; rename the step"
    return InvalidInput([FieldError(f"step {key!r}", fault)])
