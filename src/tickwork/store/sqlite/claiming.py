"""Claiming on SQLite: lane after lane whose turn it is, in one transaction.

Nobody else writes while a claim looks, so what it has found is still there when it hands it out.
"""

from __future__ import annotations

from itertools import groupby

from msgspec import structs

from tickwork.clock import monotonic
from tickwork.core.limits import check_claim
from tickwork.core.model import ClaimRequest, Message, Scope
from tickwork.errors import NodeExpired
from tickwork.store.lanes import LANES_MAX, Lane, Portion, Ring
from tickwork.store.moment import Moment
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.queues import find_queue
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.times import duration

RINGS_MAX = 10_000


class Claimer:
    """Hands out messages. The rings are touched on the writer's thread only."""

    def __init__(self, database: Database, moment: Moment) -> None:
        self._database, self._moment = database, moment
        self._rings: dict[tuple[bytes, str | None], Ring] = {}

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        check_claim(request)
        found = await self._database.write(
            lambda transaction: self._claim(transaction, scope, request), rows=request.limit
        )
        return rows.messages(rows.in_order(found), request.holder)

    def _claim(
        self, transaction: Transaction, scope: Scope, request: ClaimRequest
    ) -> list[rows.Row]:
        queue = find_queue(transaction, scope, request.queue)
        if request.lease_seconds is None:
            _check_node(transaction, request)
        if queue.paused:
            return []
        if request.alone:
            values = (queue.id, scope.tenant, transaction.now)
            return _hand_out(
                transaction, request, transaction.execute(SQL.claim_alone, values).fetchall()
            )
        return self._claim_in_turn(transaction, scope, queue.id, request)

    def _claim_in_turn(
        self, transaction: Transaction, scope: Scope, queue_id: bytes, request: ClaimRequest
    ) -> list[rows.Row]:
        """Each tenant's share first; what is then missing from wherever there is more.

        An answer that is shorter than asked for has looked at everything.
        """
        ring = self._ring(queue_id, scope.tenant)
        # Where time stands still nothing is remembered for a while.
        looked = self._moment() is not None or not ring.is_fresh(monotonic())
        if looked:
            _look(transaction, scope, queue_id, ring)
        found = _take(transaction, queue_id, request, ring.portions(request.limit))
        if len(found) == request.limit or (looked and ring.is_single):
            return found
        _look(transaction, scope, queue_id, ring)
        rest = structs.replace(request, limit=request.limit - len(found))
        found += _take(transaction, queue_id, rest, ring.everything(rest.limit))
        if len(found) < request.limit:
            ring.expire()
        return found

    def _ring(self, queue_id: bytes, tenant: str | None) -> Ring:
        ring = self._rings.get((queue_id, tenant))
        if ring is None:
            if len(self._rings) >= RINGS_MAX:
                self._rings.clear()
            ring = self._rings[queue_id, tenant] = Ring()
        return ring


def lanes(
    transaction: Transaction, queue_id: bytes, tenant: str | None, look_from: str = ""
) -> list[Lane]:
    """The lanes that have something visible: one tenant's, or all from a tenant on."""
    values = (queue_id, tenant, transaction.now, look_from, LANES_MAX)
    found = transaction.execute(SQL.lanes, values)
    return [Lane(*lane) for lane in found]


def _look(transaction: Transaction, scope: Scope, queue_id: bytes, ring: Ring) -> None:
    began = monotonic()
    found = lanes(transaction, queue_id, scope.tenant, ring.look_from)
    now = monotonic()
    ring.refresh(found, looked_at_seconds=now, took_seconds=now - began)


def _take(
    transaction: Transaction, queue_id: bytes, request: ClaimRequest, portions: list[Portion]
) -> list[rows.Row]:
    """A tenant's portion is for its lanes together: many priorities do not make it larger."""
    found: list[rows.Row] = []
    for tenant, own in groupby(portions, key=lambda portion: portion.lane.tenant):
        before = len(found)
        for portion in own:
            limit = min(request.limit, before + portion.quota) - len(found)
            if limit > 0:
                values = (queue_id, tenant, portion.lane.priority, transaction.now, limit)
                found += transaction.execute(SQL.claim, values)
        if len(found) == request.limit:
            break
    return _hand_out(transaction, request, found)


def _hand_out(
    transaction: Transaction, request: ClaimRequest, found: list[rows.Row]
) -> list[rows.Row]:
    lease_until = None
    if request.lease_seconds is not None:
        lease_until = transaction.now + duration(request.lease_seconds)
    if found:
        places = rows.as_json([row[0] for row in found])
        transaction.execute(SQL.hand_out, (request.holder.bytes, lease_until, places))
    return found


def _check_node(transaction: Transaction, request: ClaimRequest) -> None:
    values = (request.holder.bytes, transaction.now)
    (alive,) = transaction.execute(SQL.is_alive, values).fetchone()
    if not alive:
        raise NodeExpired(request.holder)
