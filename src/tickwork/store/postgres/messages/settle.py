"""Settlements on PostgreSQL: those of many callers in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from msgspec import structs

from tickwork.core.limits import check_settlement, is_possible_claim
from tickwork.core.model import Ending, Fate, Scope, Settlement, SettleResult
from tickwork.errors import ClaimLost, NotFound, StoreUnavailable
from tickwork.store.contract import Joined
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.batch_fill import PreparedBatch
from tickwork.store.postgres.messages.joint_commit import JointSettler
from tickwork.store.postgres.messages.send import Parcel, Sender
from tickwork.store.postgres.messages.settle_statements import (
    CausedMessages,
    EndedMessages,
    EndingWriter,
    Settled,
)
from tickwork.store.shared.group_commit import Coalescer


class Settler:
    """Settles claims."""

    def __init__(self, database: Database, sender: Sender, ender: EndingWriter) -> None:
        self._database, self._sender, self._ender = database, sender, ender
        self._coalescer: Coalescer[Settlement, SettleResult] = Coalescer(
            self._commit, flights_max=2
        )
        self._joiner = JointSettler(database, ender, self._caused)
        self.sightings = ender.sightings

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        check_settlement(settlement)
        strange = {ending.claim for ending in settlement.endings if not _is_own(scope, ending)}
        own = settlement.endings
        if strange:
            own = tuple(ending for ending in own if ending.claim not in strange)
        result = SettleResult()
        if own:
            items = sum(len(batch.items) for ending in own for batch in ending.batches)
            result = await self._coalescer.submit(Settlement(own), len(own) + items)
        if not strange:
            return result
        refused = strange.union(result.refused)
        held = (ending.claim for ending in settlement.endings)
        return structs.replace(result, refused=tuple(each for each in held if each in refused))

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        check_settlement(settlement)
        endings = settlement.endings
        if strange := [ending.claim.id for ending in endings if not _is_own(scope, ending)]:
            raise ClaimLost(strange)
        try:
            await self._joiner.settle(endings, joined)
        except NotFound:
            await self._joiner.settle(endings, joined)

    async def drain(self) -> None:
        await self._coalescer.drain()
        await self._joiner.drain()

    async def _commit(self, settlements: Sequence[Settlement]) -> list[SettleResult]:
        try:
            return await self._carry_out(settlements)
        except NotFound:
            # A queue that was remembered is gone; there may be another, or one subscriber less.
            return await self._carry_out(settlements)

    async def _carry_out(self, settlements: Sequence[Settlement]) -> list[SettleResult]:
        endings = [ending for settlement in settlements for ending in settlement.endings]
        ended = await self._ack_plain(endings)
        if ended is None or len(ended.done) < len(endings):
            ended = await self._settle_rest(endings, ended)
        stops = [*accumulate(len(settlement.endings) for settlement in settlements)]
        return [ended.result(endings, *places) for places in pairwise([0, *stops])]

    async def _ack_plain(self, endings: Sequence[Ending]) -> EndedMessages | None:
        """The common case in one statement: acks without side effects other than a slot's
        success. If any has another side effect, nothing is done. Returns None if the outcome is
        unknown."""
        if any(
            ending.fate is not Fate.ACK
            or ending.sends
            or ending.batches
            or (ending.firing and not ending.firing.is_bare_success)
            for ending in endings
        ):
            return EndedMessages.nothing()
        try:
            settled = await self._database.run(
                lambda connection: self._ender.ack_plain(connection, endings), repeatable=False
            )
        except StoreUnavailable:
            return None
        await self._ender.finish(settled)
        return settled.ended

    async def _settle_rest(
        self, endings: Sequence[Ending], known: EndedMessages | None
    ) -> EndedMessages:
        """Settles the remaining claims in one transaction."""
        before = known or EndedMessages.nothing()
        rest = [place for place in range(len(endings)) if place not in before.done]
        left = [endings[place] for place in rest]
        caused = await self._caused(left)

        async def work(connection: Connection) -> Settled:
            return await self._ender.carry_out(connection, left, caused)

        # An answer may get lost after the commit: then ask again, and believe a refusal only where
        # somebody else may really have got the message.
        is_sure = known is not None
        try:
            settled = await self._database.transact(work, repeatable=not is_sure)
        except StoreUnavailable:
            if not is_sure:
                raise
            is_sure = False
            settled = await self._database.transact(work)
        ended = settled.ended if is_sure else await self._with_own(left, settled.ended)
        await self._ender.finish(settled)
        return before._replace(
            done=before.done.union(rest[place] for place in ended.done),
            duplicates=before.duplicates.union(rest[place] for place in ended.duplicates),
        )

    async def _with_own(self, endings: Sequence[Ending], ended: EndedMessages) -> EndedMessages:
        """Counts refused claims as settled if their node was never ended: the lost answer was a
        success."""
        refused = [place for place in range(len(endings)) if place not in ended.done]
        holders = list({endings[place].claim.holder for place in refused})
        still = await self._database.run(
            lambda connection: connection.fetch(SQL.nodes_not_ended, holders)
        )
        alive = {row["id"] for row in still}
        own = {place for place in refused if endings[place].claim.holder in alive}
        return ended._replace(done=ended.done | own)

    async def _caused(self, endings: Sequence[Ending]) -> CausedMessages:
        """Finds the queues and subscribers of what the endings send."""
        sends: dict[int, list[Parcel]] = {}
        batches: dict[int, list[PreparedBatch]] = {}
        for place, ending in enumerate(endings):
            scope = Scope(ending.claim.tenant)
            for send in ending.sends:
                parcel = await self._sender.parcel(scope, send.queue, [send.message])
                sends.setdefault(place, []).append(parcel)
            for batch in ending.batches:
                group = await self._sender.group(scope, batch.queue, batch.items, batch.id)
                whole = PreparedBatch(batch.id, group, batch.completion_queue)
                batches.setdefault(place, []).append(whole)
        return CausedMessages(sends, batches)


def _is_own(scope: Scope, ending: Ending) -> bool:
    """Whether the scope can have this claim."""
    held = ending.claim
    return is_possible_claim(held) and (scope.is_system or held.tenant == scope.tenant)
