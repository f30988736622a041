"""The maps of a run, on both sides: a parent fills a batch and collects results, and a child finds
the function that it calls.

A function cannot be stored. The node that ran the parent knows it; another one replays the body of
the parent up to the map, without running a step, and remembers it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
from msgspec import structs

from tickwork.app.workflows import WorkflowDeclaration, item_payload, result_payload
from tickwork.core.message.batch import BatchStatus
from tickwork.core.model import ContentType, Scope
from tickwork.core.workflow.children import (
    ChildCall,
    MapBatch,
    MapItem,
    MapRecord,
    child_label,
    child_uid,
)
from tickwork.core.workflow.model import RunResult, RunStatus, RunStep, StepError, StepState
from tickwork.errors import NotFound
from tickwork.store.contract import Store
from tickwork.workflow.step import Step
from tickwork.workflow.work import Work

RESULTS_READ = 1_000
"""Number of results of children that are read at once."""

FUNCTIONS_KNOWN_MAX = 256
"""Maximum number of maps whose functions a node remembers."""


class LoadedMap(NamedTuple):
    """What is stored for a map: whether its batch is there in full, whether all its items have
    ended, and the results of those that have by their name. While a map is tried again, those of
    its earlier batches."""

    is_filled: bool
    has_ended: bool
    children: dict[str, RunResult]


async def load_map(store: Store, scope: Scope, step: RunStep, record: MapRecord) -> LoadedMap:
    """Reads how far a map is."""
    is_filled, has_ended = True, True
    if step.state is not StepState.DONE:
        try:
            batch = await store.batches.get(scope, record.batch_id)
        except NotFound:
            is_filled = has_ended = False
        else:
            is_filled = batch.status is not BatchStatus.FILLING
            has_ended = batch.status is BatchStatus.COMPLETED
    batches = record.batches() if has_ended else record.earlier
    return LoadedMap(is_filled, has_ended, await _load_children(store, scope, batches))


async def _load_children(
    store: Store, scope: Scope, batches: Sequence[MapBatch]
) -> dict[str, RunResult]:
    uids = [child_uid(batch.batch_id, number) for batch in batches for number in range(batch.items)]
    children: dict[str, RunResult] = {}
    for at in range(0, len(uids), RESULTS_READ):
        for child in await store.workflows.results(scope, uids[at : at + RESULTS_READ]):
            label = str(child.parent_step)
            # An item that was tried again has two runs; at most one has completed.
            if label not in children or child.status is RunStatus.COMPLETED:
                children[label] = child
    return children


def results_in_order(
    step: str, items: Sequence[MapItem], children: dict[str, RunResult], function: Any
) -> list[Any]:
    """The results of the items of a map that has succeeded."""
    payload = result_payload(function)
    found = [children[child_label(step, item.key)] for item in items]
    return [payload.decode(child.result or b"null", ContentType.JSON) for child in found]


def failed_items(
    step: str, items: Sequence[MapItem], children: dict[str, RunResult]
) -> list[MapItem]:
    """The items that did not complete."""
    failed = []
    for item in items:
        child = children.get(child_label(step, item.key))
        if child is None or child.status is not RunStatus.COMPLETED:
            failed.append(item)
    return failed


async def child_error(store: Store, scope: Scope, label: str, child: RunResult | None) -> StepError:
    """Why an item failed, as data."""
    if child is None:
        return StepError("ItemLost", "it was purged or cancelled before it ran", step=label)
    history = await store.workflows.history(scope, child.id)
    for step in history.steps:
        if step.state is StepState.FAILED and step.error is not None:
            error = msgspec.json.decode(step.error, type=StepError)
            return structs.replace(error, step=label)
    return StepError("ItemFailed", f"it {child.status}: {child.error}", step=label)


class MapFunctions:
    """The functions of maps that this node knows, those used last."""

    def __init__(self) -> None:
        self._known: OrderedDict[UUID, Work] = OrderedDict()

    def note(self, batch_id: UUID, work: Work) -> None:
        """Remembers what the items of a map call."""
        self._known[batch_id] = work
        self._known.move_to_end(batch_id)
        if len(self._known) > FUNCTIONS_KNOWN_MAX:
            self._known.popitem(last=False)

    def get(self, batch_id: UUID) -> Work | None:
        """What the items of a map call."""
        return self._known.get(batch_id)


def child_declaration(
    declared: WorkflowDeclaration, call: ChildCall, work: Work
) -> WorkflowDeclaration:
    """The body of a child: one step, which calls the function of its map with its item."""

    async def call_function(step: Step, item: Any) -> Any:
        return await step.do(
            call.name,
            work.function,
            item,
            retries=work.retries,
            timeout_seconds=work.timeout_seconds,
            key=call.key,
        )

    return structs.replace(
        declared,
        function=call_function,
        params=item_payload(work.function),
        result=result_payload(work.function),
        takes_params=True,
    )
