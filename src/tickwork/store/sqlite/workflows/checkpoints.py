"""Records steps and ends of runs on SQLite, each fenced by the claim of its run's message."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple
from uuid import UUID

from tickwork.core.model import Claim, Fate
from tickwork.core.workflow.model import Checkpoint, RunEnd, SignalWait
from tickwork.store.shared.columns import RUN_STEP, Kind, compiled
from tickwork.store.shared.effects import Fenced
from tickwork.store.sqlite.engine.sql import SQL, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages.effects import EffectWriter

_STORED = {
    Kind.TEXT: "step.{0} and str(step.{0})",
    Kind.TIME: "step.{0} and to_microseconds(step.{0})",
}
_step_values = compiled(
    "step",
    f"({', '.join(_STORED.get(kind, 'step.{0}').format(name) for name, kind in RUN_STEP)})",
    to_microseconds=to_microseconds,
)
"""The values of a step, as the file stores them."""


class Recorded(NamedTuple):
    """A checkpoint that was recorded: the signals of its run. It is not fresh if the step was done
    before: the answer to that was lost."""

    signals: int
    is_fresh: bool


def record(transaction: Transaction, fenced: Fenced[Checkpoint]) -> Recorded | None:
    """Records a checkpoint; None if the claim is not valid."""
    claim, checkpoint = fenced.claim, fenced.effect
    found = claimed(transaction, claim, checkpoint.uid)
    if found is None:
        return None
    signals, lost = found
    step, uid = checkpoint.step, checkpoint.uid.bytes
    written = transaction.execute(SQL.record_checkpoint, (*_step_values(step), uid))
    if checkpoint.event is not None:
        transaction.execute(SQL.consume_event, (uid, checkpoint.event, step.key))
    if lost:
        transaction.execute(SQL.clear_lost_claims, (claim.tenant, claim.id.bytes))
    return Recorded(signals, written.rowcount > 0)


class CheckpointWriter(EffectWriter[Checkpoint]):
    """Records steps."""

    def keep(self, transaction: Transaction, kept: Collection[int]) -> dict[int, bool]:
        indexes = [index for index in kept if index in self._effects]
        recorded = {index: record(transaction, self._effects[index]) for index in indexes}
        return {index: step.is_fresh for index, step in recorded.items() if step is not None}


class SignalWaitWriter(EffectWriter[SignalWait]):
    """Makes runs visible that were released to wait, but have other signals by now."""

    def released(self, transaction: Transaction, released: Collection[int]) -> None:
        for claim, wait, _ in self._of(released):
            asked = (claim.tenant, claim.id.bytes, transaction.now, wait.seen)
            row = transaction.execute(SQL.wake_signalled_runs, asked).fetchone()
            if row is not None:
                transaction.queues_to_wake.add(UUID(bytes=row[0]))


class RunEndWriter(EffectWriter[RunEnd]):
    """Ends runs with their messages, each by a valid claim."""

    def before_death(self, transaction: Transaction, dying: Collection[int]) -> None:
        """Ends runs before their messages become dead letters, which fails all others."""
        _finish_runs(transaction, self._of(dying))

    def write(self, transaction: Transaction, counted: Sequence[int]) -> None:
        _finish_runs(transaction, [end for end in self._of(counted) if end.fate is Fate.ACK])


def _finish_runs(transaction: Transaction, ended: Iterable[Fenced[RunEnd]]) -> None:
    for claim, end, _ in ended:
        ids = (end.uid.bytes, claim.id.bytes)
        values = (str(end.status), end.result, end.error, end.failed_step, transaction.now)
        transaction.execute(SQL.finish_runs, ids + values)


def claimed(transaction: Transaction, claim: Claim, uid: UUID) -> tuple[int, int] | None:
    """The signals and lost claims of a running run, if its message is still claimed like this."""
    fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes, uid.bytes)
    found: tuple[int, int] | None = transaction.execute(SQL.claimed_run, fence).fetchone()
    return found
