"""Plain acks on SQLite: messages claimed together, without sends, batches or other effects.

Most settlements are plain acks, and every row is a crossing between Python and SQLite. So the
rowids go in as one JSON value, and the result is a count per type and source. Slots that succeeded
without further details are plain, too: their firings and schedules are updated from the message
rows. Everything else is settled the general way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from operator import attrgetter
from typing import NamedTuple
from uuid import UUID

from tickwork.core.limits import is_possible_claim
from tickwork.core.model import Ending, Fate, Scope
from tickwork.core.queue.stats import CounterName
from tickwork.core.schedule.slot_outcome import AFTER_SUCCESS
from tickwork.store.ids import new_id
from tickwork.store.shared.row_hints import RowHints
from tickwork.store.sqlite.engine.counters import CountedMessages
from tickwork.store.sqlite.engine.sql import SQL, microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows

TOOK_DIGITS = 15
"""Number of digits of a slot's duration in microseconds, in the text that joins them."""

_BYTES = attrgetter("bytes")


class PlainAcks(NamedTuple):
    """Acks of one tenant's messages with the same claim number and holder; for slots with the
    seconds that each `took`. `completing` are the rowids of slots that complete their schedules."""

    rowids: Sequence[int]
    ids: bytes
    tenant: str
    claim: int
    holder: bytes
    took: Sequence[float] | None
    completing: Sequence[int] = ()

    def carry_out(self, transaction: Transaction) -> bool:
        """Deletes all of the messages. False, with nothing changed, if one of them is no longer
        claimed or its removal has further effects."""
        rowids = rows.as_json(self.rowids)
        values = (rowids, self.ids, self.tenant, self.claim, self.holder)
        kinds = transaction.execute(SQL.claimed_kinds, values).fetchall()
        found = sum(messages for _, _, _, messages, _, _ in kinds)
        if found < len(self.rowids) or any(has_effects for *_, has_effects in kinds):
            return False
        if self.took is not None:
            _end_slots(transaction, rowids, self.took)
        if self.completing:
            completing = rows.as_json(self.completing)
            transaction.execute(SQL.complete_schedules, (completing, transaction.now))
        transaction.execute(SQL.ack_plain, (rowids,))
        freed: Counter[bytes] = Counter()
        for queue_id, type_, source, messages, size, _ in kinds:
            counted = CountedMessages(
                queue_id, self.tenant, CounterName.DONE, type_, source, messages
            )
            transaction.counted.append(counted)
            freed[queue_id] += size
        for queue_id, size in freed.items():
            transaction.execute(SQL.change_backlog, (queue_id, -size))
        return True


def plain_acks(
    scope: Scope, endings: Sequence[Ending], row_hints: RowHints[int]
) -> PlainAcks | None:
    """The endings as plain acks; None if one of them is not plain."""
    first = endings[0].claim
    tenant = first.tenant
    claim = first.number
    holder = first.holder
    if not is_possible_claim(first) or not (scope.is_system or scope.tenant == tenant):
        return None
    ids: list[UUID] = []
    took: list[float] = []
    completes: list[bool] = []
    for ending in endings:
        ending_claim, firing = ending.claim, ending.firing
        if firing is not None:
            if not firing.is_bare_success:
                return None
            took.append(firing.took_seconds)
            completes.append(firing.completes)
        if (
            ending.fate is not Fate.ACK
            or ending.sends
            or ending.batches
            or ending.entity is not None
            or ending.run_end is not None
            or ending_claim.number != claim
            or ending_claim.holder != holder
            or ending_claim.tenant != tenant
        ):
            return None
        ids.append(ending_claim.id)
    rowids = [rowid for rowid in row_hints.take(ids) if rowid is not None]
    if len({*rowids}) < len(ids) or len(took) not in (0, len(ids)):
        return None
    joined = b"".join(map(_BYTES, ids))
    completing = [*compress(rowids, completes)]
    return PlainAcks(rowids, joined, tenant, claim, holder.bytes, took or None, completing)


def _end_slots(transaction: Transaction, rowids: str, took: Sequence[float]) -> None:
    ids = b"".join([new_id().bytes for _ in took])
    long = "".join([f"{microseconds(seconds):0{TOOK_DIGITS}d}" for seconds in took])
    values = (rowids, ids, long, TOOK_DIGITS, transaction.now)
    transaction.execute(SQL.record_successes, values)
    transaction.execute(SQL.show_successes, (rowids, *AFTER_SUCCESS))
