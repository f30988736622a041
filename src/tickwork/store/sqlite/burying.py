"""Dead messages on SQLite: a letter for each, and perhaps a place in a dead-letter queue."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from uuid import UUID

from tickwork.core.message.error_summary import fingerprint
from tickwork.core.model import Scope
from tickwork.core.queue.stats import Passing
from tickwork.errors import NotFound
from tickwork.store.ids import new_id
from tickwork.store.sqlite import rows
from tickwork.store.sqlite.completing import BatchName
from tickwork.store.sqlite.finding import Found, find_queue
from tickwork.store.sqlite.leaving import BYTES, PLACE, QUEUE_ID, SOURCE, TENANT, TYPE, Gone, leave
from tickwork.store.sqlite.passed import Passed
from tickwork.store.sqlite.pieces import Transaction
from tickwork.store.sqlite.sending import take_backlog
from tickwork.store.sqlite.slot_ends import Dead, dead_slots, end_slots, is_expired_unseen
from tickwork.store.sqlite.statements import SQL
from tickwork.store.sqlite.telling import tell_of_dead


class Burial(NamedTuple):
    """A message that becomes a dead letter, and why."""

    place: int
    reason: str
    error: str | None = None
    counted: int = 0


class Buried(NamedTuple):
    """How many became dead letters, and how many of these were slots that expired before anybody
    had begun with them."""

    dead: int
    expired_slots: int


def bury(
    transaction: Transaction, burials: Sequence[Burial], *, later: set[BatchName] | None = None
) -> int:
    """Moves messages to the dead letters, and on to the dead-letter queue of their queue if
    there is one; says how many. `later` as `leave` has it."""
    if not burials:
        return 0
    letter_ids = {each.place: new_id().bytes for each in burials}
    transaction.connection.executemany(
        SQL.bury,
        [
            (each.place, letter_ids[each.place], each.reason, each.error, fingerprint(each.error),
             each.counted, transaction.now)
            for each in burials
        ],
    )  # fmt: skip
    gone = transaction.execute(SQL.delete_places, (rows.as_json(letter_ids),)).fetchall()
    reasons = {each.place: each.reason for each in burials}
    for reason in set(reasons.values()):
        alike = [row for row in gone if reasons[row[PLACE]] == reason]
        leave(transaction, alike, Passing.DEAD, reason, later=later)
    _move_on(transaction, {row[PLACE]: row for row in gone}, letter_ids)
    tell_of_dead(transaction, {letter_ids[row[PLACE]]: row[TENANT] for row in gone})
    return len(gone)


def bury_unseen(transaction: Transaction, burials: Sequence[Burial]) -> Buried:
    """Buries messages that die by themselves: of slots among them, nobody else tells."""
    ended = dead_slots(transaction, [Dead(each.place, each.reason, each.error) for each in burials])
    buried = bury(transaction, burials)
    end_slots(transaction, ended)
    return Buried(buried, sum(map(is_expired_unseen, ended)))


def _move_on(transaction: Transaction, gone: dict[int, Gone], letter_ids: dict[int, bytes]) -> None:
    """What died in a queue with a dead-letter queue is a message there, whatever the cap says."""
    targets: dict[tuple[str, bytes], Found | None] = {}
    for place, letter_id in letter_ids.items():
        row = gone[place]
        died_in = (row[TENANT], row[QUEUE_ID])
        if died_in not in targets:
            targets[died_in] = _dead_letter_queue(transaction, *died_in)
        queue = targets[died_in]
        if queue is not None:
            values = (letter_id, queue.id, transaction.now)
            transaction.execute(SQL.move_letter, values)
            passed = Passed(queue.id, row[TENANT], Passing.SENT, row[TYPE], row[SOURCE], 1)
            transaction.passed.append(passed)
            transaction.woken.add(UUID(bytes=queue.id))
            if queue.bytes_max is not None:
                take_backlog(transaction, queue, row[BYTES], is_exempt=True)


def _dead_letter_queue(transaction: Transaction, tenant: str, queue_id: bytes) -> Found | None:
    row = transaction.execute(SQL.read_settings, (queue_id,)).fetchone()
    name = rows.settings(row[0]).dead_letter_queue if row else None
    if name is not None:
        with suppress(NotFound):
            return find_queue(transaction, Scope(tenant), name)
    return None
