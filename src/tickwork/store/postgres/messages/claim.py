"""Claims messages on PostgreSQL, in one statement for the tenants that are next in turn.

Deleted rows stay in the index until a vacuum, which a long transaction elsewhere can prevent. A
claim from the start of the index would read them all. So a claim starts where the last one found
messages. About once a second it starts from the beginning, to find messages that were retried or
committed late.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.clock import monotonic
from tickwork.core.limits import CLAIMED_MAX, check_claim
from tickwork.core.model import (
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    Message,
    QueueSettings,
    Scope,
    Settlement,
    StoredQueue,
)
from tickwork.core.queue.rate_limit import allowance, spend
from tickwork.core.queue.rooms import Rooms
from tickwork.errors import NodeExpired
from tickwork.store.ids import Moment
from tickwork.store.nouns.limits import lock_limit
from tickwork.store.ports.asyncpg import carry_out
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages import rows
from tickwork.store.postgres.messages.settle import Settler
from tickwork.store.postgres.queues import PostgresQueues
from tickwork.store.shared.fair_shares import (
    LANES_MAX,
    LOOKING_SHARE,
    Portion,
    Ring,
    TenantLane,
)

RINGS_MAX = 10_000
LOOK_FROM_START_SECONDS = 1.0

ROUNDS_MAX = 1_000
"""Maximum number of rounds in which a claim finds only duplicates."""

Ask = Callable[..., Awaitable[list[Any]]]
"""Runs a statement, in its own transaction or in an open one."""

_VISIBLE_AND_ID, _PRIORITY = attrgetter("visible_at", "id"), attrgetter("priority")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SLACK = timedelta(seconds=1)


_Lane = tuple[str, int, str]
"""A tenant, a priority and a receiver."""


class _ClaimState:
    """The claims from one queue: whose turn is next, and where to start in the index."""

    def __init__(self) -> None:
        self.ring = Ring()
        self.low_water: dict[_Lane, datetime] = {}
        self.look_from_start_at = float("-inf")


class _Claimed(NamedTuple):
    """Claimed messages, and the ids of those that are duplicates of a done event."""

    messages: tuple[Message, ...] = ()
    duplicates: frozenset[UUID] = frozenset()

    def with_more(self, more: _Claimed) -> _Claimed:
        """Returns the messages of both."""
        return _Claimed(self.messages + more.messages, self.duplicates | more.duplicates)


class _Share(NamedTuple):
    """How many messages a tenant may get. `first` and `last` number its portions from 1."""

    tenant: str
    quota: int
    first: int
    last: int


class _Limits(NamedTuple):
    """How to run statements, in which transaction if any, and the queue's limits. `cap` is the
    maximum number of claims of a tenant."""

    ask: Ask
    connection: Connection | None = None
    has_claim_limits: bool = False
    cap: int | None = None


class Claimer:
    """Claims messages."""

    def __init__(
        self, database: Database, moment: Moment, queues: PostgresQueues, settler: Settler
    ) -> None:
        self._database = database
        self._moment = moment
        self._queues = queues
        self._settler = settler
        self._states: dict[tuple[UUID, str | None, bool], _ClaimState] = {}

    @property
    def _is_virtual(self) -> bool:
        """Whether the clock is virtual. Then nothing is cached."""
        return self._moment() is not None

    async def claim(self, scope: Scope, request: ClaimRequest) -> tuple[Message, ...]:
        """Claims messages. Acks duplicates of done events and continues behind them."""
        check_claim(request)
        queue = await self._queues.remembered(scope, request.queue)
        found: tuple[Message, ...] = ()
        for _ in range(ROUNDS_MAX):
            rest = structs.replace(request, limit=request.limit - len(found))
            claimed = await self._claim_once(scope, queue, rest)
            if not claimed.duplicates:
                found += claimed.messages
                break
            found += tuple(
                message for message in claimed.messages if message.id not in claimed.duplicates
            )
            await self._ack_duplicates(
                [message for message in claimed.messages if message.id in claimed.duplicates]
            )
            if len(found) == request.limit or (found and request.separate):
                break  # A separate claim must not add the messages of a second statement.
        is_full = request.rooms is not None and request.rooms.is_full
        if not found and not is_full and await self._has_changed(queue, request):
            self._queues.forget({queue.id})
            return await self.claim(scope, request)
        return _in_order(found)

    async def _claim_once(
        self, scope: Scope, queue: StoredQueue, request: ClaimRequest
    ) -> _Claimed:
        claim = self._claim_suspects if request.separate else self._claim_shares
        if request.rooms is not None:
            claim = self._claim_within_rooms
        if not queue.settings.has_claim_limits:
            return await claim(scope, queue.id, request, _Limits(self._ask))

        async def work(connection: Connection) -> _Claimed:
            row = await connection.fetchrow(SQL.lock_queue_for_claim, self._moment(), queue.id)
            if row is None:
                return _Claimed()
            settings = rows.settings(row)
            now = row["now"]
            spent_until = row["spent_until"]
            run = partial(carry_out, connection, self._moment)
            rate = settings.rate_per_second
            allowed = request.limit
            shared = None
            if rate is not None:
                allowed = min(allowed, allowance(spent_until, now, rate))
            if settings.limit is not None:
                shared = await run(lock_limit(queue.tenant, settings.limit))
            if shared is not None:
                allowed = min(allowed, await run(shared.room()))
            if allowed == 0 or not settings.has_claim_limits:
                return _Claimed()
            limits = _Limits(
                connection.fetch, connection, has_claim_limits=True, cap=_cap(settings)
            )
            claimed = await claim(scope, queue.id, structs.replace(request, limit=allowed), limits)
            if shared is not None and claimed.messages:
                await run(shared.spend(len(claimed.messages)))
            if rate is not None and claimed.messages:
                spent = spend(spent_until, now, rate, len(claimed.messages))
                await connection.execute(SQL.spend_rate, queue.id, spent)
            return claimed

        # Not repeated: if the reply was lost, the messages may be claimed already.
        return await self._database.transact(work, repeatable=False)

    async def _ack_duplicates(self, messages: Sequence[Message]) -> None:
        """Acks messages whose event is done, without returning them."""
        endings = tuple(Ending(claim=message.current_claim, fate=Fate.ACK) for message in messages)
        await self._settler.settle(SYSTEM, Settlement(endings))

    async def _claim_shares(
        self, scope: Scope, queue_id: UUID, request: ClaimRequest, limits: _Limits
    ) -> _Claimed:
        """Claims each tenant's share first, and then the rest from any tenant.

        A result shorter than the limit means that every tenant was looked at.
        """
        state = self._state(queue_id, scope.tenant)
        has_looked = self._is_virtual or not state.ring.is_fresh(monotonic())
        if has_looked:
            await self._refresh_ring(scope, queue_id, state, limits)
        from_start = self._is_start_due(state)
        portions = state.ring.portions(request.limit)
        found = await self._claim_from(queue_id, state, request, portions, limits, from_start)
        has_seen_all = has_looked and state.ring.is_single and from_start
        if len(found.messages) == request.limit or has_seen_all:
            return found
        await self._refresh_ring(scope, queue_id, state, limits)
        for share in (state.ring.portions, state.ring.everything):
            rest = structs.replace(request, limit=request.limit - len(found.messages))
            more = await self._claim_from(
                queue_id, state, rest, share(rest.limit), limits, from_start=True
            )
            found = found.with_more(more)
            if len(found.messages) == request.limit or state.ring.is_single:
                break
        if len(found.messages) < request.limit:
            state.ring.expire()
        return found

    async def _claim_within_rooms(
        self, scope: Scope, queue_id: UUID, request: ClaimRequest, limits: _Limits
    ) -> _Claimed:
        """Claims what the limits of receivers let go. A claim that finds nothing has looked at all
        lanes just now."""
        assert request.rooms is not None
        state = self._state(queue_id, scope.tenant, has_rooms=True)
        found = _Claimed()
        for has_to_look in (self._is_virtual or not state.ring.is_fresh(monotonic()), True):
            if has_to_look:
                await self._refresh_ring(scope, queue_id, state, limits, request.rooms)
            portions = state.ring.portions_within(request.limit, request.rooms)
            from_start = has_to_look and self._is_start_due(state)
            found = await self._claim_from(queue_id, state, request, portions, limits, from_start)
            if found.messages or has_to_look:
                break
        return found

    async def _refresh_ring(
        self,
        scope: Scope,
        queue_id: UUID,
        state: _ClaimState,
        limits: _Limits,
        rooms: Rooms | None = None,
    ) -> None:
        began = monotonic()
        look_from = state.ring.look_from
        asked = (self._moment(), queue_id, scope.tenant, look_from)
        if rooms is not None and rooms.by_receiver:
            receiver = state.ring.look_from_receiver
            lanes = await limits.ask(SQL.ready_receivers, *asked, receiver, LANES_MAX)
        else:
            lanes = await limits.ask(SQL.ready_tenants, *asked, LANES_MAX, False)
        now = monotonic()
        state.ring.refresh(
            [TenantLane(*lane) for lane in lanes], looked_at_seconds=now, took_seconds=now - began
        )

    def _is_start_due(self, state: _ClaimState) -> bool:
        return self._is_virtual or monotonic() >= state.look_from_start_at

    async def _claim_from(
        self,
        queue_id: UUID,
        state: _ClaimState,
        request: ClaimRequest,
        portions: list[Portion],
        limits: _Limits,
        from_start: bool,
    ) -> _Claimed:
        if not portions:
            return _Claimed()
        began = monotonic()
        if from_start:
            state.low_water.clear()
        found = await self._claim_portions(queue_id, state, request, portions, limits)
        if from_start:
            took = monotonic() - began
            state.look_from_start_at = began + max(LOOK_FROM_START_SECONDS, took / LOOKING_SHARE)
        for lane, visible_at in _oldest(found.messages, portions).items():
            state.low_water[lane] = visible_at - _SLACK
        return found

    async def _claim_portions(
        self,
        queue_id: UUID,
        state: _ClaimState,
        request: ClaimRequest,
        portions: list[Portion],
        limits: _Limits,
    ) -> _Claimed:
        limited = {
            portion.lane.tenant for portion in portions if portion.lane.claimed_max is not None
        }
        if limited and limits.connection is None:
            return await self._database.transact(
                lambda connection: self._claim_portions(
                    queue_id, state, request, portions, _Limits(connection.fetch, connection)
                ),
                repeatable=False,
            )
        if limited and limits.connection is not None:
            rooms = await _claim_rooms(limits.connection, sorted(limited))
            portions = _within(portions, rooms)
            limits = limits._replace(cap=limits.cap or CLAIMED_MAX)
        shares = _shares(portions)
        if not shares:
            return _Claimed()
        # Not repeated: if the reply was lost, the messages may be claimed already. The holder
        # releases them with `Nodes.give_back_unknown`.
        of_receivers = request.rooms is not None and request.rooms.by_receiver
        receivers: tuple[list[Any], ...] = ()
        if of_receivers:
            receivers = (
                [portion.lane.receiver for portion in portions],
                [portion.most for portion in portions],
            )
        found = await limits.ask(
            SQL.claim_of_receivers if of_receivers else SQL.claim,
            self._moment(),
            queue_id,
            request.holder,
            request.lease_seconds,
            [share.tenant for share in shares],
            [share.quota for share in shares],
            [share.first for share in shares],
            [share.last for share in shares],
            [portion.lane.priority for portion in portions],
            [state.low_water.get(_lane_of(portion), _EPOCH) for portion in portions],
            request.limit,
            limits.has_claim_limits,
            limits.cap,
            *receivers,
        )
        return self._decode(found)

    async def _claim_suspects(
        self, scope: Scope, queue_id: UUID, request: ClaimRequest, limits: _Limits
    ) -> _Claimed:
        found = await limits.ask(
            SQL.claim_suspects,
            self._moment(),
            queue_id,
            request.holder,
            request.lease_seconds,
            scope.tenant,
            limits.has_claim_limits,
            limits.cap,
            request.limit,
        )
        return self._decode(found)

    def _decode(self, found: Sequence[Any]) -> _Claimed:
        """Decodes rows of a message, its row id, and whether its event is done."""
        messages = rows.messages(found)
        self._settler.row_hints.note(
            [message.id for message in messages], [row["at"] for row in found]
        )
        duplicates = [row["id"] for row in found if row["is_done"]]
        return _Claimed(messages, frozenset(duplicates))

    async def _ask(self, statement: str, *values: Any) -> list[Any]:
        return await self._database.run(
            lambda connection: connection.fetch(statement, *values), repeatable=False
        )

    async def _has_changed(self, queue: StoredQueue, request: ClaimRequest) -> bool:
        """An empty result means: no messages, an expired node, or claim limits that changed since
        the queue was cached."""
        node_id = request.holder if request.lease_seconds is None else None
        row = await self._database.run(
            lambda connection: connection.fetchrow(
                SQL.explain_empty_claim, self._moment(), node_id, queue.id
            )
        )
        if row is None or not row["is_alive"]:
            raise NodeExpired(request.holder)
        return row["has_claim_limits"] not in (queue.settings.has_claim_limits, None)

    def _state(self, queue_id: UUID, tenant: str | None, *, has_rooms: bool = False) -> _ClaimState:
        state = self._states.get((queue_id, tenant, has_rooms))
        if state is None:
            if len(self._states) >= RINGS_MAX:
                self._states.clear()
            state = _ClaimState()
            self._states[queue_id, tenant, has_rooms] = state
        return state


def _cap(settings: QueueSettings) -> int | None:
    """The maximum number of claims of a tenant; None if claims are not counted."""
    return (settings.tenant_claimed_max or CLAIMED_MAX) if settings.counts_claims else None


def _within(portions: Iterable[Portion], rooms: Mapping[str, int]) -> list[Portion]:
    """The portions of tenants that may have more claims."""
    within = [
        structs.replace(
            portion, quota=min(portion.quota, rooms.get(portion.lane.tenant, portion.quota))
        )
        for portion in portions
    ]
    return [portion for portion in within if portion.quota]


def _oldest(found: Sequence[Message], portions: Sequence[Portion]) -> dict[_Lane, datetime]:
    """Returns when the oldest message of each lane became visible."""
    if found and len(portions) == 1:
        return {_lane_of(portions[0]): min([message.visible_at for message in found])}
    oldest: dict[_Lane, datetime] = {}
    has_receivers = any(portion.lane.receiver for portion in portions)
    for message in found:
        receiver = (message.receiver or "") if has_receivers else ""
        lane, visible_at = (message.tenant, message.priority, receiver), message.visible_at
        oldest[lane] = min(oldest.get(lane, visible_at), visible_at)
    return oldest


def _lane_of(portion: Portion) -> _Lane:
    return portion.lane.tenant, portion.lane.priority, portion.lane.receiver


def _shares(portions: Sequence[Portion]) -> list[_Share]:
    """Groups the portions by tenant: many priorities do not make a tenant's share larger."""
    shares: list[_Share] = []
    for number, portion in enumerate(portions, 1):
        if shares and shares[-1].tenant == portion.lane.tenant:
            shares[-1] = shares[-1]._replace(last=number)
        else:
            shares.append(_Share(portion.lane.tenant, portion.quota, number, number))
    return shares


def _in_order(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Sorts messages by priority, and within a priority by age."""
    ordered = sorted(messages, key=_VISIBLE_AND_ID)
    ordered.sort(key=_PRIORITY, reverse=True)  # The sort is stable.
    return tuple(ordered)


async def _claim_rooms(connection: Connection, tenants: Sequence[str]) -> dict[str, int]:
    """How many more messages of each of these tenants may be claimed; those without a quota are
    left out. Locks the tenants until the end of the transaction."""
    # Two statements, so that the second sees claims that committed while the first waited.
    locked = await connection.fetch(SQL.lock_claim_quotas, tenants)
    counted = await connection.fetch(SQL.count_claimed_of_tenants, [row["id"] for row in locked])
    claimed = {row["tenant"]: row["messages"] for row in counted}
    return {row["id"]: max(row["claimed_max"] - claimed.get(row["id"], 0), 0) for row in locked}
