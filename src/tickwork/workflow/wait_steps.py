"""The steps that wait: sleeps, and waits for events."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from tickwork.core.workflow.model import RunEvent, RunStep, StepError, StepKind, StepState
from tickwork.workflow.call import StepCall

if TYPE_CHECKING:
    from tickwork.workflow.steps import Steps


class Waits:
    """The steps of one execution of a body that wait."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps

    def begin_sleep(
        self, call: StepCall[None], seconds: float | None, until: datetime | None
    ) -> None:
        """Records a sleep, which then waits."""
        # A time in the past is now: recorded sleeps end in the order of their times.
        now = self._steps.record.now()
        wake_at = max(until or now + timedelta(seconds=seconds or 0.0), now)
        step = self._steps.record.new(call.key, StepKind.SLEEP, StepState.WAITING)
        self._steps.start(self._record_sleep(call, structs.replace(step, wake_at=wake_at)))

    async def _record_sleep(self, call: StepCall[None], step: RunStep) -> None:
        await self._steps.write(step)
        self.sleep_until(call, step.wake_at)

    def sleep_until(self, call: StepCall[None], wake_at: datetime | None) -> None:
        """Goes on with a recorded sleep."""

        def go_on(_: RunEvent | None) -> None:
            self._steps.arrive(self._steps.record.take_number(), call)
            self._steps.deliver_arrived()

        if wake_at is not None and wake_at > self._steps.record.now():
            self._steps.wait(call, go_on, until=wake_at)
        elif not self._steps.is_stopping:
            go_on(None)

    def ask_for_event(
        self, call: StepCall[Any], known: RunStep | None, type_: str, timeout_seconds: float | None
    ) -> None:
        """Waits for an event, unless one is there."""
        if known is None:
            step = self._steps.record.new(call.key, StepKind.EVENT, StepState.WAITING, type_)
        else:  # It timed out, and is tried again.
            step = structs.replace(known, state=StepState.WAITING, wake_at=None)
        self._steps.start(self._begin_event_wait(call, step, type_, timeout_seconds))

    async def _begin_event_wait(
        self, call: StepCall[Any], step: RunStep, type_: str, timeout_seconds: float | None
    ) -> None:
        if (event := self._steps.record.take_event(type_)) is not None:
            await self._receive(call, step, event)
            return
        if timeout_seconds is not None:
            wake_at = self._steps.record.now() + timedelta(seconds=timeout_seconds)
            step = structs.replace(step, wake_at=wake_at)
        await self._steps.write(step)
        self.wait_for_event(call, type_, step)

    def wait_for_event(self, call: StepCall[Any], type_: str, step: RunStep) -> None:
        """Goes on with a recorded wait."""

        def go_on(event: RunEvent | None) -> None:
            if event is None:
                self._steps.start(self._time_out(call, type_, step))
            else:
                self._steps.start(self._receive(call, step, event))

        self._steps.wait(call, go_on, until=step.wake_at, event_type=type_)

    async def _time_out(self, call: StepCall[Any], type_: str, step: RunStep) -> None:
        data = StepError("EventTimedOut", f"no event {type_!r} came in time")
        await self._steps.fail(call, step, data)

    async def _receive(self, call: StepCall[Any], step: RunStep, event: RunEvent) -> None:
        done = structs.replace(
            step,
            state=StepState.DONE,
            output=event.data,
            finished_at=self._steps.record.now(),
            wake_at=None,
        )
        number = await self._steps.write(done, event=event.number)
        self._steps.arrive(number, call, msgspec.json.decode(event.data))


def decoded(step: RunStep) -> Any:
    """The data of a recorded event."""
    return msgspec.json.decode(step.output or b"null")
