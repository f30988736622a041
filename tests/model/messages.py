"""Messages in the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from inspect import isawaitable
from itertools import count
from uuid import UUID

from tests.model.tables import Row, Tables
from tickwork.core.limits import (
    check_batch,
    check_claim,
    check_limit,
    check_message,
    check_settlement,
    lease_faults,
)
from tickwork.core.model import (
    DEFAULT,
    FORMAT_VERSION,
    LOST_CLAIMS_ALONE,
    ClaimRequest,
    DeadLetter,
    Ending,
    Fate,
    Held,
    Message,
    NewMessage,
    Scope,
    Settlement,
    SettleResult,
)
from tickwork.core.states import State
from tickwork.errors import ClaimLost, EventDone, InvalidInput, NodeExpired, NotFound
from tickwork.store.contract import Joined


class MemoryMessages:
    """In, handed out, and done with."""

    def __init__(self, tables: Tables, now: Callable[[], datetime]) -> None:
        self._tables, self._now = tables, now
        self._turns = count(1)
        self._last_turn: dict[tuple[UUID, str], int] = {}

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

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        check_claim(request)
        queue, now = self._tables.queue(scope, request.queue), self._now()
        if request.lease_seconds is None:
            node = self._tables.nodes.get(request.holder)
            if node is None or node.expires_at <= now:
                raise NodeExpired(request.holder)
        if queue.paused:
            return ()
        waiting = [
            row
            for row in self._tables.rows(scope, queue)
            if row.is_ready(now)
            and not row.is_expired(now)
            and (row.message.lost >= LOST_CLAIMS_ALONE) == request.alone
        ]
        chosen = _oldest(waiting) if request.alone else self._in_turn(waiting, request.limit)
        return tuple(self._hand_out(row, request, now) for row in chosen)

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        with self._tables.transaction():
            return self._carry_out(scope, settlement)

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        with self._tables.transaction():
            result = self._carry_out(scope, settlement)
            if result.refused:
                raise ClaimLost(held.id for held in result.refused)
            if result.duplicates:
                raise EventDone(held.id for held in result.duplicates)
            wanted = joined(self._tables.callers_own)
            if isawaitable(wanted):
                await wanted

    async def extend(self, scope: Scope, held: Held, lease_seconds: float) -> bool:
        if faults := lease_faults(lease_seconds):
            raise InvalidInput(faults)
        row = self._held(scope, held)
        if row is None or row.lease_until is None:
            return False
        self._tables.put(row.changed(lease_until=self._now() + timedelta(seconds=lease_seconds)))
        return True

    async def get(self, scope: Scope, queue: str, message_id: UUID) -> Message:
        for row in self._tables.rows(scope, self._tables.queue(scope, queue)):
            if row.message.id == message_id:
                return row.message
        raise NotFound("message", message_id)

    async def peek(self, scope: Scope, queue: str, limit: int) -> tuple[Message, ...]:
        check_limit(limit)
        rows = self._tables.rows(scope, self._tables.queue(scope, queue))
        ready = sorted((row for row in rows if row.is_ready(self._now())), key=Row.order)
        return tuple(row.message for row in ready[:limit])

    async def delete(self, scope: Scope, queue: str, message_id: UUID) -> bool:
        for row in self._tables.rows(scope, self._tables.queue(scope, queue)):
            if row.message.id == message_id and row.message.state is not State.CLAIMED:
                del self._tables.messages[row.name]
                return True
        return False

    async def dead_letters(self, scope: Scope, queue: str, limit: int) -> tuple[DeadLetter, ...]:
        check_limit(limit)
        letters = self._tables.dead_letters(scope, self._tables.queue(scope, queue))
        return tuple(sorted(letters, key=lambda letter: letter.failed_at)[:limit])

    def _send(self, scope: Scope, queue_name: str, messages: Iterable[NewMessage]) -> None:
        queue = self._tables.queue(scope, queue_name)
        tenant = scope.tenant or DEFAULT.tenant
        assert tenant is not None
        for message in messages:
            row = _new_row(message, tenant, queue.id, self._now())
            if not self._tables.has(row):
                self._tables.put(row)
        self._tables.watchers.wake({queue.id})

    def _in_turn(self, waiting: list[Row], limit: int) -> list[Row]:
        """One after the other from the tenant whose last turn was longest ago."""
        waiting, chosen = sorted(waiting, key=Row.order), list[Row]()
        while waiting and len(chosen) < limit:
            row = min(waiting, key=lambda each: self._last_turn.get(_tenancy(each), 0))
            self._last_turn[_tenancy(row)] = next(self._turns)
            waiting.remove(row)
            chosen.append(row)
        return sorted(chosen, key=Row.order)

    def _hand_out(self, row: Row, request: ClaimRequest, now: datetime) -> Message:
        lease = request.lease_seconds
        handed_out = row.changed(
            state=State.CLAIMED,
            claim=row.message.claim + 1,
            holder=request.holder,
            lease_until=None if lease is None else now + timedelta(seconds=lease),
        )
        self._tables.put(handed_out)
        return handed_out.message

    def _held(self, scope: Scope, held: Held) -> Row | None:
        """The row of a message that is held exactly so."""
        row = self._tables.messages.get((held.tenant, held.id))
        if row is None or row.message.state is not State.CLAIMED or row.message.held != held:
            return None
        return row if scope.is_system or scope.tenant == held.tenant else None

    def _carry_out(self, scope: Scope, settlement: Settlement) -> SettleResult:
        self._check(settlement)
        refused: list[Held] = []
        duplicates: list[Held] = []
        counted: list[Ending] = []
        for ending in settlement.endings:
            row = self._held(scope, ending.held)
            if row is None:
                refused.append(ending.held)
                continue
            is_duplicate = ending.fate is Fate.ACK and self._is_done(row)
            self._end(row, ending)
            if is_duplicate:
                duplicates.append(ending.held)
            else:
                counted.append(ending)
        for ending in counted:
            for send in ending.sends:
                self._send(Scope(ending.held.tenant), send.queue, [send.message])
        return SettleResult(tuple(refused), tuple(duplicates))

    def _check(self, settlement: Settlement) -> None:
        check_settlement(settlement)
        for ending in settlement.endings:
            for send in ending.sends:
                self._tables.queue(Scope(ending.held.tenant), send.queue)

    def _is_done(self, row: Row) -> bool:
        """Whether the row's event was done before; from now on it is."""
        event_id = row.message.event_id
        if event_id is None:
            return False
        event = (row.message.tenant, row.message.queue_id, event_id)
        if event in self._tables.events_done:
            return True
        self._tables.events_done.add(event)
        return False

    def _end(self, row: Row, ending: Ending) -> None:
        if ending.fate is Fate.ACK:
            del self._tables.messages[row.name]
        elif ending.fate is Fate.DEAD:
            self._tables.bury(row, ending, self._now())
        else:
            self._tables.put_back(row, ending, self._now())


def _new_row(new: NewMessage, tenant: str, queue_id: UUID, now: datetime) -> Row:
    visible_at = now + timedelta(seconds=new.delay_seconds)
    expiry = new.expires_after_seconds
    message = Message(
        tenant=tenant,
        id=new.id,
        queue_id=queue_id,
        state=State.READY,
        priority=new.priority,
        claim=0,
        holder=None,
        attempts=0,
        lost=0,
        visible_at=visible_at,
        sent_at=now,
        key=new.key,
        event_id=new.event_id,
        type=new.type,
        source=new.source,
        correlation_id=new.correlation_id,
        causation_id=new.causation_id,
        hops=new.hops,
        batch_id=new.batch_id,
        schedule_id=new.schedule_id,
        slot=new.slot,
        run=new.run,
        catch_up=new.catch_up,
        content_type=new.content_type,
        format=FORMAT_VERSION,
        last_error=None,
        body=new.body,
    )
    return Row(message, None if expiry is None else visible_at + timedelta(seconds=expiry))


def _tenancy(row: Row) -> tuple[UUID, str]:
    return row.message.queue_id, row.message.tenant


def _oldest(rows: list[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: (row.message.visible_at, row.message.id))[:1]
