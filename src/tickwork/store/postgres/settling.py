"""Settling on PostgreSQL: endings in bulk, each behind its fence.

Plain acks, the usual case, are one statement that commits by itself. Everything else is one
transaction: first the rows that are really still held are taken away or put back, then what
hangs on them happens, and only on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import isawaitable
from itertools import accumulate, pairwise
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import structs

from tickwork.core.limits import can_be_held, check_settlement
from tickwork.core.model import Ending, Fate, Held, Scope, Settlement, SettleResult
from tickwork.errors import ClaimLost, EventDone, StoreUnavailable
from tickwork.store.coalescer import Coalescer
from tickwork.store.contract import Joined
from tickwork.store.ids import new_id
from tickwork.store.moment import Moment
from tickwork.store.postgres.database import CONNECT_ERRORS, SQL, Connection, Database
from tickwork.store.postgres.sending import Group, Sender
from tickwork.store.postgres.wakeups import PostgresWakeups

LOOKS_MAX = 3
"""A row that moves while it is looked for (somebody extends its lease) is missed: look again."""


class _Send(NamedTuple):
    """A message on its way, and the place of the ending that sends it."""

    cause: int
    group: Group


class _Ended(NamedTuple):
    """Which endings, by their place, counted; and which of these for an event done before."""

    done: set[int]
    duplicates: set[int]

    def result(self, endings: Sequence[Ending], start: int, stop: int) -> SettleResult:
        """What it means for some of the endings."""
        places = range(start, stop)
        return SettleResult(
            tuple(endings[place].held for place in places if place not in self.done),
            tuple(endings[place].held for place in places if place in self.duplicates),
        )


class Settler:
    """Ends handings-out."""

    def __init__(
        self, database: Database, moment: Moment, sender: Sender, wakeups: PostgresWakeups
    ) -> None:
        self._database, self._moment = database, moment
        self._sender, self._wakeups = sender, wakeups
        self._coalescer: Coalescer[Settlement, SettleResult] = Coalescer(
            self._commit, flights_max=2
        )

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        check_settlement(settlement)
        own = tuple(ending for ending in settlement.endings if _is_own(scope, ending))
        result = SettleResult()
        if own:
            result = await self._coalescer.submit(Settlement(own), len(own))
        if len(own) == len(settlement.endings):
            return result
        strange = {ending.held for ending in settlement.endings if not _is_own(scope, ending)}
        refused = strange.union(result.refused)
        held = (ending.held for ending in settlement.endings)
        return structs.replace(result, refused=tuple(each for each in held if each in refused))

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        check_settlement(settlement)
        endings = settlement.endings
        if strange := [ending.held.id for ending in endings if not _is_own(scope, ending)]:
            raise ClaimLost(strange)
        sends = await self._sends(endings)

        async def work(connection: Connection) -> None:
            ended = await self._carry_out(connection, endings, sends)
            result = ended.result(endings, 0, len(endings))
            if result.refused:
                raise ClaimLost(held.id for held in result.refused)
            if result.duplicates:
                raise EventDone(held.id for held in result.duplicates)
            await _join(joined, connection)

        try:
            await self._database.transact(work, repeatable=False)
        except _JoinedFailed as failed:
            raise failed.error from None
        self._wakeups.tell(_queues_to_wake(sends))

    async def drain(self) -> None:
        await self._coalescer.drain()

    async def _commit(self, settlements: Sequence[Settlement]) -> list[SettleResult]:
        endings = [ending for settlement in settlements for ending in settlement.endings]
        sends = await self._sends(endings)
        only_acks = not sends and all(ending.fate is Fate.ACK for ending in endings)
        commit = self._database.run if only_acks else self._database.transact

        async def work(connection: Connection) -> _Ended:
            return await self._carry_out(connection, endings, sends)

        try:
            ended = await commit(work, repeatable=False)
        except StoreUnavailable:
            # The answer may have got lost after the commit: ask again, and believe a refusal
            # only where somebody else may really have got the message.
            ended = await self._with_own(endings, await commit(work))
        self._wakeups.tell(_queues_to_wake(sends))
        stops = [*accumulate(len(settlement.endings) for settlement in settlements)]
        return [ended.result(endings, *places) for places in pairwise([0, *stops])]

    async def _with_own(self, endings: Sequence[Ending], ended: _Ended) -> _Ended:
        """A node that nobody ended still held what was refused: it settled it itself."""
        refused = [place for place in range(len(endings)) if place not in ended.done]
        holders = list({endings[place].held.holder for place in refused})
        still = await self._database.run(
            lambda connection: connection.fetch(SQL.not_ended, holders)
        )
        alive = {row["id"] for row in still}
        own = {place for place in refused if endings[place].held.holder in alive}
        return ended._replace(done=ended.done | own)

    async def _carry_out(
        self, connection: Connection, endings: Sequence[Ending], sends: Sequence[_Send]
    ) -> _Ended:
        """Of several ends of one handing-out the first counts; the others come too late."""
        places: dict[Held, int] = {}
        for place, ending in enumerate(endings):
            places.setdefault(ending.held, place)
        ended = _Ended(set(), set())
        for _ in range(LOOKS_MAX):
            left = [place for place in places.values() if place not in ended.done]
            if not left:
                break
            done, duplicates = await self._end(connection, [endings[place] for place in left])
            ended.done.update(places[held] for held in done)
            ended.duplicates.update(places[held] for held in duplicates)
        if sends:
            counted = ended.done - ended.duplicates
            groups = [send.group for send in sends if send.cause in counted]
            await self._sender.store(connection, groups, new_id())
        return ended

    async def _end(
        self, connection: Connection, endings: Sequence[Ending]
    ) -> tuple[set[Held], set[Held]]:
        """What was still held, and what of it was done before for the same event."""
        by_fate: dict[Fate, list[Ending]] = {}
        for ending in endings:
            by_fate.setdefault(ending.fate, []).append(ending)
        done: set[Held] = set()
        duplicates: set[Held] = set()
        if acks := by_fate.get(Fate.ACK):
            acked = await connection.fetch(SQL.ack, self._moment(), *_fences(acks))
            done = {_held(row) for row in acked}
            duplicates = {_held(row) for row in acked if not row["fresh"]}
        if backs := by_fate.get(Fate.RETRY, []) + by_fate.get(Fate.RELEASE, []):
            done |= await self.put_back(connection, backs)
        if dead := by_fate.get(Fate.DEAD):
            done |= await self.bury(connection, dead)
        return done, duplicates

    async def put_back(self, connection: Connection, endings: Sequence[Ending]) -> set[Held]:
        """Makes what is still held ready again."""
        back = await connection.fetch(
            SQL.retry,
            self._moment(),
            *_fences(endings),
            [ending.delay_seconds for ending in endings],
            [int(ending.counts_attempt) for ending in endings],
            [ending.error for ending in endings],
        )
        return {_held(row) for row in back}

    async def bury(self, connection: Connection, endings: Sequence[Ending]) -> set[Held]:
        """Moves what is still held to the dead letters."""
        letters = {new_id(): ending.held for ending in endings}
        gone = await connection.fetch(
            SQL.bury,
            self._moment(),
            *_fences(endings),
            [*letters],
            [ending.reason or "failed" for ending in endings],
            [ending.error for ending in endings],
            [int(ending.counts_attempt) for ending in endings],
        )
        return {letters[row["id"]] for row in gone}

    async def _sends(self, endings: Iterable[Ending]) -> list[_Send]:
        """What the endings send, their queues found."""
        return [
            _Send(
                place,
                await self._sender.group(Scope(ending.held.tenant), send.queue, [send.message]),
            )
            for place, ending in enumerate(endings)
            for send in ending.sends
        ]


def _is_own(scope: Scope, ending: Ending) -> bool:
    """Whether the scope can be the holder at all."""
    held = ending.held
    return can_be_held(held) and (scope.is_system or held.tenant == scope.tenant)


class _JoinedFailed(Exception):
    """Carries an error of the caller's own past those that are the database's."""

    def __init__(self, error: Exception) -> None:
        self.error = error


async def _join(joined: Joined, connection: Connection) -> None:
    """The caller's writes; what they changed of the session is undone, it is not theirs."""
    try:
        wanted = joined(connection)
        if isawaitable(wanted):
            await wanted
        await connection.execute("RESET ALL")
    except CONNECT_ERRORS as error:
        raise _JoinedFailed(error) from error


def _queues_to_wake(sends: Iterable[_Send]) -> set[UUID]:
    return {send.group.queue_id for send in sends}


def _fences(endings: Sequence[Ending]) -> tuple[list[str], list[UUID], list[int], list[UUID]]:
    held = [ending.held for ending in endings]
    return (
        [each.tenant for each in held],
        [each.id for each in held],
        [each.claim for each in held],
        [each.holder for each in held],
    )


def _held(row: Any) -> Held:
    return Held(row["tenant"], row["id"], row["claim"], row["holder"])
