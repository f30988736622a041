"""The maps that a body calls: their children are stored, waited for, and collected."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.app.message import Permanent
from tickwork.core.workflow.children import (
    MapItem,
    MapRecord,
    child_label,
    map_batch_id,
    read_map,
)
from tickwork.core.workflow.model import (
    RunEvent,
    RunResult,
    RunStep,
    StepError,
    StepKind,
    StepState,
)
from tickwork.errors import Conflict
from tickwork.workflow.call import StepCall, Unfit, resolve_call, step_failed
from tickwork.workflow.maps import failed_items, results_in_order
from tickwork.workflow.work import Work

if TYPE_CHECKING:
    from tickwork.workflow.steps import Steps

OnMap = Callable[[UUID, Work], None]
"""Called with the batch of a map, and what its items call."""


class Mapped(NamedTuple):
    """A map: the name of its step, what its record names as called, what its items call, the items,
    and how many run at a time."""

    name: str
    called: str
    work: Work
    items: Sequence[MapItem]
    concurrency: int


class Maps:
    """The maps of one execution of a body. `works` are what their items call, by the key of the
    step."""

    def __init__(self, steps: Steps, on_map: OnMap | None) -> None:
        self._steps, self._on_map = steps, on_map or _forget
        self.works: dict[str, Work] = {}

    def begin(self, call: StepCall[list[Any]], mapped: Mapped, known: RunStep | None) -> None:
        """Goes on with a map that has not ended, as far as its record is."""
        if known is None:
            self._steps.start(self._begin(call, mapped))
        elif known.state is StepState.RETRYING:
            self._steps.start(self._begin_again(call, mapped, known))
        else:
            self._go_on(call, mapped, known)

    async def _begin(self, call: StepCall[list[Any]], mapped: Mapped) -> None:
        record = self._steps.record
        step = record.new(call.key, StepKind.MAP, StepState.WAITING, mapped.called)
        batch_id = map_batch_id(record.run, call.key)
        output = msgspec.json.encode(MapRecord(batch_id, len(mapped.items)))
        step = structs.replace(step, output=output)
        self._on_map(batch_id, mapped.work)
        if not mapped.items:
            step = structs.replace(step, state=StepState.DONE, finished_at=step.started_at)
        # Before its items are stored: a worker that lost the run stores none.
        number = await self._steps.write(step)
        if not mapped.items:
            self._steps.arrive(number, call, [])
        elif not self._steps.is_stopping:
            await self._fill(call, mapped, step, mapped.items)

    async def _begin_again(self, call: StepCall[list[Any]], mapped: Mapped, known: RunStep) -> None:
        """Stores the items that have failed once more."""
        record, run = read_map(known), self._steps.record.run
        assert record is not None
        children = self._children(call.key)
        failed = failed_items(call.key, mapped.items, children)
        batch_id = map_batch_id(run, call.key, len(record.batches()))
        again = MapRecord(batch_id, len(failed), earlier=record.batches())
        output = msgspec.json.encode(again)
        step = structs.replace(known, state=StepState.WAITING, output=output, wake_at=None)
        self._on_map(batch_id, mapped.work)
        self._steps.record.maps.pop(call.key, None)
        await self._steps.write(step)
        if not self._steps.is_stopping:
            await self._fill(call, mapped, step, failed)

    def _children(self, key: str) -> dict[str, RunResult]:
        loaded = self._steps.record.maps.get(key)
        return {} if loaded is None else loaded.children

    def _go_on(self, call: StepCall[list[Any]], mapped: Mapped, step: RunStep) -> None:
        loaded = self._steps.record.maps.get(call.key)
        if (record := read_map(step)) is not None:
            self._on_map(record.batch_id, mapped.work)
        if loaded is not None and loaded.is_filled:
            self._wait(call, mapped, step)
            return
        items = mapped.items
        if record is not None and record.earlier:  # It is tried again, with those that had failed.
            items = failed_items(call.key, items, self._children(call.key))
        self._steps.start(self._fill(call, mapped, step, items))

    async def _fill(
        self,
        call: StepCall[list[Any]],
        mapped: Mapped,
        step: RunStep,
        items: Sequence[MapItem],
    ) -> None:
        self._steps.at_boundary("start", call.key)
        try:
            await self._steps.record.fill_map(step, mapped.name, items, mapped.concurrency)
        except Conflict as error:  # The record has other items than this code.
            await self._steps.fail(call, step, StepError("Conflict", str(error)))
            return
        self._steps.at_boundary("done", call.key)
        self._wait(call, mapped, step)

    def _wait(self, call: StepCall[list[Any]], mapped: Mapped, step: RunStep) -> None:
        def go_on(_: RunEvent | None) -> None:
            self._steps.start(self._end(call, mapped, step))

        self._steps.wait(call, go_on)

    def has_ended(self, key: str) -> bool:
        """Whether all items of the map with this key have ended."""
        loaded = self._steps.record.maps.get(key)
        return key in self.works and loaded is not None and loaded.has_ended

    async def _end(self, call: StepCall[list[Any]], mapped: Mapped, step: RunStep) -> None:
        """Records a map whose items have all ended."""
        children, record = self._children(call.key), read_map(step)
        assert record is not None
        if failed := failed_items(call.key, mapped.items, children):
            label = child_label(call.key, failed[0].key)
            error = await self._steps.record.child_error(label, children.get(label))
            await self._steps.fail(call, step, error)
            return
        size = sum(len(child.result or b"") for child in children.values())
        done = structs.replace(
            step,
            state=StepState.DONE,
            output=msgspec.json.encode(structs.replace(record, bytes=size)),
            finished_at=self._steps.record.now(),
        )
        try:
            number = await self._steps.write(done)
        except Permanent as error:  # All results together are too large.
            await self._steps.fail(call, step, StepError("TooLarge", str(error)))
        else:
            self._steps.arrive(number, call, self._results(call, mapped))

    def resolve(self, call: StepCall[list[Any]], mapped: Mapped, known: RunStep) -> None:
        """Gives the body the recorded result of a map. Raises `Unfit`."""
        if known.state is StepState.FAILED:
            resolve_call(call, error=step_failed(known))
        else:
            resolve_call(call, self._results(call, mapped))

    def _results(self, call: StepCall[list[Any]], mapped: Mapped) -> list[Any]:
        """The results of a map that is done."""
        children, function = self._children(call.key), mapped.work.function
        try:
            return results_in_order(call.key, mapped.items, children, function)
        except KeyError as error:
            text = f"item {error.args[0]} is not in the record of the map"
            raise Unfit(call.key, LookupError(text)) from None
        except Exception as error:  # A type of the app may raise anything.
            raise Unfit(call.key, error) from None


def _forget(_batch_id: UUID, _work: Work) -> None:
    """Nobody asks for it."""
