"""Claiming on SQLite: lane after lane whose turn it is, in one transaction.

Nobody else writes while a claim looks, so what it has found is still there when it hands it out.
"""

from __future__ import annotations

from uuid import UUID

from tickwork.clock import monotonic
from tickwork.core.limits import check_claim
from tickwork.core.model import ClaimRequest, Message, Scope
from tickwork.errors import NodeExpired
from tickwork.store.lanes import LANES_MAX, Lane, Ring
from tickwork.store.moment import Moment
from tickwork.store.sightings import Sightings
from tickwork.store.sqlite.database import Database
from tickwork.store.sqlite.finding import find_queue
from tickwork.store.sqlite.handing import messages
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.taking import Taking

RINGS_MAX = 10_000


class Claimer:
    """Hands out messages. The rings are touched on the writer's thread only."""

    def __init__(self, database: Database, moment: Moment, sightings: Sightings[int]) -> None:
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
    ) -> Taking | None:
        queue = find_queue(transaction, scope, request.queue)
        if request.lease_seconds is None:
            _check_node(transaction, request)
        if queue.paused:
            return None
        taking = Taking(transaction, queue, request)
        if request.apart:
            taking.take_apart(scope)
        elif taking.missing:
            self._take_in_turn(taking, scope)
        taking.spend()
        return taking

    def _take_in_turn(self, taking: Taking, scope: Scope) -> None:
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
) -> list[Lane]:
    """The lanes that have something visible: one tenant's, or all from a tenant on."""
    values = (queue_id, tenant, transaction.now, look_from, LANES_MAX, of_suspended)
    return [Lane(*lane) for lane in transaction.execute(SQL.lanes, values)]


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
