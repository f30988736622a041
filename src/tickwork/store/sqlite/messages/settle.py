"""Settles messages on SQLite: plain acks by a fast path, everything else in general statements."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from itertools import chain

from tickwork.core.limits import check_settlement, is_next_claim, is_own_claim
from tickwork.core.model import SYSTEM, Ending, Message, Scope, Settlement, SettleResult
from tickwork.store.message_contract import Joined
from tickwork.store.shared.effects import by_rank
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.shared.joined_writes import waiting_writes
from tickwork.store.shared.row_hints import RowHints
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.effects import EffectWriters
from tickwork.store.sqlite.messages.joint_commit import JointSettler
from tickwork.store.sqlite.messages.plain_acks import PlainAcks, plain_acks
from tickwork.store.sqlite.messages.settle_statements import Endings


class Settler:
    """Settles claims."""

    def __init__(self, database: Database, writers: EffectWriters) -> None:
        self._database = database
        self._writers = writers = by_rank(writers)
        self._joint = JointSettler(database, writers)
        self._coalescer: Coalescer[Sequence[Ending], SettleResult] = Coalescer(
            self._commit, flights_max=2
        )
        self.row_hints: RowHints[int] = RowHints()

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        check_settlement(settlement)
        if not settlement.endings:
            return SettleResult()
        if waiting_writes():
            return await self._settle_with_writes(scope, settlement.endings)
        plain = plain_acks(scope, settlement.endings, self.row_hints, self._writers)
        if plain is not None:
            return await self._settle_plain(scope, settlement.endings, plain)
        self.row_hints.forget(settlement.endings)
        if all(is_own_claim(scope, ending.claim) for ending in settlement.endings):
            items = sum(
                len(batch.items) for ending in settlement.endings for batch in ending.batches
            )
            rows = len(settlement.endings) + items
            return await self._coalescer.submit(settlement.endings, rows)
        endings = Endings(scope, settlement.endings, self._writers)
        return await self._database.write(endings.carry_out, rows=endings.rows)

    def _commit(self, settled: Sequence[Sequence[Ending]]) -> Awaitable[list[SettleResult]]:
        """Settles for many callers. Callers that settle the same claim, such as steps of one run
        that end together, are settled one after the other."""
        parts = [
            (part, Endings(SYSTEM, [*chain(*part)], self._writers))
            for part in _without_repeats(settled)
        ]

        def work(transaction: Transaction) -> list[SettleResult]:
            results: list[SettleResult] = []
            for part, endings in parts:
                result = endings.carry_out(transaction)
                results += [_result_of(own_endings, result) for own_endings in part]
            return results

        return self._database.write(work, rows=sum(endings.rows for _, endings in parts))

    async def _settle_with_writes(self, scope: Scope, endings: Sequence[Ending]) -> SettleResult:
        """Settles with the writes that the caller joins to it."""
        self.row_hints.forget(endings)
        prepared = Endings(scope, endings, self._writers)

        def work(transaction: Transaction) -> tuple[bool, SettleResult]:
            result = prepared.carry_out(transaction)
            return len(result.refused) < len(endings), result

        _, result = await self._database.change(work, rows=prepared.rows)
        return result

    async def _settle_plain(
        self, scope: Scope, endings: Sequence[Ending], plain: PlainAcks
    ) -> SettleResult:
        def work(transaction: Transaction) -> SettleResult:
            if plain.carry_out(transaction):
                return SettleResult()
            return Endings(scope, endings, self._writers).carry_out(transaction)

        return await self._database.write(work, rows=len(endings))

    async def settle_unclaimed(self, scope: Scope, message: Message, ending: Ending) -> bool:
        check_settlement(Settlement((ending,)))
        claim = ending.claim
        if not is_next_claim(scope, message, claim):
            return False
        endings = Endings(scope, (ending,), self._writers)

        def work(transaction: Transaction) -> bool:
            taken = (
                claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes, transaction.now
            )  # fmt: skip
            if transaction.execute(SQL.take_message, taken).rowcount == 0:
                return False
            return not endings.carry_out(transaction).refused

        return await self._database.change(work, rows=endings.rows)

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        self.row_hints.forget(settlement.endings)
        await self._joint.settle(scope, settlement, joined)


def _without_repeats(settled: Sequence[Sequence[Ending]]) -> list[list[Sequence[Ending]]]:
    """The callers' endings in order, in parts of which none has two callers' endings of
    one message."""
    parts: list[list[Sequence[Ending]]] = []
    messages: set[int] = set()
    for endings in settled:
        own = {ending.claim.id.int for ending in endings}
        if not parts or not messages.isdisjoint(own):
            parts.append([])
            messages = set()
        parts[-1].append(endings)
        messages |= own
    return parts


def _result_of(endings: Sequence[Ending], result: SettleResult) -> SettleResult:
    """A caller's part of the result."""
    if not result.refused and not result.duplicates:
        return result
    own = {ending.claim for ending in endings}
    return SettleResult(
        tuple(claim for claim in result.refused if claim in own),
        tuple(duplicate for duplicate in result.duplicates if duplicate in own),
    )
