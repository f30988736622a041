"""Claiming on PostgreSQL: one statement over the lanes whose turn it is.

Deleted rows stay in the index until they are vacuumed, and a long transaction elsewhere can
keep that from happening; a claim that begins at the head reads them all. So claims begin
where the last one found something, and look from the very beginning once in a while, for
what came back or was committed late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.clock import monotonic
from tickwork.core.limits import check_claim
from tickwork.core.model import ClaimRequest, Message, Scope
from tickwork.errors import NodeExpired
from tickwork.store.lanes import LANES_MAX, LOOKING_SHARE, Lane, Portion, Ring
from tickwork.store.moment import Moment
from tickwork.store.postgres import rows
from tickwork.store.postgres.database import SQL, Database
from tickwork.store.postgres.queues import PostgresQueues

RINGS_MAX = 10_000
LOOK_FROM_START_SECONDS = 1.0

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_SLACK = timedelta(seconds=1)


class _Position:
    """Where the claims of one queue stand."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.low_water: dict[Lane, datetime] = {}
        self.look_from_start_at = float("-inf")


class _Share(NamedTuple):
    """What a tenant may get from its lanes together; they are numbered from 1."""

    tenant: str
    quota: int
    first: int
    last: int


class Claimer:
    """Hands out messages."""

    def __init__(self, database: Database, moment: Moment, queues: PostgresQueues) -> None:
        self._database, self._moment, self._queues = database, moment, queues
        self._positions: dict[tuple[UUID, str | None], _Position] = {}

    @property
    def _is_virtual(self) -> bool:
        """Where time stands still nothing is remembered for a while."""
        return self._moment() is not None

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        check_claim(request)
        queue_id = await self._queues.id_of(scope, request.queue)
        if request.alone:
            found = await self._claim_alone(scope, queue_id, request)
        else:
            found = await self._claim_in_turn(scope, queue_id, request)
        if not found and request.lease_seconds is None:
            await self._check_node(request.holder)
        return found

    async def _claim_in_turn(
        self, scope: Scope, queue_id: UUID, request: ClaimRequest
    ) -> tuple[Message, ...]:
        """Each tenant's share first; what is then missing from wherever there is more.

        An answer that is shorter than asked for has looked at everything.
        """
        position = self._position(queue_id, scope.tenant)
        looked = self._is_virtual or not position.ring.is_fresh(monotonic())
        if looked:
            await self._look(scope, queue_id, position)
        from_start = self._begins_at_start(position)
        portions = position.ring.portions(request.limit)
        found = await self._take(queue_id, position, request, portions, from_start=from_start)
        saw_everything = looked and position.ring.is_single and from_start
        if len(found) == request.limit or saw_everything:
            return found
        await self._look(scope, queue_id, position)
        rest = structs.replace(request, limit=request.limit - len(found))
        portions = position.ring.everything(rest.limit)
        found += await self._take(queue_id, position, rest, portions, from_start=True)
        if len(found) < request.limit:
            position.ring.expire()
        return _in_order(found)

    async def _look(self, scope: Scope, queue_id: UUID, position: _Position) -> None:
        began = monotonic()
        lanes = await self._database.run(
            lambda connection: connection.fetch(
                SQL.lanes,
                self._moment(),
                queue_id,
                scope.tenant,
                position.ring.look_from,
                LANES_MAX,
            )
        )
        now = monotonic()
        position.ring.refresh(
            [Lane(*lane) for lane in lanes], looked_at_seconds=now, took_seconds=now - began
        )

    def _begins_at_start(self, position: _Position) -> bool:
        return self._is_virtual or monotonic() >= position.look_from_start_at

    async def _take(
        self,
        queue_id: UUID,
        position: _Position,
        request: ClaimRequest,
        portions: list[Portion],
        *,
        from_start: bool,
    ) -> tuple[Message, ...]:
        if not portions:
            return ()
        began = monotonic()
        if from_start:
            position.low_water.clear()
        found = await self._claim_portions(queue_id, position, request, portions)
        if from_start:
            took = monotonic() - began
            position.look_from_start_at = began + max(LOOK_FROM_START_SECONDS, took / LOOKING_SHARE)
        oldest: dict[Lane, datetime] = {}
        for message in found:
            oldest.setdefault(Lane(message.tenant, message.priority), message.visible_at - _SLACK)
        position.low_water |= oldest
        return found

    async def _claim_portions(
        self, queue_id: UUID, position: _Position, request: ClaimRequest, portions: list[Portion]
    ) -> tuple[Message, ...]:
        shares = _shares(portions)
        # Not repeated: an answer that got lost may have handed something out already. The
        # holder finds out with `Nodes.give_back_unknown`.
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.claim,
                self._moment(),
                queue_id,
                request.holder,
                request.lease_seconds,
                [share.tenant for share in shares],
                [share.quota for share in shares],
                [share.first for share in shares],
                [share.last for share in shares],
                [portion.lane.priority for portion in portions],
                [position.low_water.get(portion.lane, _BEGINNING) for portion in portions],
                request.limit,
            ),
            repeatable=False,
        )
        return _in_order(rows.messages(found))

    async def _claim_alone(
        self, scope: Scope, queue_id: UUID, request: ClaimRequest
    ) -> tuple[Message, ...]:
        found = await self._database.run(
            lambda connection: connection.fetch(
                SQL.claim_alone,
                self._moment(),
                queue_id,
                request.holder,
                request.lease_seconds,
                scope.tenant,
            ),
            repeatable=False,
        )
        return rows.messages(found)

    async def _check_node(self, node_id: UUID) -> None:
        """An empty answer is either an empty queue or a node that is no more."""
        alive = await self._database.run(
            lambda connection: connection.fetchval(SQL.is_alive, self._moment(), node_id)
        )
        if not alive:
            raise NodeExpired(node_id)

    def _position(self, queue_id: UUID, tenant: str | None) -> _Position:
        position = self._positions.get((queue_id, tenant))
        if position is None:
            if len(self._positions) >= RINGS_MAX:
                self._positions.clear()
            position = self._positions[queue_id, tenant] = _Position()
        return position


def _shares(portions: Sequence[Portion]) -> list[_Share]:
    """The portions by tenant: many priorities do not make a share larger."""
    shares: list[_Share] = []
    for place, portion in enumerate(portions, 1):
        if shares and shares[-1].tenant == portion.lane.tenant:
            shares[-1] = shares[-1]._replace(last=place)
        else:
            shares.append(_Share(portion.lane.tenant, portion.quota, place, place))
    return shares


def _in_order(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Highest priority first, of each the oldest visible first."""
    return tuple(sorted(messages, key=lambda each: (-each.priority, each.visible_at, each.id)))
