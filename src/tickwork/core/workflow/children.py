"""The items of a map: children of a run, which a batch counts.

A child is a run with one step. Its message holds the item, and is an item of the batch of its map.
Messages with one key run one at a time, so the keys of the messages limit how many children run at
a time. When all have ended, the completion event of the batch wakes the parent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

import msgspec
from msgspec import Struct

from tickwork.core.message.batch import NewBatch
from tickwork.core.message.decide import caused_by
from tickwork.core.model import Message, NewMessage
from tickwork.core.stable_hash import derived_id
from tickwork.core.workflow.model import Run, RunStep, StepKind
from tickwork.core.workflow.queue import runs_queue


class MapItem(NamedTuple):
    """An item of a map: its key, and the item as JSON."""

    key: str
    item: bytes


class MapBatch(Struct, frozen=True):
    """A batch of items of a map."""

    batch_id: UUID
    items: int


class MapRecord(Struct, frozen=True):
    """The output of the step of a map: its batch and number of items; and the bytes of their
    results when it is done. If the map was tried again, `earlier` are its other batches: the last
    one has only the items that had failed."""

    batch_id: UUID
    items: int
    bytes: int = 0
    earlier: tuple[MapBatch, ...] = ()

    def batches(self) -> tuple[MapBatch, ...]:
        """All batches of the map, the last one last."""
        return (*self.earlier, MapBatch(self.batch_id, self.items))


class ChildCall(Struct, frozen=True):
    """The body of the message of a child: its parent, the key and name of the step, the number and
    key of the item, and the item. `round` counts how often its map was tried again."""

    run_id: str
    batch_id: UUID
    step: str
    name: str
    number: int
    key: str
    item: msgspec.Raw
    round: int = 0

    @property
    def label(self) -> str:
        """The name of the child in its parent."""
        return child_label(self.step, self.key)


def child_label(step: str, key: str) -> str:
    """The name of an item of a map."""
    return f"{step}[{key}]"


def map_batch_id(run: Run, step: str, round_: int = 0) -> UUID:
    """The id of the batch of a map; another one after a restart of the run, and when the map is
    tried again."""
    tried = f" {round_}" if round_ else ""
    return derived_id(run.uid, f"map {run.generation} {step}{tried}")


def child_uid(batch_id: UUID, number: int) -> UUID:
    """The uid of a child."""
    return derived_id(batch_id, f"child {number}")


def map_batch(run: Run, record: MapRecord) -> NewBatch:
    """The batch that counts the items of a map."""
    queue = runs_queue(run.workflow, run.version)
    return NewBatch(id=record.batch_id, queue=queue, completion_queue=queue, run_id=run.id)


def child_messages(
    parent: Message,
    run: Run,
    record: MapRecord,
    step: str,
    name: str,
    items: Sequence[MapItem],
    concurrency: int,
) -> Iterator[NewMessage]:
    """The messages of the children of a map. Those with one key come one after the other."""
    batch_id = record.batch_id
    for number, (key, item) in enumerate(items):
        call = ChildCall(
            run.id, batch_id, step, name, number, key, msgspec.Raw(item), len(record.earlier)
        )
        new = NewMessage(
            id=derived_id(child_uid(batch_id, number), "message"),
            body=msgspec.json.encode(call),
            key=None if concurrency >= len(items) else f"{batch_id}/{number % concurrency}",
            correlation_id=run.correlation_id,
        )
        yield caused_by(parent, new)


def read_map(step: RunStep) -> MapRecord | None:
    """The record of a map; None for another step, and for a map without items."""
    if step.kind is not StepKind.MAP or step.output is None:
        return None
    return msgspec.json.decode(step.output, type=MapRecord)


def output_bytes(step: RunStep) -> int:
    """The bytes of the results of a step."""
    record = read_map(step)
    return len(step.output or b"") + (0 if record is None else record.bytes)
