"""Batches and dead letters over HTTP: `client.batch(…)`, `client.batches` and
`client.dead_letters`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal

import msgspec

from tickwork.client.call import (
    Call,
    M,
    Noun,
    Pages,
    Pause,
    Plan,
    Repeat,
    Runner,
    answer,
    at,
    given,
    listed,
    part,
    verb,
)
from tickwork.client.exchange import encoded
from tickwork.client.queues import message_body
from tickwork.clock import monotonic
from tickwork.core.answers.batch import BatchAnswer, ItemAnswer
from tickwork.core.answers.dead_letter import DeadGroups, DeadLetter, Discarded, ReplaySummary
from tickwork.core.answers.ids import GivenId
from tickwork.core.message.batch import BatchStatus, ItemStatus
from tickwork.core.message.dead_letter import DeadGroup, MatchingDeadLetters
from tickwork.core.model import ContentType
from tickwork.core.options.message import GivenContentType
from tickwork.errors import FieldError, InvalidInput

PIECE_ITEMS_MAX = 5_000
"""Items of a batch that one request carries at most."""

PIECE_BYTES_MAX = 800_000
"""Bytes of items that one request carries at most; the server takes 1,000,000."""

WAIT_SECONDS_MIN = 0.05
WAIT_SECONDS_MAX = 1.0

CANARY_SECONDS = 30.0
"""Seconds that a replay waits for its canaries unless the caller says otherwise."""

Status = ItemStatus | Literal["pending", "processing", "completed", "failed"]


def make_batch(
    queue: str,
    items: Iterable[object],
    completion_queue: str | None,
    options: dict[str, Any],
) -> Plan[BatchAnswer]:
    """Creates a batch: in one request if it fits, else opened, filled in pieces and closed. If an
    item is refused, the batch is cancelled."""
    pieces = _pieces(items, options)
    first = next(pieces, [])
    second = next(pieces, None)
    fields = given(queue=queue, completion_queue=completion_queue)
    body = {**fields, "items": first, "open": second is not None}
    batch: BatchAnswer = yield Call(
        "POST", at("v1", "batches"), answer(BatchAnswer), body=body, repeat=Repeat.KEYED
    )
    if second is None:
        return batch
    sent = len(first)
    for piece in (second, *pieces):
        try:
            yield _added(batch.id, piece)
        except InvalidInput as error:
            yield _cancelled(batch.id)  # Nobody else could close it: its id is not known yet.
            raise InvalidInput(_shifted(error.errors, sent)) from None
        sent += len(piece)
    closed: BatchAnswer = yield _closed(batch.id)
    return closed


def _pieces(items: Iterable[object], options: dict[str, Any]) -> Iterator[list[msgspec.Raw]]:
    """The items in pieces that fit into a request."""
    source = iter(items)
    piece = list[msgspec.Raw]()
    size = 0
    while block := [*islice(source, 100)]:
        for body in block:
            item = msgspec.Raw(encoded(message_body(body, options)))
            length = len(bytes(item)) + 1
            if piece and (size + length > PIECE_BYTES_MAX or len(piece) >= PIECE_ITEMS_MAX):
                yield piece
                piece, size = [], 0
            piece.append(item)
            size += length
    if piece:
        yield piece


def _shifted(faults: Iterable[FieldError], by: int) -> list[FieldError]:
    """The faults of a piece, with the indexes that its items have in the whole batch."""

    def index(found: re.Match[str]) -> str:
        return f"items[{int(found[1]) + by}]"

    return [
        fault._replace(field=re.sub(r"^items\[(\d+)\]", index, fault.field)) for fault in faults
    ]


def _added(batch_id: GivenId, items: object) -> Call[BatchAnswer]:
    path, body = at("v1", "batches", batch_id, "items"), {"items": items}
    return Call("POST", path, answer(BatchAnswer), body=body, repeat=Repeat.KEYED)


def _closed(batch_id: GivenId) -> Call[BatchAnswer]:
    path = at("v1", "batches", batch_id, "close")
    return Call("POST", path, answer(BatchAnswer), repeat=Repeat.SAFE)


def _got(batch_id: GivenId) -> Call[BatchAnswer]:
    return Call("GET", at("v1", "batches", batch_id), answer(BatchAnswer))


def _items(batch_id: GivenId, status: Status, limit: int | None) -> Pages[ItemAnswer]:
    path = at("v1", "batches", batch_id, "items")
    return Pages(path, ItemAnswer, limit, {"status": str(status)})


def _cancelled(batch_id: GivenId) -> Call[BatchAnswer]:
    path = at("v1", "batches", batch_id, "cancel")
    return Call("POST", path, answer(BatchAnswer), repeat=Repeat.SAFE)


class Batch(Noun[M]):
    """A batch that was created, with its progress."""

    def __init__(self, runner: Runner, batch_id: GivenId) -> None:
        super().__init__(runner)
        self.id = batch_id

    def __repr__(self) -> str:
        return f"Batch({self.id!r})"

    @verb
    def progress(self) -> Call[BatchAnswer]:
        """The batch with the exact number of items in each status."""
        return _got(self.id)

    @listed
    def items(self, status: Status, *, limit: int | None = None) -> Pages[ItemAnswer]:
        """The items that have a status, such as `"failed"`."""
        return _items(self.id, status, limit)

    @verb
    def wait(self, timeout_seconds: float | None = None) -> Plan[BatchAnswer]:
        """Waits until every item has completed or failed. Raises `TimeoutError` after
        `timeout_seconds`."""
        pause, started = WAIT_SECONDS_MIN, monotonic()
        while True:
            found: BatchAnswer = yield _got(self.id)
            if found.status is BatchStatus.COMPLETED:
                return found
            if timeout_seconds is not None and monotonic() - started > timeout_seconds:
                ended = found.completed + found.failed
                raise TimeoutError(
                    f"batch {self.id}: {ended} of {found.total} items completed or failed "
                    f"within {timeout_seconds:g} s"
                )
            yield Pause(pause)
            pause = min(pause * 2, WAIT_SECONDS_MAX)

    @verb
    def cancel(self) -> Call[BatchAnswer]:
        """Deletes the items that no worker has claimed; they count as failed."""
        return _cancelled(self.id)


class Batches(Noun[M]):
    """Batches by their id. `client.batch` creates one."""

    @verb
    def get(self, batch_id: GivenId) -> Call[BatchAnswer]:
        """A batch with its exact counts. Raises `NotFound`."""
        return _got(batch_id)

    @listed
    def list(self, *, limit: int | None = None) -> Pages[BatchAnswer]:
        """Batches, newest first."""
        return Pages(at("v1", "batches"), BatchAnswer, limit)

    @listed
    def items(
        self, batch_id: GivenId, status: Status, *, limit: int | None = None
    ) -> Pages[ItemAnswer]:
        """The items of a batch that have a status: pending, processing, completed or failed."""
        return _items(batch_id, status, limit)

    @verb
    def open(
        self, queue: str, items: Sequence[object] = (), *, completion_queue: str | None = None
    ) -> Call[BatchAnswer]:
        """Creates a batch that takes more items until it is closed."""
        fields = given(queue=queue, completion_queue=completion_queue)
        body = {**fields, "items": [message_body(item, {}) for item in items], "open": True}
        path = at("v1", "batches")
        return Call("POST", path, answer(BatchAnswer), body=body, repeat=Repeat.KEYED)

    @verb
    def add(self, batch_id: GivenId, items: Sequence[object]) -> Call[BatchAnswer]:
        """Adds items to an open batch, all or none."""
        return _added(batch_id, [message_body(item, {}) for item in items])

    @verb
    def close(self, batch_id: GivenId) -> Call[BatchAnswer]:
        """Closes an open batch: it completes with the items that it has."""
        return _closed(batch_id)

    @verb
    def cancel(self, batch_id: GivenId) -> Call[BatchAnswer]:
        """Deletes the items that no worker has claimed; they count as failed."""
        return _cancelled(batch_id)


class DeadLetters(Noun[M]):
    """The dead letters of a queue: look, edit, replay, discard."""

    @listed
    def list(
        self,
        queue: str | None = None,
        *,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
        limit: int | None = None,
    ) -> Pages[DeadLetter]:
        """Open dead letters of a queue, oldest first; without a queue those of all queues, newest
        first. `no_type` selects those without a type."""
        asked = {
            "reason": reason,
            "fingerprint": fingerprint,
            "type": type,
            "no_type": no_type or None,
            "failed_before": failed_before,
        }
        where = at("v1", "dead") if queue is None else at("v1", "queues", queue, "dead")
        return Pages(where, DeadLetter, limit, asked)

    @verb
    def groups(self, queue: str, *, limit: int = 100) -> Call[tuple[DeadGroup, ...]]:
        """Open dead letters grouped by reason, error and type; the largest group first."""
        groups = part(DeadGroups, lambda found: found.groups)
        return Call(
            "GET", at("v1", "queues", queue, "dead", "groups"), groups, query=given(limit=limit)
        )

    @verb
    def count(
        self,
        queue: str,
        *,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
    ) -> Call[MatchingDeadLetters]:
        """The number of open dead letters that match, and the time of the count. A replay or
        discard with this `failed_before` takes none that failed later."""
        asked = given(
            reason=reason,
            fingerprint=fingerprint,
            type=type,
            no_type=no_type or None,
            failed_before=failed_before,
        )
        path = at("v1", "queues", queue, "dead", "count")
        return Call("GET", path, answer(MatchingDeadLetters), query=asked)

    @verb
    def get(self, dead_letter_id: GivenId) -> Call[DeadLetter]:
        """One dead letter, open or resolved. Raises `NotFound`."""
        return Call("GET", at("v1", "dead", dead_letter_id), answer(DeadLetter))

    @verb
    def edit(
        self,
        dead_letter_id: GivenId,
        body: Any,
        *,
        content_type: GivenContentType = ContentType.JSON,
    ) -> Call[DeadLetter]:
        """Replaces the body of an open dead letter; a replay sends the new one."""
        return Call(
            "PATCH",
            at("v1", "dead", dead_letter_id),
            answer(DeadLetter),
            body={"body": body, "content_type": content_type},
            repeat=Repeat.SAFE,
        )

    @verb
    def replay(
        self,
        queue: str,
        *,
        ids: Sequence[GivenId] | None = None,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
        limit: int | None = None,
        canary: int = 0,
        rate_per_second: float | None = None,
        canary_timeout_seconds: float = CANARY_SECONDS,
    ) -> Call[ReplaySummary]:
        """Sends dead letters again as new messages, oldest first.

        With `canary` that many go first, and the rest only if all of them were handled: a consumer
        must be running. With `rate_per_second` that many become visible in a second. An answer that
        is lost is an error: look at the dead letters before you replay again.
        """
        fields = given(
            ids=ids,
            reason=reason,
            fingerprint=fingerprint,
            type=type,
            no_type=no_type or None,
            failed_before=failed_before,
            limit=limit,
            rate_per_second=rate_per_second,
        )
        waits = {"canary": canary, "canary_timeout_seconds": canary_timeout_seconds}
        return Call(
            "POST",
            at("v1", "queues", queue, "dead", "replay"),
            answer(ReplaySummary),
            body={**fields, **(waits if canary else {})},
            wait_seconds=canary_timeout_seconds if canary else 0.0,
        )

    @verb
    def replay_one(self, dead_letter_id: GivenId) -> Call[DeadLetter]:
        """Sends one dead letter again, as a new message; returns it as it is then."""
        return Call("POST", at("v1", "dead", dead_letter_id, "replay"), answer(DeadLetter))

    @verb
    def discard(
        self,
        queue: str,
        *,
        ids: Sequence[GivenId] | None = None,
        reason: str | None = None,
        fingerprint: str | None = None,
        type: str | None = None,  # noqa: A002  the name of the field
        no_type: bool = False,
        failed_before: datetime | str | None = None,
        limit: int | None = None,
    ) -> Call[int]:
        """Marks dead letters as discarded, oldest first, and returns how many."""
        fields = given(
            ids=ids,
            reason=reason,
            fingerprint=fingerprint,
            type=type,
            no_type=no_type or None,
            failed_before=failed_before,
            limit=limit,
        )
        discarded = part(Discarded, lambda done: done.discarded)
        path = at("v1", "queues", queue, "dead", "discard")
        return Call("POST", path, discarded, body=fields)

    @verb
    def discard_one(self, dead_letter_id: GivenId) -> Call[DeadLetter]:
        """Marks one dead letter as discarded; returns it as it is then."""
        return Call("POST", at("v1", "dead", dead_letter_id, "discard"), answer(DeadLetter))
