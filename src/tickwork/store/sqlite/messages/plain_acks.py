"""Plain acks on SQLite: messages claimed together, without sends or batches.

Most settlements are plain acks, and every row is a crossing between Python and SQLite. So the
rowids go in as one JSON value, and the result is a count per type and source. A kind of effect may
be plain, too, if its writer needs only the rows of the messages, such as the success of a slot
without further details. Everything else is settled the general way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from tickwork.core.effects import Effect
from tickwork.core.limits import is_possible_claim
from tickwork.core.model import Ending, Fate, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.store.shared.row_hints import RowHints
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import SQL
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows
from tickwork.store.sqlite.messages.effects import EffectWriter, EffectWriters
from tickwork.store.sqlite.messages.history import PlainHistory

Writer: TypeAlias = type[EffectWriter[Any]]

_BYTES = attrgetter("bytes")


class PlainAcks(NamedTuple):
    """Acks of one tenant's messages with the same claim number and holder. `effects` are those of
    each writer, one for every message."""

    rowids: Sequence[int]
    ids: bytes
    tenant: str
    claim: int
    holder: bytes
    effects: Mapping[Writer, Sequence[Effect]]
    history: PlainHistory

    def carry_out(self, transaction: Transaction) -> bool:
        """Deletes all of the messages. False, with nothing changed, if one of them is no longer
        claimed or its removal has further effects."""
        rowids = self.history.rowids
        values = (rowids, self.ids, self.tenant, self.claim, self.holder)
        kinds = transaction.execute(SQL.claimed_kinds, values).fetchall()
        found = sum(kind[3] for kind in kinds)
        if found < len(self.rowids) or any(kind[5] for kind in kinds):
            return False
        for writer, effects in self.effects.items():
            writer.write_plain(transaction, self.rowids, effects)
        is_correlated = any(kind[6] for kind in kinds)
        for queue_id in {kind[0] for kind in kinds}:
            self.history.record(transaction, queue_id, is_correlated=is_correlated)
        transaction.execute(SQL.ack_plain, (rowids,))
        freed: Counter[bytes] = Counter()
        for queue_id, type_, source, messages, size, *_ in kinds:
            counted = CountedMessages(
                queue_id, self.tenant, CounterName.DONE, type_, source, messages
            )
            transaction.counted.append(counted)
            freed[queue_id] += size
        for queue_id, size in freed.items():
            transaction.execute(SQL.change_backlog, (queue_id, -size))
        return True


def plain_acks(
    scope: Scope, endings: Sequence[Ending], row_hints: RowHints[int], writers: EffectWriters
) -> PlainAcks | None:
    """The endings as plain acks; None if one of them is not plain."""
    first = endings[0].claim
    tenant = first.tenant
    claim = first.number
    holder = first.holder
    if not is_possible_claim(first) or not (scope.is_system or scope.tenant == tenant):
        return None
    ids: list[UUID] = []
    effects: dict[Writer, list[Effect]] = {}
    for ending in endings:
        ending_claim = ending.claim
        if (
            ending.fate is not Fate.ACK
            or ending.sends
            or ending.batches
            or ending_claim.number != claim
            or ending_claim.holder != holder
            or ending_claim.tenant != tenant
        ):
            return None
        for effect in ending.effects:
            writer = writers[type(effect)]
            if not writer.is_plain(effect):
                return None
            effects.setdefault(writer, []).append(effect)
        ids.append(ending_claim.id)
    rowids = [rowid for rowid in row_hints.take(ids) if rowid is not None]
    if len({*rowids}) < len(ids) or any(len(same) < len(ids) for same in effects.values()):
        return None
    joined = b"".join(map(_BYTES, ids))
    took = [ending.took_seconds for ending in endings]
    history = PlainHistory(rows.as_json(rowids), ids, tenant, holder.bytes, took)
    return PlainAcks(rowids, joined, tenant, claim, holder.bytes, effects, history)
