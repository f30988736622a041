"""Messages, as people and consumers look at them. How they are sent, claimed and settled is in each
store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Protocol
from uuid import UUID

from tickwork.core.limits import (
    check_batch,
    check_limit,
    check_message,
    check_system,
    is_own_claim,
    lease_faults,
)
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.message.message_list import (
    LOOKED_AT_MAX,
    MessagePage,
    MessagePosition,
    MessageSelection,
    parts_after,
    position_of,
)
from tickwork.core.model import (
    FORMAT_VERSION,
    Claim,
    ClaimRequest,
    ContentType,
    Ending,
    Message,
    NewMessage,
    Scope,
    Settlement,
    SettleResult,
    State,
)
from tickwork.core.queue.rooms import Line
from tickwork.errors import InvalidInput, NotFound, StoreBroken
from tickwork.store.ids import own_tenant
from tickwork.store.message_contract import Joined
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.message_list import MessageReader
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import (
    NOW,
    Noun,
    Port,
    Row,
    Statement,
    Steps,
    changes_once,
    read_clock,
    reads,
    searches,
    writes,
)

_GET = Statement("get_message", Message)
_WAITING = Statement("waiting_message", queue_id=Kind.ID, id=Kind.ID)
_EXTEND = Statement("extend", id=Kind.ID)
_SUSPECTS = Statement("suspects", id=Kind.ID)
_WITH_READY = Statement("with_ready", id=Kind.ID)
_COUNT_AHEAD = Statement("count_ahead")
_COUNT_LINE = Statement("count_line")


class MessageSender(Protocol):
    """Stores messages."""

    async def send(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None: ...

    async def bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int: ...


class MessageClaimer(Protocol):
    """Claims messages."""

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]: ...


class MessageSettler(Protocol):
    """Settles messages."""

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult: ...

    async def settle_jointly(
        self, scope: Scope, settlement: Settlement, joined: Joined
    ) -> None: ...

    async def settle_unclaimed(self, scope: Scope, message: Message, ending: Ending) -> bool: ...


class Messages(Noun):
    """Messages of queues. What is written for each database is taken as it is."""

    def __init__(
        self,
        port: Port,
        paths: HotPaths,
        sender: MessageSender,
        claimer: MessageClaimer,
        settler: MessageSettler,
    ) -> None:
        super().__init__(port)
        self._paths = paths
        self._sender = sender
        self.send_bulk = sender.bulk
        self.claim = claimer.claim
        self.settle = settler.settle
        self.settle_jointly = settler.settle_jointly
        self.settle_unclaimed = settler.settle_unclaimed

    async def send(self, scope: Scope, queue: str, message: NewMessage) -> None:
        check_message(message)
        await self._sender.send(scope, queue, [message])

    async def send_batch(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        check_batch(messages)
        await self._sender.send(scope, queue, messages)

    async def notify(self, scope: Scope, event: NewMessage) -> int:
        check_message(event)
        try:
            return await self._notify(scope, event)
        except NotFound:  # A queue that subscribes was deleted meanwhile.
            return await self._notify(scope, event)

    @writes(repeatable=True)
    def _notify(self, scope: Scope, event: NewMessage) -> Steps[int]:
        return (yield from self._paths.publish_events({own_tenant(scope): [event]}))

    @reads
    def suspects(self, scope: Scope, queue_ids: Sequence[UUID]) -> Steps[frozenset[UUID]]:
        check_system(scope)
        rows = yield from _SUSPECTS.fetch_each([(id_,) for id_ in queue_ids], NOW)
        return frozenset(row["id"] for row in rows)

    @reads
    def with_ready(self, scope: Scope, queue_ids: Sequence[UUID]) -> Steps[frozenset[UUID]]:
        check_system(scope)
        rows = yield from _WITH_READY.fetch_each([(id_,) for id_ in queue_ids])
        return frozenset(row["id"] for row in rows)

    @writes(repeatable=True, is_single=True)
    def extend(self, scope: Scope, claim: Claim, lease_seconds: float) -> Steps[bool]:
        if faults := lease_faults(lease_seconds):
            raise InvalidInput(faults)
        if not is_own_claim(scope, claim):
            return False
        fence = (claim.tenant, claim.id, claim.number, claim.holder)
        return (yield from _EXTEND.fetch_row(NOW, *fence, lease_seconds)) is not None

    @reads
    def get(self, scope: Scope, queue: str | None, message_id: UUID) -> Steps[Message]:
        queue_id = None
        if queue is not None:
            queue_id = (yield from self._paths.queue(scope, queue)).id
        row = yield from _GET.fetch_row(queue_id, message_id, scope.tenant)
        if row is None:
            raise NotFound("message", message_id)
        return read_message(row)

    @searches
    def peek(self, scope: Scope, queue: str, limit: int) -> Steps[tuple[Message, ...]]:
        check_limit(limit)
        queue_id = (yield from self._paths.queue(scope, queue)).id
        rows = yield from self._paths.peek(queue_id, scope.tenant, limit)
        return read_messages(rows[:limit])

    @searches
    def list(
        self,
        scope: Scope,
        queue: str,
        selection: MessageSelection,
        limit: int,
        *,
        after: MessagePosition | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> Steps[MessagePage]:
        check_limit(limit)
        queue_id = (yield from self._paths.queue(scope, queue)).id
        now = yield from read_clock()
        reader = MessageReader(queue_id, own_tenant(scope), selection, now)
        parts = parts_after(selection, after, now)
        rows, end = yield from reader.read(parts, limit + 1, looked_at_max)
        messages = read_messages(rows[:limit])
        if len(rows) > limit:
            end = position_of(messages[-1], rows[limit - 1]["place"], selection)
        return MessagePage(messages, end)

    @reads
    def next_visible_at(self, scope: Scope, queue: str) -> Steps[datetime | None]:
        queue_id = (yield from self._paths.queue(scope, queue)).id
        return (yield from self._paths.next_visible_at(queue_id, scope.tenant))

    @reads
    def ahead(self, scope: Scope, queue: str, message: Message, at_most: int) -> Steps[int]:
        queue_id = (yield from self._paths.queue(scope, queue)).id
        values = (message.priority, NOW, message.visible_at, message.id, at_most)
        count: int = yield from _COUNT_AHEAD.fetch_value(queue_id, message.tenant, *values)
        return count

    @reads
    def line(self, scope: Scope, queue: str, message: Message, at_most: int) -> Steps[Line]:
        queue_id = (yield from self._paths.queue(scope, queue)).id
        values = (message.priority, NOW, message.visible_at, message.id, at_most)
        row = yield from _COUNT_LINE.fetch_row(queue_id, message.tenant, message.receiver, *values)
        assert row is not None
        return Line(row["ahead"], row["under_way"])

    @changes_once
    def delete(self, scope: Scope, queue: str, message_id: UUID) -> Steps[bool]:
        queue_id = (yield from self._paths.queue(scope, queue)).id
        rows = yield from _WAITING.fetch(queue_id, message_id, scope.tenant)
        return (yield from self._paths.remove(rows, REASON_DELETED)) > 0


def read_messages(rows: Iterable[Row]) -> tuple[Message, ...]:
    """Rows with the fields of `Message`; `StoreBroken` if a newer version of Tickwork wrote one."""
    return tuple(map(read_message, rows))


def read_message(row: Row) -> Message:
    if row["format"] > FORMAT_VERSION:
        raise StoreBroken(
            f"message {row['id']} has format {row['format']}: "
            "a newer version wrote it; update this installation"
        )
    fields = {name: row[name] for name in Message.__struct_fields__}
    fields["state"] = State(fields["state"])
    fields["content_type"] = ContentType(fields["content_type"])
    return Message(**fields)
