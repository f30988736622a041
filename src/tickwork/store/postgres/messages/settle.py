"""Settles messages on PostgreSQL: the settlements of many callers in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, groupby, pairwise

from msgspec import structs

from tickwork.core.limits import check_settlement, is_next_claim, is_own_claim
from tickwork.core.model import Ending, Message, Scope, Settlement, SettleResult
from tickwork.errors import ClaimLost, NotFound, StoreUnavailable
from tickwork.store.message_contract import Joined
from tickwork.store.postgres.endpoints.publish import NewEvent, Publisher
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.batch_fill import PreparedBatch
from tickwork.store.postgres.messages.effects import EndedMessages
from tickwork.store.postgres.messages.joint_commit import JointSettler
from tickwork.store.postgres.messages.send import Parcel, Sender
from tickwork.store.postgres.messages.settle_statements import (
    CausedMessages,
    EndingWriter,
    Settled,
)
from tickwork.store.shared.group_commit import Coalescer
from tickwork.store.shared.joined_writes import waiting_writes


class Settler:
    """Settles claims."""

    def __init__(
        self,
        database: Database,
        sender: Sender,
        publisher: Publisher,
        ending_writer: EndingWriter,
    ) -> None:
        self._database = database
        self._sender = sender
        self._publisher = publisher
        self._ending_writer = ending_writer
        self._coalescer: Coalescer[Settlement, SettleResult] = Coalescer(
            self._commit, flights_max=2
        )
        self._joiner = JointSettler(database, ending_writer, self._caused)
        self.row_hints = ending_writer.row_hints

    async def settle(self, scope: Scope, settlement: Settlement) -> SettleResult:
        check_settlement(settlement)
        foreign = {
            ending.claim for ending in settlement.endings if not is_own_claim(scope, ending.claim)
        }
        own = settlement.endings
        if foreign:
            own = tuple(ending for ending in own if ending.claim not in foreign)
        result = SettleResult()
        if own:
            items = sum(len(batch.items) for ending in own for batch in ending.batches)
            try:
                if waiting_writes():
                    result = await self._settle_with_writes(own)
                else:
                    result = await self._coalescer.submit(Settlement(own), len(own) + items)
            finally:
                self.row_hints.forget(own)
        if not foreign:
            return result
        refused = foreign.union(result.refused)
        claims = (ending.claim for ending in settlement.endings)
        return structs.replace(result, refused=tuple(claim for claim in claims if claim in refused))

    async def _settle_with_writes(self, endings: Sequence[Ending]) -> SettleResult:
        """Settles in a transaction of its own, with the writes that the caller joins to it."""
        caused = await self._caused(endings)

        async def work(connection: Connection) -> tuple[bool, Settled]:
            settled = await self._ending_writer.carry_out(connection, endings, caused)
            return bool(settled.ended.done), settled

        _, settled = await self._database.change(work, repeatable=False)
        await self._ending_writer.finish(settled)
        return settled.ended.result(endings, 0, len(endings))

    async def settle_unclaimed(self, scope: Scope, message: Message, ending: Ending) -> bool:
        check_settlement(Settlement((ending,)))
        if not is_next_claim(scope, message, ending.claim):
            return False
        caused = await self._caused([ending])

        async def work(connection: Connection) -> tuple[bool, Settled | None]:
            taken = await self._ending_writer.take_and_end(connection, message, ending, caused)
            return taken is not None, taken

        _, settled = await self._database.change(work, repeatable=False)
        if settled is None:
            return False
        await self._ending_writer.finish(settled)
        return bool(settled.ended.done)

    async def settle_jointly(self, scope: Scope, settlement: Settlement, joined: Joined) -> None:
        check_settlement(settlement)
        endings = settlement.endings
        self.row_hints.forget(endings)
        if foreign := [
            ending.claim.id for ending in endings if not is_own_claim(scope, ending.claim)
        ]:
            raise ClaimLost(foreign)
        try:
            await self._joiner.settle(endings, joined)
        except NotFound:
            self._publisher.forget()
            await self._joiner.settle(endings, joined)

    async def drain(self) -> None:
        await self._coalescer.drain()
        await self._joiner.drain()

    async def _commit(self, settlements: Sequence[Settlement]) -> list[SettleResult]:
        try:
            return await self._carry_out(settlements)
        except NotFound:
            # A cached queue or subscriber was deleted. Look them up again.
            self._publisher.forget()
            return await self._carry_out(settlements)

    async def _carry_out(self, settlements: Sequence[Settlement]) -> list[SettleResult]:
        endings = [ending for settlement in settlements for ending in settlement.endings]
        ended = await self._ack_plain(endings)
        if ended is None or len(ended.done) < len(endings):
            ended = await self._settle_rest(endings, ended)
        stops = [*accumulate(len(settlement.endings) for settlement in settlements)]
        return [ended.result(endings, *bounds) for bounds in pairwise([0, *stops])]

    async def _ack_plain(self, endings: Sequence[Ending]) -> EndedMessages | None:
        """The fast path: plain acks without key, batch or cap, in one statement. Returns None if it
        is unknown whether they were stored."""
        if not all(map(self._ending_writer.is_plain, endings)):
            return EndedMessages.nothing()
        try:
            settled = await self._database.run(
                lambda connection: self._ending_writer.ack_plain(connection, endings),
                repeatable=False,
            )
        except StoreUnavailable:
            return None
        await self._ending_writer.finish(settled)
        return settled.ended

    async def _settle_rest(
        self, endings: Sequence[Ending], known: EndedMessages | None
    ) -> EndedMessages:
        """Settles the remaining claims in one transaction."""
        before = known or EndedMessages.nothing()
        rest = [index for index in range(len(endings)) if index not in before.done]
        remaining = [endings[index] for index in rest]
        caused = await self._caused(remaining)

        async def work(connection: Connection) -> Settled:
            return await self._ending_writer.carry_out(connection, remaining, caused)

        # The reply may be lost after the commit. Then run it again, and check the claims that the
        # second run refuses: the first run may have settled them.
        is_outcome_known = known is not None
        try:
            settled = await self._database.transact(work, repeatable=not is_outcome_known)
        except StoreUnavailable:
            if not is_outcome_known:
                raise
            is_outcome_known = False
            settled = await self._database.transact(work)
        ended = (
            settled.ended
            if is_outcome_known
            else await self._with_settled_before(remaining, settled.ended)
        )
        await self._ending_writer.finish(settled)
        return before._replace(
            done=before.done.union(rest[index] for index in ended.done),
            duplicates=before.duplicates.union(rest[index] for index in ended.duplicates),
        )

    async def _with_settled_before(
        self, endings: Sequence[Ending], ended: EndedMessages
    ) -> EndedMessages:
        """If the node is still alive, an earlier call settled the refused claims."""
        refused = [index for index in range(len(endings)) if index not in ended.done]
        holders = list({endings[index].claim.holder for index in refused})
        found = await self._database.run(
            lambda connection: connection.fetch(SQL.nodes_not_ended, holders)
        )
        alive = {row["id"] for row in found}
        own = {index for index in refused if endings[index].claim.holder in alive}
        return ended._replace(done=ended.done | own)

    async def _caused(self, endings: Sequence[Ending]) -> CausedMessages:
        """Looks up the queues and subscribers of the messages and events that the endings send."""
        sends: dict[int, list[Parcel]] = {}
        events: dict[int, list[NewEvent]] = {}
        batches: dict[int, list[PreparedBatch]] = {}
        for index, ending in enumerate(endings):
            scope = Scope(ending.claim.tenant)
            for queue, together in groupby(ending.sends, lambda send: send.queue):
                if queue is not None:
                    messages = [send.message for send in together]
                    parcel = await self._sender.parcel(scope, queue, messages)
                    sends.setdefault(index, []).append(parcel)
                    continue
                for send in together:
                    event = await self._publisher.prepare(
                        ending.claim.tenant, send.message, send.owner
                    )
                    events.setdefault(index, []).append(event)
            for batch in ending.batches:
                group = await self._sender.group(scope, batch.queue, batch.items, batch.id)
                parcel = await self._sender.with_subscribers(group)
                prepared = PreparedBatch(batch.id, parcel, batch.completion_queue)
                batches.setdefault(index, []).append(prepared)
        return CausedMessages(sends, batches, events)
