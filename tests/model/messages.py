"""Messages in the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from inspect import isawaitable
from uuid import UUID

from tests.model.batches import MemoryBatches
from tests.model.claim import Claiming
from tests.model.removal import Departures
from tests.model.send import Arrivals
from tests.model.state import Now, Row, Tables, own_tenant
from tickwork.core.limits import (
    check_batch,
    check_claim,
    check_limit,
    check_message,
    check_settlement,
    check_system,
    lease_faults,
)
from tickwork.core.message.batch import REASON_DELETED
from tickwork.core.message.message_list import (
    LOOKED_AT_MAX,
    ListOrder,
    MessagePage,
    MessagePosition,
    MessageSelection,
)
from tickwork.core.message.progress import check_progress
from tickwork.core.model import (
    FORMAT_VERSION,
    Claim,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    NewMessage,
    Scope,
    Settlement,
    SettleResult,
    State,
)
from tickwork.core.schedule.firing import FiringResult
from tickwork.errors import ClaimLost, EventDone, InvalidInput, NotFound, StoreBroken
from tickwork.store.message_contract import Joined


class MemoryProgress:
    """Rows of claimed messages by work key and name."""

    def __init__(self, tables: Tables, now: Now, messages: MemoryMessages) -> None:
        self._tables, self._now, self._messages = tables, now, messages

    async def record(self, scope: Scope, claim: Claim, work: str, rows: Mapping[str, str]) -> bool:
        check_progress(work, rows)
        if self._messages.held(scope, claim) is None:
            return False
        for name, value in rows.items():
            self._tables.progress[claim.tenant, work, name] = (value, self._now())
        return True

    async def get(self, scope: Scope, work: str) -> dict[str, str]:
        found = self._tables.progress.items()
        return {
            name: value
            for (tenant, of, name), (value, _) in found
            if (tenant, of) == (own_tenant(scope), work)
        }


class MemoryMessages:
    """Messages: send, claim, settle, read and delete."""

    def __init__(
        self,
        tables: Tables,
        now: Now,
        arrivals: Arrivals,
        departures: Departures,
        batches: MemoryBatches,
    ) -> None:
        self._tables, self._now = tables, now
        self._arrivals, self._departures, self._batches = arrivals, departures, batches
        self._claiming = Claiming(tables, now, departures)

    async def send(self, scope: Scope, queue: str, message: NewMessage) -> None:
        check_message(message)
        self._send(scope, queue, [message])

    async def send_batch(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        check_batch(messages)
        if messages:
            self._send(scope, queue, messages)

    async def send_bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        pieces = list(messages)
        for message in pieces:
            check_message(message)
        self._send(scope, queue, pieces)
        return len(pieces)

    async def notify(self, scope: Scope, event: NewMessage) -> int:
        check_message(event)
        with self._tables.transaction():
            return self._arrivals.announce(scope.tenant or "default", None, event)

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        check_claim(request)
        with self._tables.transaction():
            return tuple(self._claiming.claim(scope, request))

    async def suspects(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        check_system(scope)
        return frozenset(id_ for id_ in queue_ids if self._claiming.has_suspects(id_))

    async def with_ready(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        check_system(scope)
        return frozenset(
            row.message.queue_id
            for row in self._tables.messages.values()
            if row.message.state is State.READY and row.message.queue_id in queue_ids
        )

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        with self._tables.transaction(), self._departures.completing_later():
            return self._carry_out(scope, settlement)

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        with self._tables.transaction():
            with self._departures.completing_later():
                result = self._carry_out(scope, settlement)
            if result.refused:
                raise ClaimLost(held.id for held in result.refused)
            if result.duplicates:
                raise EventDone(held.id for held in result.duplicates)
            wanted = joined(self._tables.callers_own)
            if isawaitable(wanted):
                await wanted

    async def settle_unclaimed(self, scope: Scope, message: Message, ending: Ending) -> bool:
        claim = ending.claim
        row = self._tables.messages.get((message.tenant, message.id))
        if row is None or not (scope.is_system or scope.tenant == claim.tenant):
            return False
        found = row.message
        if found.state is not State.READY or found.claim + 1 != claim.number:
            return False
        taken = row.changed(
            state=State.CLAIMED, claim=claim.number, holder=claim.holder, claimed_at=self._now()
        )
        with self._tables.transaction(), self._departures.completing_later():
            self._tables.put(taken)
            return not self._carry_out(scope, Settlement((ending,))).refused

    async def extend(self, scope: Scope, claim: Claim, lease_seconds: float) -> bool:
        if faults := lease_faults(lease_seconds):
            raise InvalidInput(faults)
        row = self.held(scope, claim)
        if row is None or row.lease_until is None:
            return False
        self._tables.put(row.changed(lease_until=self._now() + timedelta(seconds=lease_seconds)))
        return True

    async def get(self, scope: Scope, queue: str | None, message_id: UUID) -> Message:
        queues = [*self._tables.queues.values()]
        if queue is not None:
            queues = [self._tables.queue(scope, queue)]
        for row in (
            row for stored_queue in queues for row in self._tables.rows(scope, stored_queue)
        ):
            if row.message.id == message_id:
                return _readable(row.message)
        raise NotFound("message", message_id)

    async def peek(self, scope: Scope, queue: str, limit: int) -> tuple[Message, ...]:
        check_limit(limit)
        rows = self._tables.rows(scope, self._tables.queue(scope, queue))
        ready = sorted((row for row in rows if row.is_ready(self._now())), key=Row.order)
        return tuple(_readable(row.message) for row in ready[:limit])

    async def list(
        self,
        scope: Scope,
        queue: str,
        selection: MessageSelection,
        limit: int,
        *,
        after: MessagePosition | None = None,
        looked_at_max: int = LOOKED_AT_MAX,
    ) -> MessagePage:
        check_limit(limit)
        own = Scope(scope.tenant or "default")
        rows = self._tables.rows(own, self._tables.queue(scope, queue))
        found: list[Message] = []
        last, looked_at = after, 0
        for message, position, is_shown in _listed(rows, selection):
            if after is not None and _list_order(position) <= _list_order(after):
                continue
            if is_shown and self._is_selected(message, selection):
                if len(found) == limit:
                    return MessagePage(tuple(found), last)
                found.append(_readable(message))
                last = position
            looked_at += position.order is not ListOrder.CLAIMED
            if looked_at == looked_at_max and selection != MessageSelection():
                return MessagePage(tuple(found), position)
        return MessagePage(tuple(found), None)

    def _is_selected(self, message: Message, selection: MessageSelection) -> bool:
        wanted = (selection.type, selection.key, selection.correlation_id)
        own = (message.type, message.key, message.correlation_id)
        is_sent = selection.sent_until is None or message.sent_at <= selection.sent_until
        state = str(message.state)
        if message.state is State.READY and message.visible_at > self._now():
            state = "delayed"
        if message.state is State.BLOCKED:
            state = "blocked"
        fits = all(value in (None, mine) for value, mine in zip(wanted, own, strict=True))
        return is_sent and fits and selection.state in (None, state)

    async def next_visible_at(self, scope: Scope, queue: str) -> datetime | None:
        waiting = [
            row.message.visible_at
            for row in self._tables.rows(scope, self._tables.queue(scope, queue))
            if row.message.state is State.READY and row.message.visible_at > self._now()
        ]
        return min(waiting, default=None)

    async def ahead(self, scope: Scope, queue: str, message: Message, at_most: int) -> int:
        def order(other: Message) -> tuple[int, datetime, UUID]:
            return -other.priority, other.visible_at, other.id

        until = max(self._now(), message.visible_at)
        ready = [
            row.message
            for row in self._tables.rows(scope, self._tables.queue(scope, queue))
            if row.message.state is State.READY and row.message.visible_at <= until
        ]
        before = [other for other in ready if order(other) < order(message)]
        return min(len(before), at_most)

    async def delete(self, scope: Scope, queue: str, message_id: UUID) -> bool:
        for row in self._tables.rows(scope, self._tables.queue(scope, queue)):
            if row.message.id == message_id and row.message.state is not State.CLAIMED:
                self._departures.drop(row, REASON_DELETED)
                return True
        return False

    def _send(self, scope: Scope, queue_name: str, messages: Iterable[NewMessage]) -> None:
        queue = self._tables.queue(scope, queue_name)
        with self._tables.transaction():
            self._arrivals.send(own_tenant(scope), queue, messages)

    def held(self, scope: Scope, held: Claim) -> Row | None:
        """The row of a message with exactly this claim."""
        row = self._tables.messages.get((held.tenant, held.id))
        if (
            row is None
            or row.message.state is not State.CLAIMED
            or row.message.current_claim != held
        ):
            return None
        return row if scope.is_system or scope.tenant == held.tenant else None

    def _carry_out(self, scope: Scope, settlement: Settlement) -> SettleResult:
        self._check(settlement)
        refused: list[Claim] = []
        duplicates: list[Claim] = []
        counted: list[Ending] = []
        for ending in settlement.endings:
            row = self.held(scope, ending.claim)
            if row is None:
                refused.append(ending.claim)
            elif ending.fate is Fate.ACK and self._departures.is_done(row.message):
                self._departures.ack(row)
                duplicates.append(ending.claim)
            else:
                self._departures.record(row.message, ending.effect(FiringResult))
                self._end(row, ending)
                counted.append(ending)
        with self._arrivals.copying_later():
            for ending in counted:
                for send in ending.sends:
                    assert send.queue is not None, "the model publishes no events"
                    self._send(Scope(ending.claim.tenant), send.queue, [send.message])
            for ending in counted:
                for batch in ending.batches:
                    self._batches.make(Scope(ending.claim.tenant), batch)
        return SettleResult(tuple(refused), tuple(duplicates))

    def _check(self, settlement: Settlement) -> None:
        check_settlement(settlement)
        for ending in settlement.endings:
            for send in ending.sends:
                assert send.queue is not None, "the model publishes no events"
                self._tables.queue(Scope(ending.claim.tenant), send.queue)
            for batch in ending.batches:
                self._tables.queue(Scope(ending.claim.tenant), batch.queue)

    def _end(self, row: Row, ending: Ending) -> None:
        if ending.fate is Fate.ACK:
            self._departures.ack(row)
        elif ending.fate is Fate.DEAD:
            self._departures.bury(row, ending)
        else:
            self._departures.put_back(row, ending)


def _readable(message: Message) -> Message:
    if message.format > FORMAT_VERSION:
        raise StoreBroken(f"message {message.id} was written by a newer version")
    return message


_ORDERS = (*ListOrder,)


def _listed(
    rows: Iterable[Row], selection: MessageSelection
) -> list[tuple[Message, MessagePosition, bool]]:
    """The messages in the order of a list, and whether it shows each: those with keys are looked at
    twice, to find the ones that are blocked."""
    found: list[tuple[Message, MessagePosition, bool]] = []
    for row in rows:
        message, is_blocked = row.message, row.message.state is State.BLOCKED
        keyed = MessagePosition(ListOrder.KEYED, key=message.key or "", rank=row.place)
        if selection.correlation_id is not None:
            if message.correlation_id == selection.correlation_id:
                found.append((message, MessagePosition(ListOrder.CORRELATED, id=message.id), True))
            continue
        if selection.key is not None:
            if message.key == selection.key:
                found.append((message, keyed, True))
            continue
        if message.key is not None:
            found.append((message, keyed, is_blocked))
        if message.state is State.CLAIMED:
            found.append((message, MessagePosition(ListOrder.CLAIMED, id=message.id), True))
        if message.state is State.READY:
            order = (ListOrder.READY, message.priority, message.visible_at, message.id)
            found.append((message, MessagePosition(*order), True))
    return sorted(found, key=lambda entry: _list_order(entry[1]))


def _list_order(position: MessagePosition) -> tuple[object, ...]:
    section = _ORDERS.index(position.order)
    return (
        *(section, -position.priority, position.visible_at, position.id),
        *(position.key, position.rank),
    )
