"""What settling and the writers of effects share on PostgreSQL. `core.effects` has the protocol."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from uuid import UUID

from tickwork.core.effects import Effect
from tickwork.core.model import Ending, NewMessage, SettleResult
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.messages.keys import Key
from tickwork.store.postgres.messages.removal import RemovedMessages
from tickwork.store.postgres.messages.send import Group
from tickwork.store.shared.counters import CounterKey
from tickwork.store.shared.effects import E, EffectsOfKind, Fenced


class EndedMessages(NamedTuple):
    """Which endings were carried out, and which of them were duplicates, by index; and what follows
    from them. Writers of effects add to it: `automatic_sends`, the `keys` of messages that they
    will make or withdraw, system `events` of tenants with dead messages, and whom to wake."""

    done: set[int]
    duplicates: set[int]
    removed: RemovedMessages
    returned: list[CounterKey]
    automatic_sends: list[Group]
    keys: set[Key]
    events: dict[str, list[NewMessage]]
    queues_to_wake: set[UUID]
    dead_rows: list[Any]

    @classmethod
    def nothing(cls) -> EndedMessages:
        """Returns a result without endings."""
        return cls(set(), set(), RemovedMessages(), [], [], set(), {}, set(), [])

    def result(self, endings: Sequence[Ending], start: int, stop: int) -> SettleResult:
        """Returns the result of the endings from index `start` to before `stop`."""
        if len(self.done) == len(endings) and not self.duplicates:
            return SettleResult()
        indexes = range(start, stop)
        return SettleResult(
            tuple(endings[index].claim for index in indexes if index not in self.done),
            tuple(endings[index].claim for index in indexes if index in self.duplicates),
        )


class EffectWriter(EffectsOfKind[E]):
    """Writes effects by statements that are awaited."""

    def __init__(self, moment: Moment, effects: Mapping[int, Fenced[E]]) -> None:
        super().__init__(effects)
        self._moment = moment

    @classmethod
    def plain_columns(
        cls,
        effects: Mapping[int, Fenced[E]],  # noqa: ARG003
        endings: int,  # noqa: ARG003
    ) -> Sequence[Sequence[object]]:
        """Plain effects among so many endings, as columns of the statement of plain acks."""
        return ()

    async def record(self, connection: Connection) -> None:
        """Reads or writes what needs the claims, before messages are removed."""

    async def released(
        self, connection: Connection, released: Collection[int], ended: EndedMessages
    ) -> None:
        """Follows the release of messages, which are locked."""

    async def before_death(self, connection: Connection, dying: Collection[int]) -> None:
        """Precedes the dead letters of messages that may still be claimed: check the claims."""

    async def keep(self, connection: Connection, kept: Collection[int]) -> Mapping[int, bool]:  # noqa: ARG002
        """Records effects under claims that stay, if they are valid: which, and whether each is
        new."""
        return {}

    async def forget(self, connection: Connection, doubles: Collection[int]) -> None:
        """Deletes what was recorded for duplicates."""

    async def prepare(
        self,
        connection: Connection,  # noqa: ARG002
        counted: Sequence[int],  # noqa: ARG002
        ended: EndedMessages,  # noqa: ARG002
    ) -> bool:
        """Adds keys and messages, if its rank comes after the keys; returns whether it will lock
        rows in `write`."""
        return True

    async def write(
        self, connection: Connection, counted: Sequence[int], ended: EndedMessages
    ) -> None:
        """Writes the effects of endings that count, in their order."""


EffectWriters: TypeAlias = Mapping[type[Effect], type[EffectWriter[Any]]]
"""The writer of each kind of effect."""
