"""The record of a run while a worker has it: its steps and events, and how more are written.

Every write is fenced by the worker's claim on the run's message. `ClaimLost` is raised if another
worker has the run, or somebody has ended or restarted it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from msgspec import structs

from tickwork.app.invocation import NOTHING_MADE, Made, Written
from tickwork.app.message import Permanent
from tickwork.core.message.decide import with_effects
from tickwork.core.model import SYSTEM, Ending, Fate, Message, Scope, Settlement
from tickwork.core.workflow.children import (
    MapItem,
    child_messages,
    map_batch,
    output_bytes,
    read_map,
)
from tickwork.core.workflow.model import (
    RUN_BYTES_MAX,
    Checkpoint,
    Run,
    RunEnd,
    RunEvent,
    RunHistory,
    RunResult,
    RunStep,
    StepError,
    StepKind,
    StepState,
)
from tickwork.errors import ClaimLost, EventDone, StoreUnavailable
from tickwork.store.contract import Store
from tickwork.workflow.maps import LoadedMap, child_error, load_map

STORE_ATTEMPTS_MAX = 5

UNKNOWN_SIGNALS = -1
"""No run has had so many signals."""

STORE_PAUSE_SECONDS = 0.5
"""Seconds between two attempts to record a step while the database does not answer; doubled each
time."""


class RunRecord:
    """What is known of a run. `monotonic` is the worker's clock."""

    def __init__(
        self, store: Store, message: Message, history: RunHistory, monotonic: Callable[[], float]
    ) -> None:
        self._store, self._message = store, message
        self._claim = message.current_claim
        self._read(history, monotonic)

    def _read(self, history: RunHistory, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.run: Run = history.run
        self.steps = {step.key: step for step in history.steps}
        self._events: list[RunEvent] = []
        self._newest_event = 0
        self._add_events(history)
        # What is recorded has happened, whatever the clock of this database says.
        times = (step.finished_at or step.started_at for step in history.steps)
        self._read_at = max(history.now, max(times, default=history.now))
        self._read_monotonic = monotonic()
        self._position = max((step.position for step in history.steps), default=0)
        self.number = max((step.ended or 0 for step in history.steps), default=0)
        self.skipped: set[int] = set()
        self._bytes = sum(map(output_bytes, history.steps))
        self.maps: dict[str, LoadedMap] = {}

    @property
    def scope(self) -> Scope:
        """The tenant of the run."""
        return Scope(self.run.tenant)

    def now(self) -> datetime:
        """The database's time, as far as it is known here."""
        return self._read_at + timedelta(0, self._monotonic() - self._read_monotonic)

    @property
    def has_message(self) -> bool:
        """Whether the claimed message stands for the run, and the run has not ended."""
        return self.run.message_id == self._claim.id and not self.run.status.is_final

    def is_past_deadline(self) -> bool:
        """Whether the run should have ended by now."""
        deadline = self.run.deadline_at
        return deadline is not None and deadline <= self.now()

    def seconds_left(self, deadline: datetime) -> float:
        """Seconds until the deadline of the run."""
        return max((deadline - self.now()).total_seconds(), 0.001)

    def take_event(self, type_: str | None) -> RunEvent | None:
        """The first event of a type that no step has."""
        for index, event in enumerate(self._events):
            if event.type == type_:
                return self._events.pop(index)
        return None

    def new(
        self,
        key: str,
        kind: StepKind,
        state: StepState,
        called: str | None = None,
        args: bytes | None = None,
    ) -> RunStep:
        """A step that starts now, after all others."""
        self._position += 1
        return RunStep(
            key=key,
            position=self._position,
            kind=kind,
            state=state,
            started_at=self.now(),
            called=called,
            args=args,
        )

    def take_number(self) -> int:
        """The number of the next result that the body gets."""
        self.number += 1
        return self.number

    async def write(
        self,
        step: RunStep,
        *,
        event: int | None = None,
        made: Made = NOTHING_MADE,
        rows: Written | None = None,
    ) -> int:
        """Records a step, with the event that it consumes, and what it sends and writes. Returns
        the number of its result, or 0 if it has not ended."""
        size = output_bytes(step)
        if self._bytes + size > RUN_BYTES_MAX:
            self.skipped.add(step.ended or 0)
            text = f"step {step.key!r}: the results of a run have at most {RUN_BYTES_MAX} bytes"
            raise Permanent(text)
        self._bytes += size  # Before it is written: steps that end together count each other.
        if step.ended is None and step.state.is_final and step.kind is not StepKind.PATCH:
            step = structs.replace(step, ended=self.take_number())
        checkpoint, signals = Checkpoint(self.run.uid, step, event), None
        try:
            try:
                signals = await self._write(checkpoint, made, rows)
            except StoreUnavailable:
                signals = await self._write_again(checkpoint, made, rows)
            if signals is None:
                raise ClaimLost([self._claim.id])
        finally:
            if signals is None:
                self._bytes -= size
                self.skipped.add(step.ended or 0)
        self.steps[step.key] = step
        if signals != self.run.signals:
            await self.refresh()
        return step.ended or 0

    async def _write_again(
        self, checkpoint: Checkpoint, made: Made, rows: Written | None
    ) -> int | None:
        """Records a step while the database does not answer well; as `_write`."""
        for attempt in range(2, STORE_ATTEMPTS_MAX + 1):
            await asyncio.sleep(STORE_PAUSE_SECONDS * 2 ** (attempt - 2))
            try:
                return await self._write(checkpoint, made, rows)
            except StoreUnavailable:
                if attempt == STORE_ATTEMPTS_MAX:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _write(
        self, checkpoint: Checkpoint, made: Made, rows: Written | None
    ) -> Coroutine[Any, Any, int | None]:
        """The signals of the run; None if the claim is lost."""
        if made or rows is not None:
            return self._write_with_effects(checkpoint, made, rows)
        return self._store.workflows.checkpoint(SYSTEM, self._claim, checkpoint)

    async def _write_with_effects(
        self, checkpoint: Checkpoint, made: Made, rows: Written | None
    ) -> int | None:
        ending = Ending(claim=self._claim, fate=Fate.KEEP, effects=(checkpoint,))
        settlement = Settlement((with_effects(self._message, ending, *made),))
        if rows is not None:
            with suppress(EventDone):  # It is recorded, and the answer was lost.
                await self._store.messages.settle_jointly(SYSTEM, settlement, rows.joined)
        elif (await self._store.messages.settle(SYSTEM, settlement)).refused:
            return None
        return UNKNOWN_SIGNALS

    async def refresh(self) -> None:
        """Reads what happened to the run from outside."""
        history = await self._store.workflows.history(self.scope, self.run.id, with_steps=False)
        self.run = history.run
        self._add_events(history)
        if not self.has_message:
            raise ClaimLost([self._claim.id])
        await self.load_maps()

    def _add_events(self, history: RunHistory) -> None:
        """Adds the events that are new here. Steps that refresh at the same time read the same, and
        an event that a step has taken may not be recorded yet."""
        new = [event for event in history.events if event.number > self._newest_event]
        self._events += [event for event in new if event.consumed_by is None]
        self._newest_event = max((event.number for event in new), default=self._newest_event)

    async def load_maps(self) -> None:
        """Reads how far the maps of the run are."""
        for step in [*self.steps.values()]:  # Others may be recorded meanwhile.
            loaded = self.maps.get(step.key)
            if step.state is StepState.FAILED or (loaded and loaded.has_ended):
                continue
            if (record := read_map(step)) is not None:
                self.maps[step.key] = await load_map(self._store, self.scope, step, record)

    async def fill_map(
        self, step: RunStep, name: str, items: Sequence[MapItem], concurrency: int
    ) -> None:
        """Stores the children of a map, those that are not stored yet. `Conflict` if others are."""
        record, run = read_map(step), self.run
        assert record is not None
        messages = child_messages(self._message, run, record, step.key, name, items, concurrency)
        await self._store.batches.create(self.scope, map_batch(run, record), messages)

    async def child_error(self, label: str, child: RunResult | None) -> StepError:
        """Why an item of a map failed."""
        return await child_error(self._store, self.scope, label, child)

    async def converge(self) -> None:
        """Notes that the code agrees with the record again."""
        if not await self._store.workflows.diverge(SYSTEM, self._claim, self.run.uid, None):
            raise ClaimLost([self._claim.id])
        self.run = structs.replace(self.run, diverged_at=None, divergence=None)

    async def continue_as(self, params: bytes) -> None:
        """Gives the run new params, and an empty record."""
        end = RunEnd(uid=self.run.uid, params=params)
        if not await self._store.workflows.end(SYSTEM, self._claim, end):
            raise ClaimLost([self._claim.id])
