"""Messages on SQLite: the contract's methods, delegated to sender, claimer and settler."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
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
)
from tickwork.core.model import (
    Claim,
    ClaimRequest,
    Ending,
    Message,
    NewMessage,
    Scope,
    Settlement,
    SettleResult,
)
from tickwork.core.queue.stats import CounterName
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.contract import Joined
from tickwork.store.ids import Moment
from tickwork.store.shared.fair_shares import LANES_MAX
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import (
    SQL,
    from_microseconds,
    microseconds,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.claim import Claimer, lanes
from tickwork.store.sqlite.messages.message_list import list_messages
from tickwork.store.sqlite.messages.queue_rows import find_queue
from tickwork.store.sqlite.messages.removal import finish_removal
from tickwork.store.sqlite.messages.send import Sender
from tickwork.store.sqlite.messages.settle import Settler
from tickwork.store.sqlite.messages.system_events import publish


class SqliteMessages:
    """Messages: send, claim, settle, read and delete."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database = database
        self._sender, self._settler = Sender(database), Settler(database)
        self._claimer = Claimer(database, moment, self._settler.row_hints)

    async def send(self, scope: Scope, queue: str, message: NewMessage) -> None:
        check_message(message)
        await self._sender.send(scope, queue, [message])

    async def send_batch(self, scope: Scope, queue: str, messages: Sequence[NewMessage]) -> None:
        check_batch(messages)
        await self._sender.send(scope, queue, messages)

    async def send_bulk(self, scope: Scope, queue: str, messages: Iterable[NewMessage]) -> int:
        return await self._sender.bulk(scope, queue, messages)

    async def notify(self, scope: Scope, event: NewMessage) -> int:
        check_message(event)
        return await publish(self._database, scope, event)

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        return await self._claimer.claim(scope, request)

    async def suspects(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        check_system(scope)

        def work(transaction: Transaction) -> frozenset[UUID]:
            def has_some(queue_id: UUID) -> bool:
                values = (queue_id.bytes, transaction.now)
                (has,) = transaction.execute(SQL.suspects, values).fetchone()
                return bool(has)

            return frozenset(queue_id for queue_id in queue_ids if has_some(queue_id))

        return await self._database.read(work)

    async def with_ready(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        check_system(scope)

        def work(transaction: Transaction) -> frozenset[UUID]:
            def has_some(queue_id: UUID) -> bool:
                (has,) = transaction.execute(SQL.with_ready, (queue_id.bytes,)).fetchone()
                return bool(has)

            return frozenset(queue_id for queue_id in queue_ids if has_some(queue_id))

        return await self._database.read(work)

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        return await self._settler.settle(scope, settlement)

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        await self._settler.settle_jointly(scope, settlement, joined)

    async def settle_unclaimed(self, scope: Scope, message: Message, ending: Ending) -> bool:
        return await self._settler.settle_unclaimed(scope, message, ending)

    async def extend(self, scope: Scope, claim: Claim, lease_seconds: float) -> bool:
        if faults := lease_faults(lease_seconds):
            raise InvalidInput(faults)
        if not is_own_claim(scope, claim):
            return False
        fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes)

        def work(transaction: Transaction) -> bool:
            lease_until = transaction.now + microseconds(lease_seconds)
            return transaction.execute(SQL.extend, (*fence, lease_until)).rowcount == 1

        return await self._database.write(work)

    async def get(self, scope: Scope, queue: str | None, message_id: UUID) -> Message:
        def work(transaction: Transaction) -> list[rows.Row]:
            queue_id = None if queue is None else find_queue(transaction, scope, queue).id
            values = (queue_id, message_id.bytes, scope.tenant)
            return transaction.execute(SQL.get_message, values).fetchmany(1)

        found = rows.known_messages(await self._database.read(work))
        if not found:
            raise NotFound("message", message_id)
        return found[0]

    async def peek(self, scope: Scope, queue: str, limit: int) -> tuple[Message, ...]:
        check_limit(limit)

        def work(transaction: Transaction) -> list[rows.Row]:
            queue_id = find_queue(transaction, scope, queue).id
            found: list[rows.Row] = []
            for lane in lanes(transaction, queue_id, scope.tenant):
                values = (queue_id, lane.tenant, lane.priority, transaction.now, limit)
                found += transaction.execute(SQL.peek, values)
            return found

        found = rows.in_order(await self._database.read(work))
        return rows.known_messages(found[:limit])

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
        return await list_messages(
            self._database,
            scope,
            queue,
            selection,
            limit,
            after=after,
            looked_at_max=looked_at_max,
        )

    async def next_visible_at(self, scope: Scope, queue: str) -> datetime | None:
        def work(transaction: Transaction) -> int | None:
            queue_id = find_queue(transaction, scope, queue).id
            values = (queue_id, scope.tenant, transaction.now, LANES_MAX)
            at: int | None = transaction.execute(SQL.next_visible_at, values).fetchone()[0]
            return at

        at = await self._database.read(work)
        return None if at is None else from_microseconds(at)

    async def ahead(self, scope: Scope, queue: str, message: Message, at_most: int) -> int:
        visible_at = to_microseconds(message.visible_at)

        def work(transaction: Transaction) -> int:
            queue_id = find_queue(transaction, scope, queue).id
            values = (message.priority, max(transaction.now, visible_at), visible_at)
            asked = (queue_id, message.tenant, *values, message.id.bytes, at_most)
            count: int = transaction.execute(SQL.count_ahead, asked).fetchone()[0]
            return count

        return await self._database.read(work)

    async def delete(self, scope: Scope, queue: str, message_id: UUID) -> bool:
        def work(transaction: Transaction) -> bool:
            queue_id = find_queue(transaction, scope, queue).id
            values = (queue_id, message_id.bytes, scope.tenant)
            removed = transaction.execute(SQL.delete_message, values).fetchall()
            finish_removal(transaction, removed, CounterName.PURGED, REASON_DELETED)
            return bool(removed)

        return await self._database.change(work)
