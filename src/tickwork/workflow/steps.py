"""The steps that run beside a body or wait, and how their results get to it.

A step that has to wait (a sleep, an event, a retry) is kept in `waiting`. After `is_stopping` was
set no step starts, and no new result is given: the run is paused, cancelled, failed or past its
deadline.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import msgspec
from msgspec import structs

from tickwork.core.workflow.model import RunEvent, RunStep, StepError, StepState
from tickwork.core.workflow.step_key import is_compensation
from tickwork.errors import (
    ClaimLost,
    StoreError,
)
from tickwork.workflow.body_loop import BodyLoop
from tickwork.workflow.call import StepCall, Waiting, resolve_call, step_failed
from tickwork.workflow.do_steps import Crashed
from tickwork.workflow.map_steps import Maps, OnMap
from tickwork.workflow.record import RunRecord

AtBoundary = Callable[[str, str], None]
"""Called with `start` before each attempt at a step, `done` before its result is recorded, and
`recorded` before the body gets it; and with the key of the step."""

_log = logging.getLogger("tickwork")


class Steps:
    """The steps of one execution of a body."""

    def __init__(
        self,
        loop: BodyLoop,
        record: RunRecord,
        at_boundary: AtBoundary | None = None,
        on_map: OnMap | None = None,
    ) -> None:
        self.loop = loop
        self.record = record
        self.at_boundary = at_boundary or _do_nothing
        self._outer = asyncio.get_running_loop()
        # Weak: a cycle would keep the whole record in memory until the next garbage collection.
        self.maps = Maps(weakref.proxy(self), on_map)
        self.running: set[asyncio.Task[None]] = set()
        self.waiting: dict[str, Waiting] = {}
        self.changed = asyncio.Event()
        self.is_lost = False
        self.is_broken = False
        self.is_dropped = False
        self.is_stopping = False
        self.is_compensating = False
        self.is_undone = any(map(is_compensation, record.steps))
        self._arrived: dict[int, tuple[StepCall[Any], Any, BaseException | None]] = {}
        self._delivered = record.number

    # Waiting

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
        """Continues steps whose time has come or whose event is there; whether there are any."""
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
        times = [waiting.wake_at for waiting in self.waiting.values()]
        return min((time for time in times if time is not None), default=None)

    @property
    def is_awaited(self) -> bool:
        """Whether the body awaits a step that waits."""
        return any(waiting.call.is_awaited for waiting in self.waiting.values())

    async def refresh(self) -> None:
        """Reads what happened to the run from outside."""
        await self.record.refresh()
        self.look_at_control()

    def drop(self) -> list[asyncio.Task[None]]:
        """Cancels what the body still waits for, and returns the steps that are running."""
        self.is_dropped = True
        self.loop.cancel_tasks()
        self.waiting.clear()
        return [task for task in self.running if not task.done()]

    # Running

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Runs the work of a step in the loop of the worker."""
        task = asyncio.Task(work, loop=self._outer)  # As `create_task`, at half its price.
        self.running.add(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self.running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.on_error(error)
            self.changed.set()
        elif self._arrived:
            self.loop.run_after(self.deliver_arrived)
        elif not self.running and not self.loop.is_busy:  # Otherwise the body continues.
            self.changed.set()

    def on_error(self, error: BaseException) -> None:
        """Notes that this execution cannot continue: the claim is lost, or a step cannot be
        recorded."""
        if isinstance(error, ClaimLost | Crashed):
            self.is_lost = True
            return
        self.is_broken = True
        if not isinstance(error, StoreError):
            _log.error("run %s: a step cannot be recorded", self.record.run.id, exc_info=error)

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

    def deliver_after(self, number: int) -> None:
        """Numbers new results after this one, the last that the body got from the record."""
        self._delivered = self.record.number = max(self.record.number, number)

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
        number = self._delivered + 1
        while number in arrived or number in skipped:
            self._delivered = number
            result = arrived.pop(number, None)
            if result is not None and not self.is_stopping:
                resolve_call(*result)
            number += 1


def _do_nothing(_boundary: str, _key: str) -> None:
    """Nothing happens at a boundary, except in tests."""
