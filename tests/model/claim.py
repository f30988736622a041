"""Claims in the model: which messages may be claimed, and which tenant is next."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from tests.model.removal import Departures
from tests.model.state import Now, Row, Tables
from tickwork.core.model import (
    FORMAT_VERSION,
    LOST_CLAIMS_ALONE,
    LOST_CLAIMS_SEPARATE,
    ClaimRequest,
    Message,
    Scope,
    State,
    StoredQueue,
)
from tickwork.core.queue.rate_limit import allowance, spend
from tickwork.errors import NodeExpired


class Turns:
    """The waiting tenants of each queue, in order. A turn is as many messages as the tenant's
    weight; a claim may end in the middle of one, and the next continues there."""

    def __init__(self) -> None:
        self._lines: dict[UUID, list[str]] = {}
        self._left: dict[tuple[UUID, str], int] = {}

    def take(
        self, queue_id: UUID, waiting: dict[str, list[Row]], weights: dict[str, int], limit: int
    ) -> list[Row]:
        """The next rows by turns, the first ones of each tenant."""
        chosen: list[Row] = []
        line = [tenant for tenant in self._lines.get(queue_id, []) if tenant in waiting]
        line += [tenant for tenant in waiting if tenant not in line]
        taken = dict.fromkeys(line, 0)
        while line and len(chosen) < limit:
            tenant = line[0]
            chosen.append(waiting[tenant][taken[tenant]])
            taken[tenant] += 1
            left = self._left.pop((queue_id, tenant), weights[tenant]) - 1
            if taken[tenant] == len(waiting[tenant]):
                line.pop(0)
            elif left == 0:
                line.append(line.pop(0))
            else:
                self._left[queue_id, tenant] = left
        self._lines[queue_id] = line
        return chosen


class Claiming:
    """Claims of one process: only the turns are its own."""

    def __init__(self, tables: Tables, now: Now, departures: Departures) -> None:
        self._tables, self._now, self._departures = tables, now, departures
        self._turns = Turns()

    def claim(self, scope: Scope, request: ClaimRequest) -> list[Message]:
        queue = self._tables.queue(scope, request.queue)
        self._check_holder(request)
        found: list[Row] = []
        choose, limit = self._suspects if request.separate else self._next, request.limit
        while not queue.paused and len(found) < limit and not (found and request.separate):
            chosen = choose(scope, queue, min(limit - len(found), self._allowance(queue)))
            if not chosen:
                break
            self._spend(queue, len(chosen))
            found += [row for row in chosen if self._hand_out(row, request)]
        handed_out = [self._tables.messages[row.name] for row in sorted(found, key=Row.order)]
        return [row.message for row in handed_out]

    def _check_holder(self, request: ClaimRequest) -> None:
        if request.lease_seconds is None:
            node = self._tables.nodes.get(request.holder)
            if node is None or node.expires_at <= self._now():
                raise NodeExpired(request.holder)

    def _next(self, scope: Scope, queue: StoredQueue, limit: int) -> list[Row]:
        """Messages that may be claimed together with any others."""
        waiting: dict[str, list[Row]] = {}
        for row in sorted(self._tables.rows(scope, queue), key=Row.order):
            if self._may_go(row) and row.message.lost < LOST_CLAIMS_SEPARATE:
                waiting.setdefault(row.message.tenant, []).append(row)
        left = {tenant: self._left(queue, tenant) for tenant in waiting}
        waiting = {t: rows[: left[t]] for t, rows in waiting.items() if left[t]}
        if not scope.is_system:
            return [row for rows in waiting.values() for row in rows][:limit]
        weights = {tenant: self._tables.tenants[tenant].weight for tenant in waiting}
        return self._turns.take(queue.id, waiting, weights, limit)

    def _suspects(self, scope: Scope, queue: StoredQueue, limit: int) -> list[Row]:
        """The oldest suspect, and those that may be claimed together with it."""
        suspects = [
            row
            for row in sorted(self._tables.rows(scope, queue), key=lambda row: row.order()[1:])
            if self._is_suspect(row) and self._left(queue, row.message.tenant)
        ]
        like = [row for row in suspects if row.message.lost < LOST_CLAIMS_ALONE]
        if not like:
            return suspects[: min(limit, 1)]
        tenant = like[0].message.tenant
        own = [row for row in like if row.message.tenant == tenant]
        return own[: min(limit, self._left(queue, tenant))]

    def has_suspects(self, queue_id: UUID) -> bool:
        queue = self._tables.queues.get(queue_id)
        rows = self._tables.messages.values()
        return (
            queue is not None
            and not queue.paused
            and any(self._is_suspect(row) for row in rows if row.message.queue_id == queue_id)
        )

    def _is_suspect(self, row: Row) -> bool:
        return self._may_go(row) and row.message.lost >= LOST_CLAIMS_SEPARATE

    def _may_go(self, row: Row) -> bool:
        now, message = self._now(), row.message
        return (
            row.is_ready(now)
            and not row.is_expired(now)
            and message.format <= FORMAT_VERSION
            and not self._tables.tenants[message.tenant].suspended
        )

    def _left(self, queue: StoredQueue, tenant: str) -> int:
        """How many more claims a tenant may have."""
        cap = queue.settings.tenant_claimed_max
        if cap is None:
            return len(self._tables.messages)
        claimed = sum(
            row.message.queue_id == queue.id and row.message.state is State.CLAIMED
            for row in self._tables.messages.values()
            if row.message.tenant == tenant
        )
        return max(cap - claimed, 0)

    def _allowance(self, queue: StoredQueue) -> int:
        rate = queue.settings.rate_per_second
        if rate is None:
            return len(self._tables.messages)
        return allowance(self._tables.spent_until.get(queue.id), self._now(), rate)

    def _spend(self, queue: StoredQueue, messages: int) -> None:
        rate = queue.settings.rate_per_second
        if rate is not None:
            before = self._tables.spent_until.get(queue.id)
            self._tables.spent_until[queue.id] = spend(before, self._now(), rate, messages)

    def _hand_out(self, row: Row, request: ClaimRequest) -> bool:
        """False for a duplicate of a done event, which is acked without running."""
        if self._departures.is_done(row.message):
            self._departures.ack(row)
            return False
        lease = request.lease_seconds
        self._tables.put(
            row.changed(
                state=State.CLAIMED,
                claim=row.message.claim + 1,
                holder=request.holder,
                claimed_at=self._now(),
                lease_until=None if lease is None else self._now() + timedelta(seconds=lease),
            )
        )
        return True
