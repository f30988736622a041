"""Claims messages on SQLite, tenant by tenant, in one transaction.

No one else writes during a claim, so the messages it finds are still there when it marks them. The
rate limit counts every message found, including duplicates; a tenant's cap counts its claims. A
duplicate of a done event is acked without being returned.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from itertools import groupby
from operator import attrgetter
from uuid import UUID

import msgspec

from tickwork.clock import monotonic
from tickwork.core.limits import check_claim
from tickwork.core.model import ClaimRequest, Message, Scope
from tickwork.core.queue import rate_limit as rate
from tickwork.core.queue.rooms import Rooms
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NodeExpired
from tickwork.store.ids import Moment
from tickwork.store.nouns.limits import lock_limit
from tickwork.store.ports.sqlite import carry_out
from tickwork.store.shared.fair_shares import LANES_MAX, Portion, Ring, TenantLane
from tickwork.store.shared.row_hints import RowHints
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL, from_microseconds, microseconds, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.claim_rows import (
    ClaimedRow,
    in_order,
    large_bodies,
    messages,
    read,
)
from tickwork.store.sqlite.messages.queue_rows import QueueRow, find_queue
from tickwork.store.sqlite.messages.removal import finish_removal

_TENANT = attrgetter("lane.tenant")


class ClaimBuilder:
    """Builds one claim: takes what the request asks for and the queue allows."""

    def __init__(self, transaction: Transaction, queue: QueueRow, request: ClaimRequest) -> None:
        self.transaction = transaction
        self.queue = queue
        self._request = request
        self.found: list[ClaimedRow] = []
        self.bodies: dict[int, bytes] = {}
        self._duplicates = 0
        self._looks = 0
        self._limit = request.limit
        self._of_receivers = request.rooms is not None and request.rooms.by_receiver
        self._allowed: int | None = None
        settings = queue.settings
        self._claimed_max, self._rate = settings.tenant_claimed_max, settings.rate_per_second
        if self._rate is not None:
            now = from_microseconds(transaction.now)
            self._allowed = rate.allowance(self._spent_until, now, self._rate)
        self._is_counted, self._shared = settings.counts_claims, None
        if settings.limit is not None:
            self._shared = carry_out(transaction, lock_limit(queue.tenant, settings.limit))
        if self._shared is not None:
            room = carry_out(transaction, self._shared.room())
            self._allowed = room if self._allowed is None else min(self._allowed, room)

    @property
    def remaining(self) -> int:
        """How many more messages it may claim."""
        if self._allowed is None:
            return self._limit - len(self.found)
        return min(self._limit, self._allowed - self._duplicates) - len(self.found)

    def in_order(self) -> list[ClaimedRow]:
        """The claimed messages by priority and age. Messages of one tenant and priority are sorted
        already."""
        return self.found if self._looks <= 1 else in_order(self.found)

    def claim_from(self, portions: Sequence[Portion]) -> bool:
        """Claims from each tenant's portion. Returns True if it acked duplicates instead, because
        there may be more to claim behind them.

        A tenant's portion covers all its priorities: many priorities do not make it larger.
        """
        now = self.transaction.now
        before = len(self.found)
        duplicates = self._duplicates
        remaining = self.remaining
        for _, own in groupby(portions, key=_TENANT):
            if remaining <= 0:
                break
            lanes_of_tenant = [*own]
            claimed, capacity = 0, self._tenant_capacity(lanes_of_tenant[0].lane)
            for portion in lanes_of_tenant:
                limit = min(remaining, portion.quota, capacity) - claimed
                if self._of_receivers:
                    limit = min(limit, portion.most or 0)
                if limit > 0:
                    found = self._find(portion.lane, now, limit)
                    self._looks += bool(found)
                    self.found += self._ack_duplicates(found)
                    claimed += len(found)
            remaining -= claimed
        self._hand_out(self.found[before:])
        return self._duplicates > duplicates

    def _find(self, lane: TenantLane, now: int, limit: int) -> list[ClaimedRow]:
        values = (self.queue.id, lane.tenant, lane.priority, now, limit)
        if self._of_receivers:
            statement = SQL.find_claimable_of_receiver
            return read(self.transaction, statement, (*values, lane.receiver))
        return read(self.transaction, SQL.find_claimable, values)

    def claim_suspects(self, scope: Scope) -> None:
        """Claims suspects, which must not share a worker with other messages."""
        own = (self.queue.id, scope.tenant, self.transaction.now, self._claimed_max)
        while self.remaining > 0 and not self.found:
            suspects = read(self.transaction, SQL.find_claimable_suspects, (*own, self.remaining))
            if not suspects:
                break
            self.found += self._ack_duplicates(suspects)
        self._hand_out(self.found)

    def charge_rate(self) -> None:
        """Charges the messages found to the queue's rate limit, and to the one that it shares."""
        taken = len(self.found) + self._duplicates
        if self._shared is not None and taken:
            carry_out(self.transaction, self._shared.spend(taken))
        if self._rate is not None and taken:
            now = from_microseconds(self.transaction.now)
            until = rate.spend(self._spent_until, now, self._rate, taken)
            self.transaction.execute(SQL.spend_rate, (self.queue.id, to_microseconds(until)))

    @property
    def _spent_until(self) -> datetime | None:
        until = self.queue.spent_until
        return None if until is None else from_microseconds(until)

    def _tenant_capacity(self, lane: TenantLane) -> int:
        """How many more claims the tenant may have, in this queue and in all. Messages found just
        now are not counted as claimed yet."""
        capacity, execute = self._limit, self.transaction.execute
        if self._claimed_max is not None:
            (claimed,) = execute(SQL.count_claimed, (self.queue.id, lane.tenant)).fetchone()
            capacity = min(capacity, self._claimed_max - int(claimed))
        if lane.claimed_max is not None:
            self._is_counted = True
            (claimed,) = execute(SQL.count_claimed_of_tenants, (lane.tenant,)).fetchone()
            capacity = min(capacity, lane.claimed_max - int(claimed))
        return max(capacity, 0)

    def _ack_duplicates(self, found: list[ClaimedRow]) -> list[ClaimedRow]:
        """Acks those of one tenant's messages whose event is done; returns the others."""
        events = [row.event_id for row in found if row.event_id is not None]
        if not events:
            return found
        asked = msgspec.json.encode(events).decode()
        values = (found[0].tenant, self.queue.id, asked)
        known = {event for (event,) in self.transaction.execute(SQL.done_events, values)}
        rowids = [row.rowid for row in found if row.event_id in known]
        if not rowids:
            return found
        removed = self.transaction.execute(SQL.delete_messages, (rows.as_json(rowids),)).fetchall()
        finish_removal(self.transaction, removed, CounterName.DONE)
        self._duplicates += len(rowids)
        return [row for row in found if row.event_id not in known]

    def _hand_out(self, found: Sequence[ClaimedRow]) -> None:
        request, lease_until = self._request, None
        if request.lease_seconds is not None:
            lease_until = self.transaction.now + microseconds(request.lease_seconds)
        if found:
            self.bodies |= large_bodies(self.transaction, found)
            rowids = rows.as_json(row.rowid for row in found)
            marks = (request.holder.bytes, lease_until, rowids, self.transaction.now)
            self.transaction.execute(SQL.claim, (*marks, self._is_counted))


RINGS_MAX = 10_000


class Claimer:
    """Claims messages. The rings are only used on the writer thread."""

    def __init__(self, database: Database, moment: Moment, row_hints: RowHints[int]) -> None:
        self._database = database
        self._moment = moment
        self._row_hints = row_hints
        self._rings: dict[tuple[bytes, str | None, bool], Ring] = {}

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        check_claim(request)
        work = partial(self._claim, scope=scope, request=request)
        taken = await self._database.write(work, rows=request.limit)
        if taken is None:
            return ()
        found = taken.in_order()
        self._row_hints.note([row.id for row in found], [row.rowid for row in found])
        queue_id = UUID(bytes=taken.queue.id)
        return messages(found, taken.bodies, queue_id, request.holder, taken.transaction.now)

    def _claim(
        self, transaction: Transaction, scope: Scope, request: ClaimRequest
    ) -> ClaimBuilder | None:
        queue = find_queue(transaction, scope, request.queue)
        if request.lease_seconds is None:
            _check_node(transaction, request)
        if queue.paused:
            return None
        builder = ClaimBuilder(transaction, queue, request)
        if request.separate:
            builder.claim_suspects(scope)
        elif builder.remaining and request.rooms is not None:
            self._claim_within_rooms(builder, scope, request.rooms)
        elif builder.remaining:
            self._claim_shares(builder, scope)
        builder.charge_rate()
        return builder

    def _claim_shares(self, builder: ClaimBuilder, scope: Scope) -> None:
        """Claims each tenant's share first, and then the rest from any tenant.

        A result shorter than the limit means that every tenant was looked at.
        """
        transaction, queue_id = builder.transaction, builder.queue.id
        ring = self._ring(queue_id, scope.tenant)
        # Under a virtual clock nothing is cached.
        has_looked = self._moment() is not None or not ring.is_fresh(monotonic())
        if has_looked:
            _look(transaction, scope, queue_id, ring)
        has_duplicates = builder.claim_from(ring.portions(builder.remaining))
        if has_looked and ring.is_single and not has_duplicates:
            return
        while builder.remaining:
            _look(transaction, scope, queue_id, ring)
            # A message blocked behind a duplicate may be claimable now: look again.
            if builder.claim_from(ring.portions(builder.remaining)):
                continue
            if not builder.claim_from(ring.everything(builder.remaining)):
                break
        if builder.remaining:
            ring.expire()

    def _claim_within_rooms(self, builder: ClaimBuilder, scope: Scope, rooms: Rooms) -> None:
        """Claims what the limits of receivers let go. A claim that finds nothing has looked at all
        lanes just now."""
        transaction, queue_id = builder.transaction, builder.queue.id
        ring = self._ring(queue_id, scope.tenant, has_rooms=True)
        for has_to_look in (self._moment() is not None or not ring.is_fresh(monotonic()), True):
            if has_to_look:
                _look(transaction, scope, queue_id, ring, rooms)
            # A message blocked behind a duplicate may be claimable now: look again.
            while builder.claim_from(ring.portions_within(builder.remaining, rooms)):
                _look(transaction, scope, queue_id, ring, rooms)
            if builder.found or has_to_look:
                break

    def _ring(self, queue_id: bytes, tenant: str | None, *, has_rooms: bool = False) -> Ring:
        ring = self._rings.get((queue_id, tenant, has_rooms))
        if ring is None:
            if len(self._rings) >= RINGS_MAX:
                self._rings.clear()
            ring = Ring()
            self._rings[queue_id, tenant, has_rooms] = ring
        return ring


def lanes(
    transaction: Transaction,
    queue_id: bytes,
    tenant: str | None,
    look_from: str = "",
    *,
    of_suspended: bool = True,
) -> list[TenantLane]:
    """The tenants and priorities with visible messages: one tenant's, or all from a tenant on."""
    values = (queue_id, tenant, transaction.now, look_from, LANES_MAX, of_suspended)
    return [TenantLane(*lane) for lane in transaction.execute(SQL.ready_tenants, values)]


def _look(
    transaction: Transaction,
    scope: Scope,
    queue_id: bytes,
    ring: Ring,
    rooms: Rooms | None = None,
) -> None:
    began = monotonic()
    if rooms is not None and rooms.by_receiver:
        start = (ring.look_from, ring.look_from_receiver, LANES_MAX)
        values = (queue_id, scope.tenant, transaction.now, *start)
        found = [TenantLane(*lane) for lane in transaction.execute(SQL.ready_receivers, values)]
    else:
        found = lanes(transaction, queue_id, scope.tenant, ring.look_from, of_suspended=False)
    now = monotonic()
    ring.refresh(found, looked_at_seconds=now, took_seconds=now - began)


def _check_node(transaction: Transaction, request: ClaimRequest) -> None:
    values = (request.holder.bytes, transaction.now)
    (alive,) = transaction.execute(SQL.is_alive, values).fetchone()
    if not alive:
        raise NodeExpired(request.holder)
