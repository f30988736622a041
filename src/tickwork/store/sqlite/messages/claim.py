"""Claiming on SQLite: lane after lane whose turn it is, in one transaction.

Nobody else writes while a claim looks, so what it has found is still there when it hands it out.

One claim under way on SQLite: what it may still take, and what it has.

The rate counts everything that is taken, the cap of a tenant what it has in hand. A message
whose event is done is acked unseen, wherever it is met.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

import msgspec

from tickwork.clock import monotonic
from tickwork.core.limits import check_claim
from tickwork.core.model import ClaimRequest, Message, Scope
from tickwork.core.queue import rate_limit as rate
from tickwork.core.queue.stats import CounterName
from tickwork.errors import NodeExpired
from tickwork.store.ids import Moment
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
from tickwork.store.sqlite.messages.removal import finish_removal
from tickwork.store.sqlite.messages.send import QueueRow, find_queue


class ClaimBuilder:
    """Takes what a request asks for and its queue allows."""

    def __init__(self, transaction: Transaction, queue: QueueRow, request: ClaimRequest) -> None:
        self.transaction, self.queue, self._request = transaction, queue, request
        self.found: list[ClaimedRow] = []
        self.bodies: dict[int, bytes] = {}
        self._doubles = 0
        self._looks = 0
        self._limit = request.limit
        self._allowed: int | None = None
        settings = queue.settings
        self._claimed_max, self._rate = settings.tenant_claimed_max, settings.rate_per_second
        if self._rate is not None:
            now = from_microseconds(transaction.now)
            self._allowed = rate.allowance(self._spent_until, now, self._rate)

    @property
    def missing(self) -> int:
        """How many more it may take."""
        if self._allowed is None:
            return self._limit - len(self.found)
        return min(self._limit, self._allowed - self._doubles) - len(self.found)

    def in_order(self) -> list[ClaimedRow]:
        """What it has, the most urgent and oldest first; of one lane it came so."""
        return self.found if self._looks <= 1 else in_order(self.found)

    def take(self, portions: Sequence[Portion]) -> bool:
        """Hands out what the portions have; True if there were doubles among it, which are
        acked instead, so that there may be more.

        A tenant's portion is for its lanes together: many priorities do not make it larger.
        """
        queue_id, now = self.queue.id, self.transaction.now
        before, doubles, missing = len(self.found), self._doubles, self.missing
        for tenant, own in groupby(portions, key=lambda portion: portion.lane.tenant):
            if missing <= 0:
                break
            taken, room = 0, self._room(tenant)
            for portion in own:
                limit = min(missing, portion.quota, room) - taken
                if limit > 0:
                    values = (queue_id, tenant, portion.lane.priority, now, limit)
                    found = read(self.transaction, SQL.find_claimable, values)
                    self._looks += bool(found)
                    self.found += self._without_doubles(found)
                    taken += len(found)
            missing -= taken
        self._hand_out(self.found[before:])
        return self._doubles > doubles

    def take_apart(self, scope: Scope) -> None:
        """Hands out what must run with nothing else beside it."""
        own = (self.queue.id, scope.tenant, self.transaction.now, self._claimed_max)
        while self.missing > 0 and not self.found:
            suspects = read(self.transaction, SQL.find_claimable_suspects, (*own, self.missing))
            if not suspects:
                break
            self.found += self._without_doubles(suspects)
        self._hand_out(self.found)

    def spend(self) -> None:
        """Notes what was taken from the rate."""
        taken = len(self.found) + self._doubles
        if self._rate is not None and taken:
            now = from_microseconds(self.transaction.now)
            until = rate.spend(self._spent_until, now, self._rate, taken)
            self.transaction.execute(SQL.spend_rate, (self.queue.id, to_microseconds(until)))

    @property
    def _spent_until(self) -> datetime | None:
        until = self.queue.spent_until
        return None if until is None else from_microseconds(until)

    def _room(self, tenant: str) -> int:
        """How many more the tenant may have in hand; what is found now is not handed out yet."""
        if self._claimed_max is None:
            return self._limit
        values = (self.queue.id, tenant)
        (claimed,) = self.transaction.execute(SQL.count_claimed, values).fetchone()
        return max(self._claimed_max - int(claimed), 0)

    def _without_doubles(self, found: list[ClaimedRow]) -> list[ClaimedRow]:
        """Acks those of one tenant's messages whose event is done; the others."""
        events = [each.event_id for each in found if each.event_id is not None]
        if not events:
            return found
        asked = msgspec.json.encode(events).decode()
        values = (found[0].tenant, self.queue.id, asked)
        known = {event for (event,) in self.transaction.execute(SQL.done_events, values)}
        places = [each.place for each in found if each.event_id in known]
        if not places:
            return found
        gone = self.transaction.execute(SQL.delete_messages, (rows.as_json(places),)).fetchall()
        finish_removal(self.transaction, gone, CounterName.DONE)
        self._doubles += len(places)
        return [each for each in found if each.event_id not in known]

    def _hand_out(self, found: Sequence[ClaimedRow]) -> None:
        request, lease_until = self._request, None
        if request.lease_seconds is not None:
            lease_until = self.transaction.now + microseconds(request.lease_seconds)
        if found:
            self.bodies |= large_bodies(self.transaction, found)
            places = rows.as_json(each.place for each in found)
            is_counted = self._claimed_max is not None
            values = (request.holder.bytes, lease_until, places, self.transaction.now, is_counted)
            self.transaction.execute(SQL.claim, values)


RINGS_MAX = 10_000


class Claimer:
    """Hands out messages. The rings are touched on the writer's thread only."""

    def __init__(self, database: Database, moment: Moment, sightings: RowHints[int]) -> None:
        self._database, self._moment, self._sightings = database, moment, sightings
        self._rings: dict[tuple[bytes, str | None], Ring] = {}

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        check_claim(request)
        taken = await self._database.write(
            lambda transaction: self._claim(transaction, scope, request), rows=request.limit
        )
        if taken is None:
            return ()
        found = taken.in_order()
        self._sightings.note([each.id for each in found], [each.place for each in found])
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
        taking = ClaimBuilder(transaction, queue, request)
        if request.separate:
            taking.take_apart(scope)
        elif taking.missing:
            self._take_in_turn(taking, scope)
        taking.spend()
        return taking

    def _take_in_turn(self, taking: ClaimBuilder, scope: Scope) -> None:
        """Each tenant's share first; what is then missing from wherever there is more.

        An answer that is shorter than asked for has looked at everything.
        """
        transaction, queue_id = taking.transaction, taking.queue.id
        ring = self._ring(queue_id, scope.tenant)
        # Where time stands still nothing is remembered for a while.
        looked = self._moment() is not None or not ring.is_fresh(monotonic())
        if looked:
            _look(transaction, scope, queue_id, ring)
        has_doubles = taking.take(ring.portions(taking.missing))
        if looked and ring.is_single and not has_doubles:
            return
        while taking.missing:
            _look(transaction, scope, queue_id, ring)
            # Whoever waited behind a double may be the next now: look again.
            if taking.take(ring.portions(taking.missing)):
                continue
            if not taking.take(ring.everything(taking.missing)):
                break
        if taking.missing:
            ring.expire()

    def _ring(self, queue_id: bytes, tenant: str | None) -> Ring:
        ring = self._rings.get((queue_id, tenant))
        if ring is None:
            if len(self._rings) >= RINGS_MAX:
                self._rings.clear()
            ring = self._rings[queue_id, tenant] = Ring()
        return ring


def lanes(
    transaction: Transaction,
    queue_id: bytes,
    tenant: str | None,
    look_from: str = "",
    *,
    of_suspended: bool = True,
) -> list[TenantLane]:
    """The lanes that have something visible: one tenant's, or all from a tenant on."""
    values = (queue_id, tenant, transaction.now, look_from, LANES_MAX, of_suspended)
    return [TenantLane(*lane) for lane in transaction.execute(SQL.ready_tenants, values)]


def _look(transaction: Transaction, scope: Scope, queue_id: bytes, ring: Ring) -> None:
    began = monotonic()
    found = lanes(transaction, queue_id, scope.tenant, ring.look_from, of_suspended=False)
    now = monotonic()
    ring.refresh(found, looked_at_seconds=now, took_seconds=now - began)


def _check_node(transaction: Transaction, request: ClaimRequest) -> None:
    values = (request.holder.bytes, transaction.now)
    (alive,) = transaction.execute(SQL.is_alive, values).fetchone()
    if not alive:
        raise NodeExpired(request.holder)
