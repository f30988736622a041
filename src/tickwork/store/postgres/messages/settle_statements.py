"""The statements of a settlement on PostgreSQL.

First the attempts at slots are recorded. Then rows whose claims are valid are deleted or made
ready. Only for those rows the effects follow: schedules, sends, keys, counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from tickwork.core.message.error_summary import fingerprint
from tickwork.core.model import Claim, ContentType, Ending, Fate, NewMessage, SettleResult
from tickwork.core.queue.stats import CounterName, skip_reason
from tickwork.store.ids import SCHEDULES_TOPIC, Moment, new_id
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, once
from tickwork.store.postgres.messages.backlog import BacklogChange
from tickwork.store.postgres.messages.batch_fill import PreparedBatch, store_whole
from tickwork.store.postgres.messages.keys import Key, Keys
from tickwork.store.postgres.messages.removal import AfterCommit, Removal, RemovedMessages, keys_of
from tickwork.store.postgres.messages.send import Group, Parcel, Sender
from tickwork.store.postgres.messages.system_events import death_events
from tickwork.store.postgres.schedules.slot_messages import ScheduleKey
from tickwork.store.postgres.schedules.slot_outcome import (
    SlotOutcomes,
    effects_of,
    paused_by,
    successes,
)
from tickwork.store.shared.counters import CounterKey, Counters
from tickwork.store.shared.row_hints import RowHints

T = TypeVar("T")

LOOKS_MAX = 3
"""Maximum number of tries. A row that moves during the search, because its lease is extended, is
missed: search again."""


class CausedMessages(NamedTuple):
    """Messages and batches that endings send, by index."""

    sends: Mapping[int, Sequence[Parcel]]
    batches: Mapping[int, Sequence[PreparedBatch]]


NOTHING = CausedMessages({}, {})


class EndedMessages(NamedTuple):
    """Which endings counted, and which of them were duplicates, by index."""

    done: set[int]
    duplicates: set[int]
    left: RemovedMessages
    back: list[CounterKey]
    moved: list[Group]
    ready: set[UUID]
    buried: list[Any]

    @classmethod
    def nothing(cls) -> EndedMessages:
        """Nothing has ended."""
        return cls(set(), set(), RemovedMessages(), [], [], set(), [])

    def result(self, endings: Sequence[Ending], start: int, stop: int) -> SettleResult:
        """The result for some of the endings."""
        if len(self.done) == len(endings) and not self.duplicates:
            return SettleResult()
        places = range(start, stop)
        return SettleResult(
            tuple(endings[place].claim for place in places if place not in self.done),
            tuple(endings[place].claim for place in places if place in self.duplicates),
        )


class Settled(NamedTuple):
    """Endings that were carried out, and the work after the commit."""

    ended: EndedMessages
    sent: Sequence[Group]
    aftermath: AfterCommit


class EndingWriter:
    """Carries out endings."""

    def __init__(self, moment: Moment, sender: Sender, leaving: Removal, tallies: Counters) -> None:
        self._moment, self._sender, self._keys = moment, sender, Keys(moment)
        self._leaving, self._tallies, self._slots = leaving, tallies, SlotOutcomes(moment)
        self.sightings: RowHints[tuple[int, int]] = RowHints()

    async def carry_out(
        self, connection: Connection, endings: Sequence[Ending], caused: CausedMessages
    ) -> Settled:
        """Carries out endings. Of several endings of one claim the first counts."""
        places: dict[Claim, int] = {}
        for place, ending in enumerate(endings):
            places.setdefault(ending.claim, place)
        recorded = await self._slots.record(
            connection, [endings[place] for place in places.values()]
        )
        ended = EndedMessages.nothing()
        for _ in range(LOOKS_MAX):
            left = [place for place in places.values() if place not in ended.done]
            if not left:
                break
            await self._end(connection, endings, left, ended)
        doubles = [endings[place].claim for place in ended.duplicates]
        await self._slots.forget(connection, doubles, recorded)
        counted = ended.done - ended.duplicates
        effects = effects_of(recorded, [endings[place].claim for place in sorted(counted)])
        parcels, wholes = _of(counted, caused.sends), _of(counted, caused.batches)
        behind = await self._slots.keys_to_take(connection, effects)
        needed = await self._take_keys(
            connection, parcels, wholes, ended, behind=behind, has_effects=bool(effects)
        )
        paused: list[ScheduleKey] = []
        if effects:
            has_more, paused = await self._slots.carry_out(connection, effects, behind, ended.left)
            ended.ready.update({SCHEDULES_TOPIC} if has_more else ())
        if ended.buried:
            died = paused_by(recorded, effects, paused)
            ended.moved.extend(await death_events(connection, ended.buried, died))
        room, sent = BacklogChange(), list[Group]()
        # What died comes before what is sent with its end, where both have the same key.
        if ended.moved:
            sent += await self._sender.store(connection, ended.moved, new_id(), room)
        if parcels:
            sent += await self._sender.store_parcels(connection, parcels, new_id(), room)
        if wholes:
            sent += await store_whole(connection, self._moment(), wholes, self._sender, room)
        aftermath = await self._leaving.follow(connection, ended.left, room, needed)
        empty = {(each.group.tenant, each.id) for each in wholes if not each.group.messages}
        return Settled(ended, sent, aftermath._replace(batches=aftermath.batches | empty))

    async def _take_keys(
        self,
        connection: Connection,
        parcels: Sequence[Parcel],
        wholes: Sequence[PreparedBatch],
        ended: EndedMessages,
        *,
        behind: set[Key],
        has_effects: bool,
    ) -> set[Key]:
        """Locks the keys of what is sent and removed, all at once and before schedules; returns
        the keys of sends and those of slots that may be withdrawn."""
        groups = [
            group for parcel in parcels for group in (parcel.group, *parcel.copies_of(parcel.group))
        ]
        groups += [whole.group for whole in wholes]
        keyed = [key for group in (*groups, *ended.moved) for key in group.keyed()]
        needed = {key for key in keyed if key is not None} | behind
        if groups or ended.moved or behind or has_effects:
            keys = needed | keys_of(ended.left.gone)
            if keys:
                await self._keys.take(connection, keys)
        return needed

    async def ack_plain(self, connection: Connection, endings: Sequence[Ending]) -> Settled:
        """Acks in one statement, including successes of slots; nothing if any has other side
        effects, or occurs twice."""
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
                self.sightings.take(ids),
                *successes(firings),
            )
        for row in acked:
            ended.done.update([number - 1 for number in row["numbers"]])
            ended.duplicates.update([number - 1 for number in row["doubles"] or ()])
            kind = (row["tenant"], row["queue_id"], row["type"], row["source"])
            ended.left.passed[kind, CounterName.DONE] += len(row["numbers"])
        return Settled(ended, (), AfterCommit(ended.left.passed, frozenset(), frozenset()))

    async def finish(self, settled: Settled) -> None:
        """Runs after the commit."""
        if settled.sent:
            self._sender.passed(settled.sent)
        for tallied, messages in Counter(settled.ended.back).items():
            self._tallies.add(tallied, messages)
        if settled.ended.ready:
            self._sender.wake(settled.ended.ready)
        await self._leaving.finish(settled.aftermath)

    async def _end(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        left: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        by_fate: dict[Fate, list[int]] = {}
        for place in left:
            by_fate.setdefault(endings[place].fate, []).append(place)
        if acks := by_fate.get(Fate.ACK):
            await self._ack(connection, endings, acks, ended)
        if backs := by_fate.get(Fate.RETRY, []) + by_fate.get(Fate.RELEASE, []):
            await self._put_back(connection, endings, backs, ended)
        if dead := by_fate.get(Fate.DEAD):
            await self._bury(connection, endings, dead, ended)

    async def _ack(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        places: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        acked = await connection.fetch(SQL.ack, self._moment(), *_fences(endings, places))
        _acked(acked, endings, places, ended)

    async def _put_back(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        places: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        """Makes messages ready again whose claims are valid."""
        chosen = [endings[place] for place in places]
        back = await connection.fetch(
            SQL.retry,
            self._moment(),
            *_fences(endings, places),
            [ending.delay_seconds for ending in chosen],
            [int(ending.counts_attempt) for ending in chosen],
            [ending.error for ending in chosen],
        )
        for row in back:
            place = places[row["number"] - 1]
            ended.done.add(place)
            if endings[place].delay_seconds == 0:
                ended.ready.add(row["queue_id"])
            if endings[place].fate is Fate.RETRY:
                ended.back.append(
                    CounterKey(
                        row["queue_id"],
                        row["tenant"],
                        CounterName.RETRIED,
                        row["type"] or "",
                        row["source"] or "",
                    )
                )

    async def _bury(
        self,
        connection: Connection,
        endings: Sequence[Ending],
        places: Sequence[int],
        ended: EndedMessages,
    ) -> None:
        """Moves messages whose claims are valid to the dead letters, and on to the dead-letter
        queue."""
        chosen = [endings[place] for place in places]
        buried = await connection.fetch(
            SQL.record_dead_letters,
            self._moment(),
            *_fences(endings, places),
            [new_id() for _ in chosen],
            [ending.reason or "failed" for ending in chosen],
            [ending.error for ending in chosen],
            [fingerprint(ending.error) for ending in chosen],
            [int(ending.counts_attempt) for ending in chosen],
        )
        for row in sorted(buried, key=lambda row: row["number"]):
            ended.done.add(places[row["number"] - 1])
            ended.left.add([row], CounterName.DEAD, row["reason"])
            if row["onward_id"] is not None:
                ended.moved.append(_onward(row))
        ended.buried.extend(buried)


def _of(places: set[int], caused: Mapping[int, Sequence[T]]) -> list[T]:
    """What was caused at these indexes, in order."""
    return [each for place in sorted(places & caused.keys()) for each in caused[place]]


def _acked(
    rows: Sequence[Any], endings: Sequence[Ending], places: Sequence[int], ended: EndedMessages
) -> None:
    """Notes acked messages."""
    ended.done.update([places[row["number"] - 1] for row in rows])
    ended.duplicates.update([places[row["number"] - 1] for row in rows if not row["fresh"]])
    reasons = [skip_reason(endings[places[row["number"] - 1]]) for row in rows]
    for reason in set(reasons):
        alike = [row for row, own in zip(rows, reasons, strict=True) if own == reason]
        ended.left.add(alike, CounterName.DONE, reason)


def _onward(row: Any) -> Group:
    """A dead message as a new message of the dead-letter queue."""
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
    )
    return Group(row["tenant"], row["onward_id"], row["onward"], (message,), is_exempt=True)


def _fences(
    endings: Sequence[Ending], places: Sequence[int]
) -> tuple[list[str], list[UUID], list[int], list[UUID]]:
    return _columns([endings[place].claim for place in places])


def _columns(held: Sequence[Claim]) -> tuple[list[str], list[UUID], list[int], list[UUID]]:
    return (
        [each.tenant for each in held],
        [each.id for each in held],
        [each.number for each in held],
        [each.holder for each in held],
    )
