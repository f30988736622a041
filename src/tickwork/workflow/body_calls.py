"""The steps that a body calls, and what it gets of its record.

While the body is recalling its record, it gets recorded results only, in their order; what it calls
besides is kept in `_pending`. When it waits and has asked for the whole record, all of that begins.
If it waits and has not, the record and the code have diverged, and nothing begins.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from msgspec import structs

from tickwork.app.message import ClaimedMessage
from tickwork.core.workflow.children import MapItem
from tickwork.core.workflow.model import RunStep, StepKind, StepState
from tickwork.core.workflow.recall import Recall
from tickwork.core.workflow.retries import Retries
from tickwork.core.workflow.step_key import StepKeys, is_compensation
from tickwork.errors import FieldError, InvalidInput, StepFailed
from tickwork.workflow.body_loop import BodyLoop, Dropped
from tickwork.workflow.call import StepCall, Unfit, resolve_call, step_failed
from tickwork.workflow.do_steps import CarryOut, Dos, resolve_recorded
from tickwork.workflow.map_steps import Mapped, OnMap
from tickwork.workflow.record import RunRecord
from tickwork.workflow.steps import AtBoundary, Steps
from tickwork.workflow.wait_steps import Waits, decoded
from tickwork.workflow.work import Work, check_args, encode_args, name_call


class Compensation(NamedTuple):
    """How a step is undone, and the function that it calls."""

    compensate: Callable[..., Any]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    retries: Retries


class BodyCalls:
    """The calls of one execution of a body, and the steps that they begin."""

    def __init__(
        self,
        record: RunRecord,
        message: ClaimedMessage[Any],
        carry_out: CarryOut,
        at_boundary: AtBoundary | None = None,
        on_map: OnMap | None = None,
    ) -> None:
        # Weak: a cycle would keep the whole record in memory until the next garbage collection.
        self._loop = BodyLoop(weakref.proxy(self))
        self.steps = Steps(self._loop, record, at_boundary, on_map)
        self._maps = self.steps.maps
        self._dos = Dos(weakref.ref(self.steps), message, carry_out)
        self._waits = Waits(weakref.proxy(self.steps))
        self._record = record
        self._keys = StepKeys()
        self._calls: dict[str, StepCall[Any]] = {}
        self.compensations: dict[str, Compensation] = {}
        self._recall = Recall(record.steps.values(), record.run.accepted)
        self.is_recalling = bool(record.steps)
        self._recorded: dict[str, Callable[[], None]] = {}
        self._pending: dict[str, Callable[[], None]] = {}
        self._patches: list[StepCall[bool]] = []
        self._failed: list[str] = []
        self._failed_together: list[Sequence[BaseException]] = []

    @property
    def run_id(self) -> str:
        return self._record.run.id

    @property
    def tenant(self) -> str:
        return self._record.run.tenant

    def do(self, name: object, key: object, work: Work) -> StepCall[Any]:
        arguments = encode_args(work.args)
        if b"null" in arguments:
            check_args(name, work.args, arguments)
        called = name_call(work.function, arguments)
        call, known = self._call(name, StepKind.DO, key, called)
        if work.compensate is not None:
            undo = Compensation(work.compensate, work.function, work.args, work.retries)
            self.compensations[call.key] = undo
        if known is not None and known.state.is_final:
            give = partial(resolve_recorded, call, work.function, known)
            self._give(call, lambda: self._resolve(call, known, give))
        elif known is None:
            args = None if work.compensate is None else arguments
            if self.is_recalling:
                self._begin(call, lambda: self._dos.begin(call, work, called, args))
            elif not self.steps.is_stopping:
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
        if known is not None and known.state is StepState.FAILED:
            resolve_call(call, error=step_failed(known))
        elif known is not None and known.state is StepState.DONE:
            resolve_call(call)  # Nobody asks what a compensation returned.
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
            self._give(call, lambda: resolve_call(call))
        if not call.future.done():
            self._begin(call, lambda: self._waits.sleep_until(call, known.wake_at))
        return call

    def wait_for_event(
        self, name: object, type_: str, timeout_seconds: float | None
    ) -> StepCall[Any]:
        call, known = self._call(name, StepKind.EVENT, called=type_)
        if known is not None and known.state is StepState.DONE:
            self._give(call, lambda: resolve_call(call, decoded(known)))
        elif known is not None and known.state is StepState.FAILED:
            self._give(call, lambda: resolve_call(call, error=step_failed(known)))
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
        self._maps.works[call.key] = work
        if known is not None and known.state.is_final:
            give = partial(self._maps.resolve, call, mapped, known)
            self._give(call, lambda: self._resolve(call, known, give))
        else:
            self._begin(call, lambda: self._maps.begin(call, mapped, known))
        return call

    def note_failed_together(self, errors: Sequence[BaseException]) -> None:
        """Notes the errors of a `gather`, which raises only the first of them."""
        self._failed_together.append(errors)

    def failed_steps(self, error: BaseException) -> list[str]:
        """The keys of the steps with whose errors a body has ended: those of its error and of what
        caused it, and those after whose failure it called no step, so that nothing was done because
        of that."""
        left, seen = [error], list[BaseException]()
        while left:
            error = left.pop()
            if any(error is other for other in seen):
                continue
            seen.append(error)
            left += error.exceptions if isinstance(error, BaseExceptionGroup) else ()
            left += _cause(error)
            for errors in self._failed_together:
                left += errors if any(error is other for other in errors) else ()
        keys = [other.key for other in seen if isinstance(other, StepFailed)]
        return [*dict.fromkeys([*keys, *self._failed])]

    def _resolve(self, call: StepCall[Any], known: RunStep, give: Callable[[], None]) -> None:
        """Gives the body a recorded result. One that this code cannot read is a divergence, and an
        error of the step once somebody has accepted this code."""
        try:
            give()
        except Unfit as error:
            if not self._recall.differ(known, str(error)):
                resolve_call(call, error=StepFailed(call.key, error.error_type, str(error)))

    # What it gets of its record

    def on_idle(self) -> None:
        """The body waits: it gets its next recorded result, or what it has called begins."""
        if not self.is_recalling:
            if not self.steps.running:
                self.steps.changed.set()
            return
        try:
            self._go_on()
        except Exception as error:  # Otherwise nobody would know that the body waits.
            self.steps.on_error(error)
            self.steps.changed.set()

    def _go_on(self) -> None:
        while self.is_recalling and not self.steps.is_dropped:
            if self._give_next():
                return
            if self.divergence() is not None:
                break
            self._end_recall()
            if self._loop.is_busy:
                return
        if not self.steps.running:
            self.steps.changed.set()

    def _give_next(self) -> bool:
        """Gives the body its next recorded result; whether there is one."""
        key = self._recall.next(self._record.now())
        if key is not None:
            self._recall.give(key)
            self._pending.pop(key, None)
            self._recorded.pop(key)()
            return True
        if self._patches and self._recall.has_unasked():
            # The record continues beyond this point, without the change.
            resolve_call(self._patches.pop(0), value=False)
            return True
        return False

    def _end_recall(self) -> None:
        self.is_recalling = False
        if self._record.run.diverged_at is not None:
            self.steps.changed.set()  # It does not diverge any more, which is to be recorded.
        self.steps.deliver_after(self._recall.last)
        pending, self._pending = self._pending, {}
        if self.steps.is_stopping or self.steps.is_undone:
            self.steps.is_stopping = True
            return
        for begin in pending.values():
            begin()
        for call in self._patches:
            self._begin_patch(call)

    def divergence(self) -> str | None:
        """How the record and the calls of a body that waits or has ended differ."""
        return self._recall.divergence() if self.is_recalling else None

    def drop(self) -> list[asyncio.Task[None]]:
        """Refuses further calls, and returns the steps that are running."""
        for call in self._calls.values():
            call.future.cancel()
        for refers_to_this in (self._recorded, self._pending):
            refers_to_this.clear()
        return self.steps.drop()

    def forgotten(self) -> list[StepCall[Any]]:
        """The steps that have not ended, and that nobody awaits."""
        return [
            call for call in self._calls.values() if not call.is_awaited and not call.future.done()
        ]

    # Calls

    def _call(
        self, name: object, kind: StepKind, key: object = None, called: str | None = None
    ) -> tuple[StepCall[Any], RunStep | None]:
        """Reserves the key of a step; and its record, if it has one."""
        if self.steps.is_dropped:
            raise Dropped
        made = self._keys.next(name, key, task=self._loop.current_task())
        if self.steps.is_compensating is not is_compensation(made):
            raise Dropped if self.steps.is_compensating else _reserved(made)
        if self._recall.has_exceptions:
            made = self._recall.key(made, kind, called)
        if self._failed:
            self._failed.clear()
        call = self._calls[made] = StepCall(made, self._loop.create_future(), self._failed)
        if self.is_recalling:
            return call, self._recall.ask(made, kind, called)
        return call, self._record.steps.get(made)

    def _give(self, call: StepCall[Any], give: Callable[[], None]) -> None:
        """Keeps a recorded result until it is the next. A body without branches that asks for the
        next one gets it at once."""
        if not self.is_recalling:
            give()
        elif not self._loop.has_branches and self._next_at_once() == call.key:
            self._recall.give(call.key)
            give()
        else:
            self._recorded[call.key] = give

    def _next_at_once(self) -> str | None:
        return self._recall.next(self._record.now(), may_pass=False)

    def _begin(self, call: StepCall[Any], begin: Callable[[], None]) -> None:
        """Begins a step, or keeps it until the body has asked for its whole record."""
        if self.is_recalling:
            self._pending[call.key] = begin
        elif not self.steps.is_stopping:
            begin()

    def _begin_patch(self, call: StepCall[bool]) -> None:
        if not self.steps.is_stopping:
            self.steps.start(self._record_patch(call))

    async def _record_patch(self, call: StepCall[bool]) -> None:
        step = self._record.new(call.key, StepKind.PATCH, StepState.DONE)
        await self.steps.write(structs.replace(step, output=b"true", finished_at=step.started_at))
        if not self.steps.is_stopping:
            resolve_call(call, value=True)


def _cause(error: BaseException) -> list[BaseException]:
    """The error for which a body raised its own one. A step fails for its own reasons, also if it
    was called because another one had failed."""
    if isinstance(error, StepFailed):
        return []
    hidden = None if error.__suppress_context__ else error.__context__
    cause = error.__cause__ or hidden
    return [] if cause is None else [cause]


def _reserved(key: str) -> InvalidInput:
    fault = "begins like the name of a compensation; rename the step"
    return InvalidInput([FieldError(f"step {key!r}", fault)])
