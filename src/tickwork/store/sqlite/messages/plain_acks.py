"""Plain acks on SQLite: of messages that were claimed together, and on which nothing hangs.

They are most of what a worker says, and every row that goes to and fro is a crossing between Python
and SQLite. So nothing is said of each: their places go in as one value, and what comes back is how
many there are of each kind. Slots that succeeded, with nothing else to be said of them, are plain,
too: their records and how their schedules stand are written from the messages. Whatever is not
quite plain is settled the usual way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
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
"""How long a slot took, in microseconds, in a text of all of them."""


class PlainAcks(NamedTuple):
    """Acks of one tenant's messages, all of the same claim number and holder; if they are slots,
    how long each `took`, in seconds."""

    places: Sequence[int]
    ids: bytes
    tenant: str
    claim: int
    holder: bytes
    took: Sequence[float] | None

    def carry_out(self, transaction: Transaction) -> bool:
        """Deletes all of them; False, with nothing done, if one is not held any more, or
        something hangs on it."""
        places = rows.as_json(self.places)
        values = (places, self.ids, self.tenant, self.claim, self.holder)
        kinds = transaction.execute(SQL.claimed_kinds, values).fetchall()
        found = sum(messages for _, _, _, messages, _, _ in kinds)
        if found < len(self.places) or any(entangled for *_, entangled in kinds):
            return False
        if self.took is not None:
            _end_slots(transaction, places, self.took)
        transaction.execute(SQL.ack_plain, (places,))
        freed: Counter[bytes] = Counter()
        for queue_id, type_, source, messages, size, _ in kinds:
            passed = CountedMessages(
                queue_id, self.tenant, CounterName.DONE, type_, source, messages
            )
            transaction.counted.append(passed)
            freed[queue_id] += size
        for queue_id, size in freed.items():
            transaction.execute(SQL.change_backlog, (queue_id, -size))
        return True


def plain_acks(
    scope: Scope, endings: Sequence[Ending], sightings: RowHints[int]
) -> PlainAcks | None:
    """The endings as plain acks; None if they are not all such."""
    first = endings[0].claim
    tenant, claim, holder = first.tenant, first.number, first.holder
    if not is_possible_claim(first) or not (scope.is_system or scope.tenant == tenant):
        return None
    ids: list[UUID] = []
    took: list[float] = []
    for ending in endings:
        held, firing = ending.claim, ending.firing
        if firing is not None:
            if not firing.is_bare_success:
                return None
            took.append(firing.took_seconds)
        if (
            ending.fate is not Fate.ACK
            or ending.sends
            or ending.batches
            or held.number != claim
            or held.holder != holder
            or held.tenant != tenant
        ):
            return None
        ids.append(held.id)
    places = [place for place in sightings.take(ids) if place is not None]
    if len({*places}) < len(ids) or len(took) not in (0, len(ids)):
        return None
    joined = b"".join([each.bytes for each in ids])
    return PlainAcks(places, joined, tenant, claim, holder.bytes, took or None)


def _end_slots(transaction: Transaction, places: str, took: Sequence[float]) -> None:
    ids = b"".join([new_id().bytes for _ in took])
    long = "".join([f"{microseconds(each):0{TOOK_DIGITS}d}" for each in took])
    values = (places, ids, long, TOOK_DIGITS, transaction.now)
    transaction.execute(SQL.record_successes, values)
    transaction.execute(SQL.show_successes, (places, *AFTER_SUCCESS))
