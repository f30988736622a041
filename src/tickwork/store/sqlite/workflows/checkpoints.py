"""Records steps and ends of runs on SQLite, each fenced by the claim of its run's message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from msgspec import Struct

from tickwork.core.model import Claim, Ending
from tickwork.core.workflow.model import Checkpoint
from tickwork.store.shared.columns import RUN_STEP, Kind, compiled
from tickwork.store.sqlite.engine.sql import SQL, to_microseconds
from tickwork.store.sqlite.engine.work import Transaction

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


class Fenced(Struct, frozen=True):
    """A checkpoint, and the claim that fences it."""

    claim: Claim
    checkpoint: Checkpoint


class Recorded(NamedTuple):
    """A checkpoint that was recorded: the signals of its run. It is not fresh if the step was done
    before: the answer to that was lost."""

    signals: int
    is_fresh: bool


def record(transaction: Transaction, fenced: Fenced) -> Recorded | None:
    """Records a checkpoint; None if the claim is not valid."""
    claim, checkpoint = fenced.claim, fenced.checkpoint
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


def finish_runs(transaction: Transaction, ended: Iterable[Ending]) -> None:
    """Ends the runs of messages that end in this transaction, each by a valid claim."""
    for ending in ended:
        if (end := ending.run_end) is not None:
            ids = (end.uid.bytes, ending.claim.id.bytes)
            values = (str(end.status), end.result, end.error, end.failed_step, transaction.now)
            transaction.execute(SQL.finish_runs, ids + values)


def claimed(transaction: Transaction, claim: Claim, uid: UUID) -> tuple[int, int] | None:
    """The signals and lost claims of a running run, if its message is still claimed like this."""
    fence = (claim.tenant, claim.id.bytes, claim.number, claim.holder.bytes, uid.bytes)
    found: tuple[int, int] | None = transaction.execute(SQL.claimed_run, fence).fetchone()
    return found
