"""Plain acks on SQLite: of messages that were claimed together, and on which nothing hangs.

They are most of what a worker says, and every row that goes to and fro is a crossing between Python
and SQLite. So nothing is said of each: their places go in as one value, and what comes back is how
many there are of each kind. Whatever is not quite plain is settled the usual way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from tickwork.core.limits import can_be_held
from tickwork.core.model import Ending, Fate, Scope
from tickwork.core.tally import Passing
from tickwork.store.sightings import Sightings
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.passed import Passed
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.statements import SQL


class PlainAcks(NamedTuple):
    """Acks of one tenant's messages, all of the same claim number and holder."""

    places: Sequence[int]
    ids: bytes
    tenant: str
    claim: int
    holder: bytes

    def carry_out(self, transaction: Transaction) -> bool:
        """Deletes all of them; False, with nothing done, if one is not held any more, or
        something hangs on it."""
        places = rows.as_json(self.places)
        values = (places, self.ids, self.tenant, self.claim, self.holder)
        kinds = transaction.execute(SQL.held_kinds, values).fetchall()
        found = sum(messages for _, _, _, messages, _, _ in kinds)
        if found < len(self.places) or any(entangled for *_, entangled in kinds):
            return False
        transaction.execute(SQL.ack_plain, (places,))
        for queue_id, type_, source, messages, freed, _ in kinds:
            passed = Passed(queue_id, self.tenant, Passing.DONE, type_, source, messages)
            transaction.passed.append(passed)
            transaction.execute(SQL.free_backlog, (queue_id, freed))
        return True


def plain_acks(
    scope: Scope, endings: Sequence[Ending], sightings: Sightings[int]
) -> PlainAcks | None:
    """The endings as plain acks; None if they are not all such."""
    first = endings[0].held
    tenant, claim, holder = first.tenant, first.claim, first.holder
    if not can_be_held(first) or not (scope.is_system or scope.tenant == tenant):
        return None
    ids: list[UUID] = []
    for ending in endings:
        held = ending.held
        if (
            ending.fate is not Fate.ACK
            or ending.sends
            or ending.batches
            or ending.firing is not None
            or held.claim != claim
            or held.holder != holder
            or held.tenant != tenant
        ):
            return None
        ids.append(held.id)
    places = [place for place in sightings.take(ids) if place is not None]
    if len({*places}) < len(ids):
        return None
    return PlainAcks(places, b"".join([each.bytes for each in ids]), tenant, claim, holder.bytes)
