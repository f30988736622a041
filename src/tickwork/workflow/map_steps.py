"""The maps that a body calls: their children are stored, waited for, and collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.app.message import Permanent
from tickwork.core.workflow.children import MapItem, MapRecord, map_batch_id, read_map
from tickwork.core.workflow.model import RunEvent, RunStep, StepError, StepKind, StepState
from tickwork.errors import Conflict, StepFailed
from tickwork.workflow.call import StepCall, Waiting, resolve_call, step_failed
from tickwork.workflow.maps import first_failed, results_in_order
from tickwork.workflow.work import Work

if TYPE_CHECKING:
    from tickwork.workflow.steps import Steps

OnMap = Callable[[UUID, Work], None]
"""Called with the batch of a map, and what its items call."""


class Mapped(NamedTuple):
    """A map: the name of its step, what its items call, the items, and how many run at a time."""

    name: str
    work: Work
    items: Sequence[MapItem]
    concurrency: int


class Maps:
    """The maps of one execution of a body. `works` are what their items call, by the key of the
    step."""

    def __init__(self, steps: Steps, on_map: OnMap | None) -> None:
        self._steps, self._on_map = steps, on_map or _forget
        self.works: dict[str, Work] = {}

    def call(self, call: StepCall[list[Any]], known: RunStep | None, mapped: Mapped) -> None:
        """Goes on with a map that the body calls, as far as its record is."""
        steps, self.works[call.key] = self._steps, mapped.work
        if known is not None and known.state is StepState.FAILED:
            resolve_call(call, error=step_failed(known))
        elif known is not None and known.state is StepState.DONE:
            self._resolve(call, mapped)
        elif known is not None and not steps.is_stopping:
            self._go_on(call, mapped, known)
        elif not steps.is_stopping:
            steps.start(self._begin(call, mapped))

    async def _begin(self, call: StepCall[list[Any]], mapped: Mapped) -> None:
        step = self._steps.record.new(call.key, StepKind.MAP, StepState.WAITING)
        batch_id = map_batch_id(self._steps.record.run, call.key)
        output = msgspec.json.encode(MapRecord(batch_id, len(mapped.items)))
        step = structs.replace(step, output=output)
        self._on_map(batch_id, mapped.work)
        if not mapped.items:
            step = structs.replace(step, state=StepState.DONE, finished_at=step.started_at)
        await self._steps.write(
            step
        )  # Before its items are stored: a worker that lost the run stores none.
        if not mapped.items:
            self._steps.resolve(call, [])
        elif not self._steps.is_stopping:
            await self._fill(call, mapped, step)

    def _go_on(self, call: StepCall[list[Any]], mapped: Mapped, step: RunStep) -> None:
        loaded = self._steps.record.maps.get(call.key)
        if (record := read_map(step)) is not None:
            self._on_map(record.batch_id, mapped.work)
        if loaded is None or not loaded.is_filled:
            self._steps.start(self._fill(call, mapped, step))
        else:
            self._wait(call, mapped, step)

    async def _fill(self, call: StepCall[list[Any]], mapped: Mapped, step: RunStep) -> None:
        self._steps.at_boundary("start", call.key)
        try:
            await self._steps.record.fill_map(step, mapped.name, mapped.items, mapped.concurrency)
        except Conflict as error:  # The record has other items than this code.
            await self._fail(call, step, StepError("Conflict", str(error)))
            return
        self._steps.at_boundary("done", call.key)
        self._wait(call, mapped, step)

    def _wait(self, call: StepCall[list[Any]], mapped: Mapped, step: RunStep) -> None:
        async def go_on(_: RunEvent | None) -> None:
            await self._end(call, mapped, step)

        self._steps.waiting[call.key] = Waiting(call, None, None, go_on)

    def has_ended(self, key: str) -> bool:
        """Whether all items of the map with this key have ended."""
        loaded = self._steps.record.maps.get(key)
        return key in self.works and loaded is not None and loaded.children is not None

    async def _end(self, call: StepCall[list[Any]], mapped: Mapped, step: RunStep) -> None:
        """Records a map whose items have all ended."""
        children, record = self._steps.record.maps[call.key].children or {}, read_map(step)
        assert record is not None
        if (failed := first_failed(call.key, mapped.items, children)) is not None:
            await self._fail(call, step, await self._steps.record.child_error(*failed))
            return
        size = sum(len(each.result or b"") for each in children.values())
        done = structs.replace(
            step,
            state=StepState.DONE,
            output=msgspec.json.encode(structs.replace(record, bytes=size)),
            finished_at=self._steps.record.now(),
        )
        try:
            await self._steps.write(done)
        except Permanent as error:  # All results together are too large.
            await self._fail(call, step, StepError("TooLarge", str(error)))
        else:
            if not self._steps.is_stopping:
                self._resolve(call, mapped)

    async def _fail(self, call: StepCall[list[Any]], step: RunStep, error: StepError) -> None:
        failed = structs.replace(
            step,
            state=StepState.FAILED,
            error=msgspec.json.encode(error),
            finished_at=self._steps.record.now(),
        )
        await self._steps.write(failed)
        self._steps.resolve(call, error=step_failed(failed))

    def _resolve(self, call: StepCall[list[Any]], mapped: Mapped) -> None:
        """Gives the body the results of a map that is done."""
        loaded, function = self._steps.record.maps.get(call.key), mapped.work.function
        children = {} if loaded is None or loaded.children is None else loaded.children
        try:
            results = results_in_order(call.key, mapped.items, children, function)
        except KeyError as error:
            text = f"item {error.args[0]} is not in the record of the map"
            resolve_call(call, error=StepFailed(call.key, "Diverged", text))
        except Exception as error:  # The function declares another type than when it was recorded.
            resolve_call(call, error=StepFailed(call.key, type(error).__name__, str(error)))
        else:
            resolve_call(call, results)


def _forget(_batch_id: UUID, _work: Work) -> None:
    """Nobody asks for it."""
