"""Statements of a settlement on PostgreSQL: endings in bulk, each checked against its fence.

The rows that are still claimed are deleted or made ready again. Then the effects of these endings
are written, and only theirs, by the writers of their features (`core.effects`). Then messages are
sent, keys unblocked and counters changed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar
from uuid import UUID

from tickwork.core.effects import LockRank
from tickwork.core.message.error_summary import fingerprint
from tickwork.core.model import (
    Claim,
    ContentType,
    Ending,
    Fate,
    Message,
    NewMessage,
)
from tickwork.core.queue.stats import CounterName
from tickwork.store.ids import Moment, new_id
from tickwork.store.postgres.endpoints.publish import NewEvent, Publisher
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, once
from tickwork.store.postgres.messages.backlog import BacklogChange
from tickwork.store.postgres.messages.batch_fill import PreparedBatch, store_batches
from tickwork.store.postgres.messages.effects import (
    EffectWriter,
    EffectWriters,
    EndedMessages,
)
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.removal import AfterCommit, Removal, keys_of
from tickwork.store.postgres.messages.send import Group, Parcel, Sender
from tickwork.store.postgres.messages.system_events import (
    dead_letter_events,
    dead_message,
    receivers,
)
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.effects import by_rank, by_writer
from tickwork.store.shared.row_hints import RowHints

T = TypeVar("T")

Writer: TypeAlias = EffectWriter[Any]

LOOKS_MAX = 3
"""Maximum number of searches for claimed rows. A search misses a row whose lease is extended at
the same time."""


class CausedMessages(NamedTuple):
    """Messages, batches and events that endings send, by the index of the ending."""

    sends: Mapping[int, Sequence[Parcel]]
    batches: Mapping[int, Sequence[PreparedBatch]]
    events: Mapping[int, Sequence[NewEvent]]

    def of(self, indexes: Sequence[int]) -> CausedMessages:
        """What the endings at these indexes send, in order."""
        return CausedMessages(
            _of(indexes, self.sends), _of(indexes, self.batches), _of(indexes, self.events)
        )


NOTHING = CausedMessages({}, {}, {})


class Settled(NamedTuple):
    """Endings that were carried out, and what to do after the commit."""

    ended: EndedMessages
    sent: Sequence[Group]
    after_commit: AfterCommit


class EndingWriter:
    """Carries out endings."""

    def __init__(
        self,
        moment: Moment,
        sender: Sender,
        publisher: Publisher,
        removal: Removal,
        counters: Counters,
        writers: EffectWriters,
    ) -> None:
        self._moment = moment
        self._sender = sender
        self._publisher = publisher
        self._keys = Keys(moment)
        self._removal = removal
        self._counters = counters
        self._writers = by_rank(writers)
        self.row_hints: RowHints[tuple[int, int]] = RowHints()

    async def carry_out(
        self, connection: Connection, endings: Sequence[Ending], caused: CausedMessages
    ) -> Settled:
        """Carries out endings and writes their effects, as `core.effects` says. Of several endings
        of one claim the first counts, unless they are parts of one."""
        first = _first_indexes(endings)
        writers = [
            writer(self._moment, effects)
            for writer, effects in by_writer(self._writers, endings, first)
        ]
        for writer in writers:
            await writer.record(connection)
        ended = await self._end(connection, endings, first, writers)
        counted = sorted(ended.done - ended.duplicates)
        later = await _write_before_keys(connection, writers, counted, ended)
        tenants = {row["tenant"] for row in ended.dead_rows}
        listeners = await receivers(connection, self._moment, tenants)
        ended.keys.update(listeners.keys)
        sent = caused.of(counted)
        # Before the keys, as a publisher outside handlers does. In a fixed order, so that two
        # settlements that publish the same events do not deadlock.
        for event in sorted(_flat(sent.events), key=lambda event: (event.tenant, event.message.id)):
            ended.automatic_sends.extend((await self._publisher.deliver(connection, event)).groups)
        needed = await self._lock_keys(connection, sent, ended, is_needed=bool(later))
        for writer in later:
            await writer.write(connection, counted, ended)
        if ended.dead_rows:
            events = await dead_letter_events(connection, ended.dead_rows, ended.events, listeners)
            ended.automatic_sends.extend(events)
        return await self._store_sent(connection, sent, ended, needed)

    async def _store_sent(
        self,
        connection: Connection,
        caused: CausedMessages,
        ended: EndedMessages,
        needed: Collection[Key],
    ) -> Settled:
        """Stores messages and batches, and does what follows the removal of others. `needed` are
        the keys of what is sent."""
        parcels, batches = _flat(caused.sends), _flat(caused.batches)
        backlog = BacklogChange()
        sent, copies = list[Group](), list[Group]()
        # First, so that the sends and copies of this settlement can take the bytes.
        ended.removed.free_bytes(backlog)
        # With equal keys, a dead message precedes the messages that its ending sends.
        if ended.automatic_sends:
            sent += await self._sender.store(connection, ended.automatic_sends, new_id(), backlog)
        if parcels:
            own, copies = await self._sender.store_own(connection, parcels, new_id(), backlog)
            sent += own
        copies += [copy for event in _flat(caused.events) for copy in event.copies]
        if batches:
            items, more = await store_batches(
                connection, self._moment(), batches, self._sender, backlog
            )
            sent += items
            copies += more
        if copies:
            sent += await self._sender.store_copies(connection, copies, new_id(), backlog)
        after_commit = await self._removal.apply_effects(connection, ended.removed, backlog, needed)
        empty = {(batch.group.tenant, batch.id) for batch in batches if not batch.group.messages}
        return Settled(ended, sent, after_commit._replace(batches=after_commit.batches | empty))

    async def take_and_end(
        self, connection: Connection, message: Message, ending: Ending, caused: CausedMessages
    ) -> Settled | None:
        """Claims a ready message and carries out its ending; None if somebody else has claimed it.
        Locks the key before the message, as everything does that removes unclaimed messages."""
        claim = ending.claim
        if message.key is not None:
            key = Key(message.tenant, message.queue_id, message.key)
            await self._keys.lock(connection, {key})
        fence = (claim.tenant, claim.id, claim.number, claim.holder)
        if await connection.fetchval(SQL.take_message, self._moment(), *fence) is None:
            return None
        return await self.carry_out(connection, [ending], caused)

    async def _lock_keys(
        self,
        connection: Connection,
        caused: CausedMessages,
        ended: EndedMessages,
        *,
        is_needed: bool,
    ) -> set[Key]:
        """Locks all keys that this transaction sends to or unblocks, before rows of later ranks.
        Without such rows and without sends, unblocking locks them later. Returns the keys of sends
        and those that effects need."""
        batches = _flat(caused.batches)
        groups = [
            group
            for parcel in _flat(caused.sends)
            for group in (parcel.group, *parcel.copies_of(parcel.group))
        ]
        groups += [group for batch in batches for group in (batch.group, *batch.copies)]
        groups += [copy for event in _flat(caused.events) for copy in event.copies]
        groups += ended.automatic_sends
        keyed = [key for group in groups for key in group.keyed()]
        needed = {key for key in keyed if key is not None} | ended.keys
        if groups or ended.keys or is_needed:
            keys = needed | keys_of(ended.removed.with_effects) | ended.removed.passable_keys
            if keys:
                await self._keys.lock_or_create(connection, keys)
        return needed

    def is_plain(self, ending: Ending) -> bool:
        """Whether an ending may be one of the plain acks."""
        return (
            ending.fate is Fate.ACK
            and not ending.sends
            and not ending.batches
            and (
                not ending.effects
                or all(self._writers[type(effect)].is_plain(effect) for effect in ending.effects)
            )
        )

    async def ack_plain(self, connection: Connection, endings: Sequence[Ending]) -> Settled:
        """Acks in one statement, with plain effects. Does nothing if an ack has other effects or
        occurs twice."""
        ended = EndedMessages.nothing()
        tenants, ids, claims, holders = _columns([ending.claim for ending in endings])
        acked: Sequence[Any] = ()
        if len({*ids}) == len(ids):
            effects = dict(by_writer(self._writers, endings, range(len(endings))))
            acked = await connection.fetch(
                SQL.ack_plain,
                self._moment(),
                once(tenants),
                ids,
                once(claims),
                once(holders),
                self.row_hints.take(ids),
                *(
                    column
                    for writer in self._writers.values()
                    for column in writer.plain_columns(effects.get(writer, {}), len(endings))
                ),
                once([ending.took_seconds for ending in endings]),
            )
        for row in acked:
            ended.done.update([number - 1 for number in row["numbers"]])
            ended.duplicates.update([number - 1 for number in row["doubles"] or ()])
            kind = (row["tenant"], row["queue_id"], row["type"], row["source"])
            ended.removed.counts[kind, CounterName.DONE] += len(row["numbers"])
        return Settled(ended, (), AfterCommit(ended.removed.counts, frozenset(), frozenset()))

    async def finish(self, settled: Settled) -> None:
        """Counts, wakes consumers and completes batches, after the commit."""
        if settled.sent:
            self._sender.after_commit(settled.sent)
        for counter, messages in Counter(settled.ended.returned).items():
            self._counters.add(counter, messages)
        if settled.ended.queues_to_wake:
            self._sender.wake(settled.ended.queues_to_wake)
        await self._removal.finish(settled.after_commit)

    async def _end(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        indexes: Sequence[int],
        writers: Sequence[Writer],
    ) -> EndedMessages:
        """Ends messages that are still claimed."""
        ended, remaining = EndedMessages.nothing(), indexes
        for _ in range(LOOKS_MAX):
            remaining = [index for index in remaining if index not in ended.done]
            if not remaining:
                break
            await self._end_found(connection, endings, remaining, writers, ended)
        return ended

    async def _end_found(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        remaining: Sequence[int],
        writers: Sequence[Writer],
        ended: EndedMessages,
    ) -> None:
        by_fate: dict[Fate, list[int]] = {}
        for index in remaining:
            by_fate.setdefault(endings[index].fate, []).append(index)
        if acks := by_fate.get(Fate.ACK):
            await self._ack(connection, endings, acks, ended)
        if backs := by_fate.get(Fate.RETRY, []) + by_fate.get(Fate.RELEASE, []):
            released = await self._put_back(connection, endings, backs, ended)
            for writer in writers:
                await writer.released(connection, released, ended)
        if dead := by_fate.get(Fate.DEAD):
            for writer in writers:
                await writer.before_death(connection, dead)
            await self._make_dead(connection, endings, dead, ended)
        if kept := by_fate.get(Fate.KEEP):
            for writer in writers:
                recorded = await writer.keep(connection, kept)
                ended.done.update(recorded)
                ended.duplicates.update(index for index in recorded if not recorded[index])

    async def _ack(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        indexes: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        chosen = [endings[index] for index in indexes]
        acked = await connection.fetch(
            SQL.ack,
            self._moment(),
            *_fences(endings, indexes),
            [ending.skip_reason for ending in chosen],
            [ending.took_seconds for ending in chosen],
        )
        _add_acked(acked, endings, indexes, ended)

    async def _put_back(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        indexes: Sequence[int],
        ended: EndedMessages,
    ) -> set[int]:
        """Makes messages that are still claimed ready again; returns which."""
        chosen = [endings[index] for index in indexes]
        retried = await connection.fetch(
            SQL.retry,
            self._moment(),
            *_fences(endings, indexes),
            [ending.delay_seconds for ending in chosen],
            [int(ending.counts_attempt) for ending in chosen],
            [ending.error for ending in chosen],
            [ending.visible_at for ending in chosen],
        )
        released: set[int] = set()
        for row in retried:
            released.add(index := indexes[row["number"] - 1])
            if row["is_visible"]:
                ended.queues_to_wake.add(row["queue_id"])
            ended.removed.note_passable(row)
            if endings[index].fate is Fate.RETRY:
                ended.returned.append(counter_key(row, CounterName.RETRIED))
        ended.done.update(released)
        return released

    async def _make_dead(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        indexes: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        """Makes dead letters of messages that are still claimed, and notes those for a dead-letter
        queue."""
        chosen = [endings[index] for index in indexes]
        dead_rows = await connection.fetch(
            SQL.record_dead_letters,
            self._moment(),
            *_fences(endings, indexes),
            [new_id() for _ in chosen],
            [ending.reason or "failed" for ending in chosen],
            [ending.error for ending in chosen],
            [fingerprint(ending.error) for ending in chosen],
            [int(ending.counts_attempt) for ending in chosen],
            [ending.took_seconds for ending in chosen],
        )
        for row in sorted(dead_rows, key=lambda row: row["number"]):
            ended.done.add(indexes[row["number"] - 1])
            ended.removed.add([row], CounterName.DEAD, row["reason"])
            if row["onward_id"] is not None:
                ended.automatic_sends.append(for_dead_letter_queue(row))
        ended.dead_rows.extend(dead_rows)


def counter_key(row: Any, counter: CounterName) -> CounterKey:
    """The key that counts a message, given its row."""
    kind = row["type"] or "", row["source"] or ""
    return CounterKey(row["queue_id"], row["tenant"], counter, *kind)


def _first_indexes(endings: Sequence[Ending]) -> list[int]:
    """The indexes of the endings that count: the first of each claim, and of each part of one."""
    indexes: dict[tuple[Claim, str | None], int] = {}
    for index, ending in enumerate(endings):
        indexes.setdefault((ending.claim, ending.part), index)
    return [*indexes.values()]


async def _write_before_keys(
    connection: Connection,
    writers: Sequence[Writer],
    counted: Sequence[int],
    ended: EndedMessages,
) -> list[Writer]:
    """Forgets duplicates and writes the effects that precede keys. Returns those writers that write
    after them."""
    if ended.duplicates:
        for writer in writers:
            await writer.forget(connection, ended.duplicates)
    later: list[Writer] = []
    for writer in writers:
        if writer.rank < LockRank.KEY:
            await writer.write(connection, counted, ended)
        elif await writer.prepare(connection, counted, ended):
            later.append(writer)
    return later


def _of(indexes: Sequence[int], caused: Mapping[int, Sequence[T]]) -> dict[int, Sequence[T]]:
    return {index: caused[index] for index in indexes if index in caused}


def _flat(caused: Mapping[int, Sequence[T]]) -> list[T]:
    return [sent for index in caused for sent in caused[index]]


def _add_acked(
    rows: Sequence[Any], endings: Sequence[Ending], indexes: Sequence[int], ended: EndedMessages
) -> None:
    """Adds acked messages to the result."""
    ended.done.update([indexes[row["number"] - 1] for row in rows])
    ended.duplicates.update([indexes[row["number"] - 1] for row in rows if not row["fresh"]])
    reasons = [endings[indexes[row["number"] - 1]].skip_reason for row in rows]
    for reason in set(reasons):
        alike = [row for row, own in zip(rows, reasons, strict=True) if own == reason]
        ended.removed.add(alike, CounterName.DONE, reason)


def for_dead_letter_queue(row: Any) -> Group:
    """Returns a dead message as a new message for the dead-letter queue."""
    dead = dead_message(row)
    message = NewMessage(
        id=row["id"],
        body=row["body"],
        content_type=ContentType(row["content_type"]),
        priority=row["priority"],
        key=row["key"],
        event_id=row["event_id"],
        type=row["type"],
        source=row["source"],
        correlation_id=row["correlation_id"],
        causation_id=row["causation_id"],
        hops=row["hops"],
        idempotency_base=dead.idempotency_key,
        death=dead.death.text,
    )
    return Group(row["tenant"], row["onward_id"], row["onward"], (message,), is_exempt=True)


def _fences(
    endings: Sequence[Ending], indexes: Sequence[int]
) -> tuple[list[str], list[UUID], list[int], list[UUID]]:
    return _columns([endings[index].claim for index in indexes])


def _columns(claims: Sequence[Claim]) -> tuple[list[str], list[UUID], list[int], list[UUID]]:
    return (
        [claim.tenant for claim in claims],
        [claim.id for claim in claims],
        [claim.number for claim in claims],
        [claim.holder for claim in claims],
    )
