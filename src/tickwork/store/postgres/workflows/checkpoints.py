"""Records steps and ends of runs on PostgreSQL, those of many runs in one statement."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from tickwork.core.model import Claim, Fate
from tickwork.core.workflow.model import Checkpoint, RunEnd, SignalWait
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, once
from tickwork.store.postgres.messages.effects import EffectWriter, EndedMessages
from tickwork.store.shared.columns import RUN_STEP
from tickwork.store.shared.effects import Fenced


class Recorded(NamedTuple):
    """A checkpoint that was recorded: the signals of its run. It is not fresh if the step was done
    before: the answer to that was lost."""

    signals: int
    is_fresh: bool


async def record(
    connection: Connection, fenced: Sequence[Fenced[Checkpoint]]
) -> dict[int, Recorded]:
    """Records the checkpoints whose claims are valid, by index."""
    tenants, ids, claims, holders = claim_columns([pair.claim for pair in fenced])
    steps = [pair.effect.step for pair in fenced]
    found = await connection.fetch(
        SQL.record_checkpoints,
        once(tenants),
        ids,
        once(claims),
        once(holders),
        [pair.effect.uid for pair in fenced],
        once([pair.effect.event for pair in fenced]),
        *(once([getattr(step, name) for step in steps]) for name, _ in RUN_STEP),
    )
    return {row["number"] - 1: Recorded(row["signals"], row["fresh"]) for row in found}


async def record_one(connection: Connection, fenced: Fenced[Checkpoint]) -> int | None:
    """Records a checkpoint without an event: the signals of its run; None if its claim is not
    valid."""
    claim, step = fenced.claim, fenced.effect.step
    signals: int | None = await connection.fetchval(
        SQL.record_checkpoint,
        claim.tenant,
        claim.id,
        claim.number,
        claim.holder,
        fenced.effect.uid,
        *(getattr(step, name) for name, _ in RUN_STEP),
    )
    return signals


def claim_columns(claims: Sequence[Claim]) -> tuple[list[Any], ...]:
    """Claims as columns, in the order in which statements take them."""
    return (
        [claim.tenant for claim in claims],
        [claim.id for claim in claims],
        [claim.number for claim in claims],
        [claim.holder for claim in claims],
    )


async def end_runs(
    connection: Connection, moment: Moment, ends: Sequence[Fenced[RunEnd]]
) -> set[int]:
    """Ends the runs whose claims are valid, or gives them new params; returns their indexes."""
    found = await connection.fetch(
        SQL.end_runs,
        moment(),
        *claim_columns([end.claim for end in ends]),
        [end.effect.uid for end in ends],
        [end.effect.status for end in ends],
        [end.effect.result for end in ends],
        [end.effect.error for end in ends],
        [end.effect.failed_step for end in ends],
        [end.effect.params for end in ends],
    )
    return {row["number"] - 1 for row in found}


class CheckpointWriter(EffectWriter[Checkpoint]):
    """Records steps."""

    async def keep(self, connection: Connection, kept: Collection[int]) -> dict[int, bool]:
        indexes = [index for index in kept if index in self._effects]
        recorded = await record(connection, self._of(indexes))
        return {indexes[position]: step.is_fresh for position, step in recorded.items()}


class SignalWaitWriter(EffectWriter[SignalWait]):
    """Makes runs visible that were released to wait, but have other signals by now. The release has
    locked their messages, so nobody gives them a signal meanwhile."""

    async def released(
        self, connection: Connection, released: Collection[int], ended: EndedMessages
    ) -> None:
        if waiting := self._of(released):
            woken = await connection.fetch(
                SQL.wake_signalled_runs,
                self._moment(),
                [wait.claim.tenant for wait in waiting],
                [wait.claim.id for wait in waiting],
                [wait.effect.seen for wait in waiting],
            )
            ended.queues_to_wake.update(row["queue_id"] for row in woken)


class RunEndWriter(EffectWriter[RunEnd]):
    """Ends runs with their messages."""

    @classmethod
    def is_plain(cls, effect: RunEnd) -> bool:  # noqa: ARG003
        return True

    @classmethod
    def plain_columns(
        cls,
        effects: Mapping[int, Fenced[RunEnd]],
        endings: int,  # noqa: ARG003
    ) -> Sequence[Sequence[object]]:
        """The number of the ack, and how its run ends."""
        ends = [
            (index + 1, end.uid, end.status, end.result, end.error, end.failed_step)
            for index, (_, end, _) in effects.items()
        ]
        return [*zip(*ends, strict=True)] if ends else _NO_ENDS

    async def before_death(self, connection: Connection, dying: Collection[int]) -> None:
        """Ends runs before their messages become dead letters, which fails all others."""
        if ends := self._of(dying):
            await end_runs(connection, self._moment, ends)

    async def write(
        self,
        connection: Connection,
        counted: Sequence[int],
        ended: EndedMessages,  # noqa: ARG002
    ) -> None:
        acked = [end for end in self._of(counted) if end.fate is Fate.ACK]
        if acked:
            await connection.execute(
                SQL.finish_runs,
                self._moment(),
                [end.effect.uid for end in acked],
                [end.claim.id for end in acked],
                [end.effect.status for end in acked],
                [end.effect.result for end in acked],
                [end.effect.error for end in acked],
                [end.effect.failed_step for end in acked],
            )


_NO_ENDS: Sequence[Sequence[object]] = ((),) * 6
