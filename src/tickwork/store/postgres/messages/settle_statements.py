"""Statements of a settlement on PostgreSQL: endings in bulk, each checked against its fence.

First the attempts of slots are recorded. Then the rows that are still claimed are deleted or made
ready again. Then the effects of these rows happen, and only theirs: schedules, sends, keys and
counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from tickwork.core.message.error_summary import fingerprint
from tickwork.core.model import (
    Claim,
    ContentType,
    Ending,
    Fate,
    Message,
    NewMessage,
    SettleResult,
)
from tickwork.core.queue.stats import CounterName, skip_reason
from tickwork.store.ids import SCHEDULES_TOPIC, Moment, new_id
from tickwork.store.postgres.endpoints.deliveries import wake_enabled
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, once
from tickwork.store.postgres.entities.write import write_entities
from tickwork.store.postgres.messages.backlog import BacklogChange
from tickwork.store.postgres.messages.batch_fill import PreparedBatch, store_batches
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.removal import AfterCommit, Removal, RemovedMessages, keys_of
from tickwork.store.postgres.messages.send import Group, Parcel, Sender
from tickwork.store.postgres.messages.system_events import (
    dead_letter_events,
    dead_message,
    receivers,
)
from tickwork.store.postgres.schedules.slot_messages import ScheduleKey
from tickwork.store.postgres.schedules.slot_outcome import (
    SlotOutcomes,
    effects_of,
    paused_by,
    result_groups,
    successes,
)
from tickwork.store.postgres.workflows import checkpoints
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.row_hints import RowHints

T = TypeVar("T")

LOOKS_MAX = 3
"""Maximum number of searches for claimed rows. A search misses a row whose lease is extended at
the same time."""


class CausedMessages(NamedTuple):
    """Messages and batches that endings send, by the index of the ending."""

    sends: Mapping[int, Sequence[Parcel]]
    batches: Mapping[int, Sequence[PreparedBatch]]


NOTHING = CausedMessages({}, {})


class EndedMessages(NamedTuple):
    """Which endings were carried out, and which of them were duplicates, by index; and their
    effects."""

    done: set[int]
    duplicates: set[int]
    removed: RemovedMessages
    returned: list[CounterKey]
    automatic_sends: list[Group]
    queues_to_wake: set[UUID]
    dead_rows: list[Any]

    @classmethod
    def nothing(cls) -> EndedMessages:
        """Returns a result without endings."""
        return cls(set(), set(), RemovedMessages(), [], [], set(), [])

    def result(self, endings: Sequence[Ending], start: int, stop: int) -> SettleResult:
        """Returns the result of the endings from index `start` to before `stop`."""
        if len(self.done) == len(endings) and not self.duplicates:
            return SettleResult()
        indexes = range(start, stop)
        return SettleResult(
            tuple(endings[index].claim for index in indexes if index not in self.done),
            tuple(endings[index].claim for index in indexes if index in self.duplicates),
        )


class Settled(NamedTuple):
    """Endings that were carried out, and what to do after the commit."""

    ended: EndedMessages
    sent: Sequence[Group]
    after_commit: AfterCommit


class EndingWriter:
    """Carries out endings."""

    def __init__(
        self, moment: Moment, sender: Sender, removal: Removal, counters: Counters
    ) -> None:
        self._moment = moment
        self._sender = sender
        self._keys = Keys(moment)
        self._removal = removal
        self._counters = counters
        self._slots = SlotOutcomes(moment)
        self.row_hints: RowHints[tuple[int, int]] = RowHints()

    async def carry_out(
        self, connection: Connection, endings: Sequence[Ending], caused: CausedMessages
    ) -> Settled:
        """Carries out endings. Of several endings of one claim the first counts, but steps of a run
        that end together are all recorded under its claim."""
        first = _first_indexes(endings)
        recorded = await self._slots.record(connection, [endings[index] for index in first])
        ended = EndedMessages.nothing()
        for _ in range(LOOKS_MAX):
            remaining = [index for index in first if index not in ended.done]
            if not remaining:
                break
            await self._end(connection, endings, remaining, ended)
        doubled = [endings[index].claim for index in ended.duplicates]
        await self._slots.forget(connection, doubled, recorded)
        counted = ended.done - ended.duplicates
        counted_endings = [endings[index] for index in sorted(counted)]
        in_order = [ending.claim for ending in counted_endings]
        await checkpoints.finish_runs(
            connection, self._moment, [endings[index] for index in ended.done]
        )
        # Before keys are locked: it may wait for the message of an alarm, which a transaction that
        # waits for a key may hold.
        await write_entities(connection, self._moment, counted_endings)
        effects = effects_of(recorded, in_order)
        ended.automatic_sends.extend(await result_groups(connection, recorded, in_order))
        parcels, batches = _sent_by(counted, caused.sends), _sent_by(counted, caused.batches)
        withdrawable = await self._slots.keys_to_take(connection, effects)
        tenants = {row["tenant"] for row in ended.dead_rows}
        listeners = await receivers(connection, self._moment, tenants)
        needed = await self._lock_keys(
            connection,
            parcels,
            batches,
            ended,
            others=withdrawable | listeners.keys,
            has_effects=bool(effects),
        )
        paused: list[ScheduleKey] = []
        if effects:
            has_more, paused = await self._slots.carry_out(
                connection, effects, withdrawable, ended.removed
            )
            ended.queues_to_wake.update({SCHEDULES_TOPIC} if has_more else ())
        if ended.dead_rows:
            died = paused_by(recorded, effects, paused)
            ended.automatic_sends.extend(
                await dead_letter_events(connection, ended.dead_rows, died, listeners)
            )
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
        parcels: Sequence[Parcel],
        batches: Sequence[PreparedBatch],
        ended: EndedMessages,
        *,
        others: set[Key],
        has_effects: bool,
    ) -> set[Key]:
        """Locks all keys that this transaction sends to or unblocks, before it locks schedules.
        `others` are those of slots that may be withdrawn and of endpoints that may get an event.
        Returns the keys of sends and the others."""
        groups = [
            group for parcel in parcels for group in (parcel.group, *parcel.copies_of(parcel.group))
        ]
        groups += [group for batch in batches for group in (batch.group, *batch.copies)]
        keyed = [key for group in (*groups, *ended.automatic_sends) for key in group.keyed()]
        needed = {key for key in keyed if key is not None} | others
        if groups or ended.automatic_sends or others or has_effects:
            keys = needed | keys_of(ended.removed.with_effects) | ended.removed.passable_keys
            if keys:
                await self._keys.lock_or_create(connection, keys)
        return needed

    async def ack_plain(self, connection: Connection, endings: Sequence[Ending]) -> Settled:
        """Acks in one statement, including successes of slots and ends of runs. Does nothing if an
        ack has other effects or occurs twice."""
        ended = EndedMessages.nothing()
        tenants, ids, claims, holders = _columns([ending.claim for ending in endings])
        acked: Sequence[Any] = ()
        firings = [ending.firing for ending in endings]
        if len({*ids}) == len(ids):
            acked = await connection.fetch(
                SQL.ack_plain,
                self._moment(),
                once(tenants),
                ids,
                once(claims),
                once(holders),
                self.row_hints.take(ids),
                *successes(firings),
                *checkpoints.run_ends(endings),
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
        remaining: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        by_fate: dict[Fate, list[int]] = {}
        for index in remaining:
            by_fate.setdefault(endings[index].fate, []).append(index)
        if acks := by_fate.get(Fate.ACK):
            await self._ack(connection, endings, acks, ended)
        if backs := by_fate.get(Fate.RETRY, []) + by_fate.get(Fate.RELEASE, []):
            await self._put_back(connection, endings, backs, ended)
        if dead := by_fate.get(Fate.DEAD):
            await self._make_dead(connection, endings, dead, ended)
        if kept := by_fate.get(Fate.KEEP):
            await _record_checkpoints(connection, endings, kept, ended)

    async def _ack(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        indexes: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        acked = await connection.fetch(SQL.ack, self._moment(), *_fences(endings, indexes))
        _add_acked(acked, endings, indexes, ended)

    async def _put_back(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        indexes: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        """Makes messages that are still claimed ready again."""
        chosen = [endings[index] for index in indexes]
        retried = await connection.fetch(
            SQL.retry,
            self._moment(),
            *_fences(endings, indexes),
            [ending.delay_seconds for ending in chosen],
            [int(ending.counts_attempt) for ending in chosen],
            [ending.error for ending in chosen],
            [ending.wake_at for ending in chosen],
        )
        for row in retried:
            ended.done.add(index := indexes[row["number"] - 1])
            if row["is_visible"]:
                ended.queues_to_wake.add(row["queue_id"])
            ended.removed.note_passable(row)
            if endings[index].fate is Fate.RETRY:
                ended.returned.append(counter_key(row, CounterName.RETRIED))
        await self._wake(connection, [endings[index] for index in ended.done], ended)

    async def _wake(
        self, connection: Connection, released: Sequence[Ending], ended: EndedMessages
    ) -> None:
        """Makes messages visible whose endpoints are enabled by now, and runs that were released to
        wait, but have other signals by now. The release has locked their messages, so nobody gives
        them a signal meanwhile."""
        ended.queues_to_wake.update(await wake_enabled(connection, self._moment, released))
        waiting = [ending for ending in released if ending.signals_seen is not None]
        if waiting:
            woken = await connection.fetch(
                SQL.wake_signalled_runs,
                self._moment(),
                [ending.claim.tenant for ending in waiting],
                [ending.claim.id for ending in waiting],
                [ending.signals_seen for ending in waiting],
            )
            ended.queues_to_wake.update(row["queue_id"] for row in woken)

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
        await checkpoints.end_dead_runs(connection, self._moment, chosen)
        dead_rows = await connection.fetch(
            SQL.record_dead_letters,
            self._moment(),
            *_fences(endings, indexes),
            [new_id() for _ in chosen],
            [ending.reason or "failed" for ending in chosen],
            [ending.error for ending in chosen],
            [fingerprint(ending.error) for ending in chosen],
            [int(ending.counts_attempt) for ending in chosen],
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
    """The indexes of the endings that count: the first of each claim, and of each step."""
    indexes: dict[tuple[Claim, str | None], int] = {}
    for index, ending in enumerate(endings):
        step = None if ending.checkpoint is None else ending.checkpoint.step.key
        indexes.setdefault((ending.claim, step), index)
    return [*indexes.values()]


async def _record_checkpoints(
    connection: Connection, endings: Sequence[Ending], indexes: Sequence[int], ended: EndedMessages
) -> None:
    """Records steps of runs that are still claimed. One that is done already is a duplicate."""
    recorded = await checkpoints.record_steps(connection, [endings[index] for index in indexes])
    ended.done.update(indexes[index] for index in recorded)
    ended.duplicates.update(indexes[at] for at, value in recorded.items() if not value.is_fresh)


def _sent_by(indexes: set[int], caused: Mapping[int, Sequence[T]]) -> list[T]:
    """Returns the messages or batches that the endings at these indexes send, in order."""
    return [sent for index in sorted(indexes & caused.keys()) for sent in caused[index]]


def _add_acked(
    rows: Sequence[Any], endings: Sequence[Ending], indexes: Sequence[int], ended: EndedMessages
) -> None:
    """Adds acked messages to the result."""
    ended.done.update([indexes[row["number"] - 1] for row in rows])
    ended.duplicates.update([indexes[row["number"] - 1] for row in rows if not row["fresh"]])
    reasons = [skip_reason(endings[indexes[row["number"] - 1]]) for row in rows]
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
