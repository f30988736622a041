"""Copies that exceed the backlog of a subscriber, on PostgreSQL: they become dead letters there."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from tickwork.core.message.error_summary import fingerprint
from tickwork.core.message.subscription import beyond_room
from tickwork.core.model import REASON_BACKLOG_FULL
from tickwork.core.queue.stats import CounterName
from tickwork.errors import BacklogFull
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL
from tickwork.store.postgres.messages.backlog import BacklogChange
from tickwork.store.postgres.messages.keys import Keys
from tickwork.store.postgres.messages.removal import RemovedMessages, keys_of
from tickwork.store.postgres.messages.send import Group, Sender
from tickwork.store.postgres.messages.settle_statements import for_dead_letter_queue
from tickwork.store.postgres.messages.system_events import dead_letter_events, receivers

_NO_CLAIM = 0
_NO_HOLDER = None
_NO_ATTEMPT = 0


async def bury_copies(
    connection: Connection,
    moment: Moment,
    sender: Sender,
    stored: Sequence[Group],
    backlog: BacklogChange,
) -> list[Group]:
    """Makes dead letters of those copies, stored in this transaction, that exceed the cap of their
    queue. Returns them, to be counted, and what was sent because of them."""
    buried: list[Group] = []
    errors: list[str] = []
    for row in await connection.fetch(SQL.backlog_room, [*{group.queue_id for group in stored}]):
        own = [group for group in stored if group.queue_id == row["id"]]
        for group in _beyond(own, row["room"] - backlog.added(row["id"])):
            buried.append(group)
            errors.append(str(BacklogFull(row["name"], row["bytes_max"])))
    if not buried:
        return []
    dead_rows = await connection.fetch(
        SQL.record_dead_letters,
        moment(),
        [group.tenant for group in buried],
        [group.messages[0].id for group in buried],
        [_NO_CLAIM] * len(buried),
        [_NO_HOLDER] * len(buried),
        [new_id() for _ in buried],
        [REASON_BACKLOG_FULL] * len(buried),
        errors,
        [fingerprint(error) for error in errors],
        [_NO_ATTEMPT] * len(buried),
        [None] * len(buried),
    )
    dead_rows = sorted(dead_rows, key=lambda row: row["number"])
    removed = RemovedMessages()
    removed.add(dead_rows, CounterName.DEAD, REASON_BACKLOG_FULL)
    removed.free_bytes(backlog)
    await Keys(moment).unblock(connection, keys_of(removed.with_effects))
    listeners = await receivers(connection, moment, {row["tenant"] for row in dead_rows})
    groups = [for_dead_letter_queue(row) for row in dead_rows if row["onward_id"] is not None]
    groups += await dead_letter_events(connection, dead_rows, {}, listeners)
    if groups:
        forwarded = BacklogChange()
        buried += await sender.store(connection, groups, new_id(), forwarded)
        backlog.take_unchecked(forwarded)
    return buried


def _beyond(stored: Sequence[Group], room: int) -> list[Group]:
    """The copies in one queue that exceed its cap, each as a group. `room` is negative if they do
    not fit together."""
    copies = [
        structs.replace(group, messages=(copy,), counter=CounterName.DEAD)
        for group in stored
        for copy in group.messages
    ]
    sizes = [len(copy.messages[0].body) for copy in copies]
    return [copies[index] for index in beyond_room(room + sum(sizes), sizes)] if room < 0 else []
