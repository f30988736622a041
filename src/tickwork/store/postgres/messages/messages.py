"""Messages on PostgreSQL: send, claim, settle, read and delete."""

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
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.contract import Joined
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages import rows
from tickwork.store.postgres.messages.claim import Claimer
from tickwork.store.postgres.messages.message_list import list_messages
from tickwork.store.postgres.messages.send import Sender
from tickwork.store.postgres.messages.settle import Settler
from tickwork.store.postgres.messages.system_events import publish
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.fair_shares import LANES_MAX


class PostgresMessages:
    """Send, claim and settle."""

    def __init__(
        self,
        database: Database,
        moment: Moment,
        queues: PostgresQueues,
        sender: Sender,
        settler: Settler,
    ) -> None:
        self._database = database
        self._moment = moment
        self._queues = queues
        self._sender, self._settler = sender, settler
        self._claimer = Claimer(database, moment, queues, settler)

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
        return await publish(self._database, self._moment, self._sender, scope, event)

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        return await self._claimer.claim(scope, request)

    async def suspects(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        check_system(scope)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.suspects, self._moment(), list(queue_ids))
        )
        return frozenset(row["id"] for row in found)

    async def with_ready(self, scope: Scope, queue_ids: Sequence[UUID]) -> frozenset[UUID]:
        check_system(scope)
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.with_ready, list(queue_ids))
        )
        return frozenset(row["id"] for row in found)

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
        extended = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.extend,
                self._moment(),
                claim.tenant,
                claim.id,
                claim.number,
                claim.holder,
                lease_seconds,
            )
        )
        return extended is not None

    async def get(self, scope: Scope, queue: str | None, message_id: UUID) -> Message:
        queue_id = None if queue is None else await self._queues.id_of(scope, queue)
        row = await self._database.run(
            lambda connection: connection.fetchrow(
                SQL.get_message, queue_id, message_id, scope.tenant
            )
        )
        if row is None:
            raise NotFound("message", message_id)
        return rows.messages([row])[0]

    async def peek(self, scope: Scope, queue: str, limit: int) -> tuple[Message, ...]:
        check_limit(limit)
        queue_id = await self._queues.id_of(scope, queue)
        asked = (self._moment(), queue_id, scope.tenant, limit)
        found = await self._database.fetch_with_custom_plan(SQL.peek, *asked)
        return rows.messages(found)

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
            await self._queues.id_of(scope, queue),
            selection,
            limit,
            after=after,
            looked_at_max=looked_at_max,
            moment=self._moment,
        )

    async def next_visible_at(self, scope: Scope, queue: str) -> datetime | None:
        queue_id = await self._queues.id_of(scope, queue)
        at: datetime | None = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.next_visible_at, self._moment(), queue_id, scope.tenant, LANES_MAX
            )
        )
        return at

    async def ahead(self, scope: Scope, queue: str, message: Message, at_most: int) -> int:
        queue_id = await self._queues.id_of(scope, queue)
        values = (message.priority, self._moment(), message.visible_at, message.id)
        count: int = await self._database.run(
            lambda connection: connection.fetchval(
                SQL.count_ahead, queue_id, message.tenant, *values, at_most
            )
        )
        return count

    async def delete(self, scope: Scope, queue: str, message_id: UUID) -> bool:
        queue_id = await self._queues.id_of(scope, queue)
        return await self._queues.purger.delete(scope, queue_id, message_id)
