"""Settling on PostgreSQL: endings in bulk, each behind its fence.

Plain acks, the usual case, are one statement that commits by itself. Everything else is one
transaction: first the rows that are really still held are taken away or put back, then what
hangs on them happens, and only on them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from inspect import isawaitable
from typing import NamedTuple
from uuid import UUID

from tickwork.core.limits import check_message
from tickwork.core.model import Ending, Fate, Scope, Settlement, SettleResult
from tickwork.errors import ClaimLost, StoreUnavailable
from tickwork.store.coalescer import Coalescer
from tickwork.store.contract import Joined
from tickwork.store.ids import new_id
from tickwork.store.moment import Moment
from tickwork.store.postgres.database import SQL, Connection, Database
from tickwork.store.postgres.sending import Group, Sender
from tickwork.store.postgres.wakeups import PostgresWakeups

_Name = tuple[str, UUID]


class _Send(NamedTuple):
    """A message on its way, and the message whose handler sent it."""

    cause: _Name
    group: Group


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
        _check(scope, settlement)
        if not settlement.endings:
            return SettleResult()
        return await self._coalescer.submit(settlement, len(settlement.endings))

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        _check(scope, settlement)
        sends = await self._sends(settlement.endings)

        async def work(connection: Connection) -> None:
            result = await self._carry_out(connection, settlement.endings, sends)
            if result.refused or result.duplicates:
                raise ClaimLost(held.id for held in (*result.refused, *result.duplicates))
            wanted = joined(connection)
            if isawaitable(wanted):
                await wanted

        await self._database.transact(work, repeatable=False)
        self._wakeups.tell(_queues_to_wake(sends))

    async def drain(self) -> None:
        await self._coalescer.drain()

    async def _commit(self, settlements: Sequence[Settlement]) -> list[SettleResult]:
        endings = [ending for settlement in settlements for ending in settlement.endings]
        sends = await self._sends(endings)
        only_acks = not sends and all(ending.fate is Fate.ACK for ending in endings)
        commit = self._database.run if only_acks else self._database.transact

        async def work(connection: Connection) -> SettleResult:
            return await self._carry_out(connection, endings, sends)

        try:
            result = await commit(work, repeatable=False)
        except StoreUnavailable:
            # The answer may have got lost after the commit: ask again, and believe a refusal
            # only where somebody else may really have got the message.
            result = await self._without_own(await commit(work))
        self._wakeups.tell(_queues_to_wake(sends))
        return [_part(result, settlement) for settlement in settlements]

    async def _without_own(self, result: SettleResult) -> SettleResult:
        """A node that nobody ended still held what was refused: it settled it itself."""
        holders = list({held.holder for held in result.refused})
        still = await self._database.run(
            lambda connection: connection.fetch(SQL.not_ended, holders)
        )
        alive = {row["id"] for row in still}
        refused = tuple(held for held in result.refused if held.holder not in alive)
        return SettleResult(refused, result.duplicates)

    async def _carry_out(
        self, connection: Connection, endings: Sequence[Ending], sends: Sequence[_Send]
    ) -> SettleResult:
        by_fate: dict[Fate, list[Ending]] = {}
        for ending in endings:
            by_fate.setdefault(ending.fate, []).append(ending)
        done: set[_Name] = set()
        duplicates: set[_Name] = set()
        if acks := by_fate.get(Fate.ACK):
            acked = await connection.fetch(SQL.ack, self._moment(), *_fences(acks))
            done = {(row["tenant"], row["id"]) for row in acked}
            duplicates = {(row["tenant"], row["id"]) for row in acked if not row["fresh"]}
        if backs := by_fate.get(Fate.RETRY, []) + by_fate.get(Fate.RELEASE, []):
            done |= await self.put_back(connection, backs)
        if dead := by_fate.get(Fate.DEAD):
            done |= await self.bury(connection, dead)
        if sends:
            counted = done - duplicates
            groups = [send.group for send in sends if send.cause in counted]
            await self._sender.store(connection, groups, new_id())
        return _result(endings, done, duplicates)

    async def put_back(self, connection: Connection, endings: Sequence[Ending]) -> set[_Name]:
        """Makes what is still held ready again."""
        back = await connection.fetch(
            SQL.retry,
            self._moment(),
            *_fences(endings),
            [ending.delay_seconds for ending in endings],
            [int(ending.counts_attempt) for ending in endings],
            [ending.error for ending in endings],
        )
        return {(row["tenant"], row["id"]) for row in back}

    async def bury(self, connection: Connection, endings: Sequence[Ending]) -> set[_Name]:
        """Moves what is still held to the dead letters."""
        gone = await connection.fetch(
            SQL.bury,
            self._moment(),
            *_fences(endings),
            [new_id() for _ in endings],
            [ending.reason or "failed" for ending in endings],
            [ending.error for ending in endings],
            [int(ending.counts_attempt) for ending in endings],
        )
        return {(row["tenant"], row["message_id"]) for row in gone}

    async def _sends(self, endings: Iterable[Ending]) -> list[_Send]:
        """What the endings send, their queues found."""
        return [
            _Send(
                (ending.held.tenant, ending.held.id),
                await self._sender.group(Scope(ending.held.tenant), send.queue, [send.message]),
            )
            for ending in endings
            for send in ending.sends
        ]


def _check(scope: Scope, settlement: Settlement) -> None:
    for ending in settlement.endings:
        if not scope.is_system and ending.held.tenant != scope.tenant:
            raise ClaimLost([ending.held.id])
        for send in ending.sends:
            check_message(send.message)


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


def _result(endings: Sequence[Ending], done: set[_Name], duplicates: set[_Name]) -> SettleResult:
    if len(done) == len(endings) and not duplicates:
        return SettleResult()
    held = [ending.held for ending in endings]
    return SettleResult(
        tuple(each for each in held if (each.tenant, each.id) not in done),
        tuple(each for each in held if (each.tenant, each.id) in duplicates),
    )


def _part(result: SettleResult, settlement: Settlement) -> SettleResult:
    """What a coalesced result means for one of its settlements."""
    if not result.refused and not result.duplicates:
        return result
    mine = {ending.held for ending in settlement.endings}
    return SettleResult(
        tuple(held for held in result.refused if held in mine),
        tuple(held for held in result.duplicates if held in mine),
    )
