"""Claims on PostgreSQL: one statement over the lanes whose turn it is.

Deleted rows stay in the index until they are vacuumed, and a long transaction elsewhere can prevent
that. A claim from the start of the index would read them all. So a claim starts where the last one
found messages, and from the very start once in a while, for messages that returned or were
committed late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.clock import monotonic
from tickwork.core.limits import check_claim
from tickwork.core.model import (
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    Queue,
    Scope,
    Settlement,
)
from tickwork.core.queue.rate_limit import allowance, spend
from tickwork.errors import NodeExpired
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages import rows
from tickwork.store.postgres.messages.settle import Settler
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.fair_shares import LANES_MAX, LOOKING_SHARE, Portion, Ring, TenantLane

RINGS_MAX = 10_000
LOOK_FROM_START_SECONDS = 1.0

ROUNDS_MAX = 1_000
"""Maximum number of rounds of a claim that finds only messages whose event is done."""

Ask = Callable[..., Awaitable[list[Any]]]
"""Runs a statement, alone or in a transaction."""

_VISIBLE_AND_ID, _PRIORITY = attrgetter("visible_at", "id"), attrgetter("priority")
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
_SLACK = timedelta(seconds=1)


class _Position:
    """Where the claims of one queue stand."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.low_water: dict[tuple[str, int], datetime] = {}
        self.look_from_start_at = float("-inf")


class _Handed(NamedTuple):
    """Claimed messages, and those of them whose event is done."""

    messages: tuple[Message, ...] = ()
    done: frozenset[UUID] = frozenset()

    def with_more(self, more: _Handed) -> _Handed:
        """Both together."""
        return _Handed(self.messages + more.messages, self.done | more.done)


class _Share(NamedTuple):
    """How many messages a tenant may get from its lanes, which are numbered from 1."""

    tenant: str
    quota: int
    first: int
    last: int


class _Terms(NamedTuple):
    """How statements are run, and the queue's limits: `cap` is the number of claims of a tenant."""

    ask: Ask
    has_claim_limits: bool = False
    cap: int | None = None


class Claimer:
    """Claims messages."""

    def __init__(
        self, database: Database, moment: Moment, queues: PostgresQueues, settler: Settler
    ) -> None:
        self._database, self._moment, self._queues = database, moment, queues
        self._settler = settler
        self._positions: dict[tuple[UUID, str | None], _Position] = {}

    @property
    def _is_virtual(self) -> bool:
        """Whether the clock is virtual. Then nothing is cached for a time."""
        return self._moment() is not None

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        """Claims messages. Those whose event is done are acked, and the claim continues."""
        check_claim(request)
        queue = await self._queues.remembered(scope, request.queue)
        found: tuple[Message, ...] = ()
        for _ in range(ROUNDS_MAX):
            rest = structs.replace(request, limit=request.limit - len(found))
            handed = await self._hand_out(scope, queue, rest)
            if not handed.done:
                found += handed.messages
                break
            found += tuple(each for each in handed.messages if each.id not in handed.done)
            await self._ack_unseen([each for each in handed.messages if each.id in handed.done])
            if len(found) == request.limit or (found and request.separate):
                break  # What may be in one answer is not for a second one to add to.
        if not found and await self._has_changed(queue, request):
            self._queues.forget({queue.id})
            return await self.claim(scope, request)
        return _in_order(found)

    async def _hand_out(self, scope: Scope, queue: Queue, request: ClaimRequest) -> _Handed:
        claim = self._claim_apart if request.separate else self._claim_in_turn
        if not queue.settings.has_claim_limits:
            return await claim(scope, queue.id, request, _Terms(self._ask))

        async def work(connection: Connection) -> _Handed:
            row = await connection.fetchrow(SQL.lock_queue_for_claim, self._moment(), queue.id)
            if row is None:
                return _Handed()
            settings, now, spent_until = rows.settings(row), row["now"], row["spent_until"]
            rate, allowed = settings.rate_per_second, request.limit
            if rate is not None:
                allowed = min(allowed, allowance(spent_until, now, rate))
            if allowed == 0 or not settings.has_claim_limits:
                return _Handed()
            terms = _Terms(connection.fetch, has_claim_limits=True, cap=settings.tenant_claimed_max)
            handed = await claim(scope, queue.id, structs.replace(request, limit=allowed), terms)
            if rate is not None and handed.messages:
                spent = spend(spent_until, now, rate, len(handed.messages))
                await connection.execute(SQL.spend_rate, queue.id, spent)
            return handed

        # Not repeated: an answer that got lost may have handed something out already.
        return await self._database.transact(work, repeatable=False)

    async def _ack_unseen(self, messages: Sequence[Message]) -> None:
        """Acks messages whose event is done."""
        endings = tuple(Ending(claim=message.current_claim, fate=Fate.ACK) for message in messages)
        await self._settler.settle(SYSTEM, Settlement(endings))

    async def _claim_in_turn(
        self, scope: Scope, queue_id: UUID, request: ClaimRequest, terms: _Terms
    ) -> _Handed:
        """Claims each tenant's share, and then the rest from any tenant.

        Fewer messages than asked for means that all lanes were searched.
        """
        position = self._position(queue_id, scope.tenant)
        looked = self._is_virtual or not position.ring.is_fresh(monotonic())
        if looked:
            await self._look(scope, queue_id, position, terms)
        from_start = self._begins_at_start(position)
        portions = position.ring.portions(request.limit)
        found = await self._take(queue_id, position, request, portions, terms, from_start)
        saw_everything = looked and position.ring.is_single and from_start
        if len(found.messages) == request.limit or saw_everything:
            return found
        await self._look(scope, queue_id, position, terms)
        for share in (position.ring.portions, position.ring.everything):
            rest = structs.replace(request, limit=request.limit - len(found.messages))
            more = await self._take(
                queue_id, position, rest, share(rest.limit), terms, from_start=True
            )
            found = found.with_more(more)
            if len(found.messages) == request.limit or position.ring.is_single:
                break
        if len(found.messages) < request.limit:
            position.ring.expire()
        return found

    async def _look(self, scope: Scope, queue_id: UUID, position: _Position, terms: _Terms) -> None:
        began = monotonic()
        look_from = position.ring.look_from
        lanes = await terms.ask(
            SQL.ready_tenants, self._moment(), queue_id, scope.tenant, look_from, LANES_MAX, False
        )
        now = monotonic()
        position.ring.refresh(
            [TenantLane(*lane) for lane in lanes], looked_at_seconds=now, took_seconds=now - began
        )

    def _begins_at_start(self, position: _Position) -> bool:
        return self._is_virtual or monotonic() >= position.look_from_start_at

    async def _take(
        self,
        queue_id: UUID,
        position: _Position,
        request: ClaimRequest,
        portions: list[Portion],
        terms: _Terms,
        from_start: bool,
    ) -> _Handed:
        if not portions:
            return _Handed()
        began = monotonic()
        if from_start:
            position.low_water.clear()
        found = await self._claim_portions(queue_id, position, request, portions, terms)
        if from_start:
            took = monotonic() - began
            position.look_from_start_at = began + max(LOOK_FROM_START_SECONDS, took / LOOKING_SHARE)
        for lane, visible_at in _oldest(found.messages, portions).items():
            position.low_water[lane] = visible_at - _SLACK
        return found

    async def _claim_portions(
        self,
        queue_id: UUID,
        position: _Position,
        request: ClaimRequest,
        portions: list[Portion],
        terms: _Terms,
    ) -> _Handed:
        shares = _shares(portions)
        # Not repeated: an answer that got lost may have handed something out already. The
        # holder finds out with `Nodes.give_back_unknown`.
        found = await terms.ask(
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
            [position.low_water.get(_place(portion), _BEGINNING) for portion in portions],
            request.limit,
            terms.has_claim_limits,
            terms.cap,
        )
        return self._handed(found)

    async def _claim_apart(
        self, scope: Scope, queue_id: UUID, request: ClaimRequest, terms: _Terms
    ) -> _Handed:
        found = await terms.ask(
            SQL.claim_suspects,
            self._moment(),
            queue_id,
            request.holder,
            request.lease_seconds,
            scope.tenant,
            terms.has_claim_limits,
            terms.cap,
            request.limit,
        )
        return self._handed(found)

    def _handed(self, found: Sequence[Any]) -> _Handed:
        """Decodes rows of a message, whether its event is done, and its row id."""
        messages = rows.messages(found)
        self._settler.sightings.note([each.id for each in messages], [row["at"] for row in found])
        done = [row["id"] for row in found if row["is_done"]]
        return _Handed(messages, frozenset(done))

    async def _ask(self, statement: str, *values: Any) -> list[Any]:
        return await self._database.run(
            lambda connection: connection.fetch(statement, *values), repeatable=False
        )

    async def _has_changed(self, queue: Queue, request: ClaimRequest) -> bool:
        """An empty claim means an empty queue, an expired node, or a queue that has gained or
        lost limits."""
        node_id = request.holder if request.lease_seconds is None else None
        row = await self._database.run(
            lambda connection: connection.fetchrow(
                SQL.explain_empty_claim, self._moment(), node_id, queue.id
            )
        )
        if row is None or not row["is_alive"]:
            raise NodeExpired(request.holder)
        return row["has_claim_limits"] not in (queue.settings.has_claim_limits, None)

    def _position(self, queue_id: UUID, tenant: str | None) -> _Position:
        position = self._positions.get((queue_id, tenant))
        if position is None:
            if len(self._positions) >= RINGS_MAX:
                self._positions.clear()
            position = self._positions[queue_id, tenant] = _Position()
        return position


def _oldest(
    found: Sequence[Message], portions: Sequence[Portion]
) -> dict[tuple[str, int], datetime]:
    """Since when the first message of each lane has been visible."""
    if found and len(portions) == 1:
        return {_place(portions[0]): min([message.visible_at for message in found])}
    oldest: dict[tuple[str, int], datetime] = {}
    for message in found:
        lane, visible_at = (message.tenant, message.priority), message.visible_at
        oldest[lane] = min(oldest.get(lane, visible_at), visible_at)
    return oldest


def _place(portion: Portion) -> tuple[str, int]:
    return portion.lane.tenant, portion.lane.priority


def _shares(portions: Sequence[Portion]) -> list[_Share]:
    """The portions by tenant: more priorities do not give a tenant a larger share."""
    shares: list[_Share] = []
    for place, portion in enumerate(portions, 1):
        if shares and shares[-1].tenant == portion.lane.tenant:
            shares[-1] = shares[-1]._replace(last=place)
        else:
            shares.append(_Share(portion.lane.tenant, portion.quota, place, place))
    return shares


def _in_order(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Highest priority first, and within it the oldest visible first."""
    ordered = sorted(messages, key=_VISIBLE_AND_ID)
    ordered.sort(key=_PRIORITY, reverse=True)  # Which leaves equals as they are.
    return tuple(ordered)
