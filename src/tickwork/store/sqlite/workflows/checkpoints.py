"""Records steps and ends of runs on SQLite, each fenced by the claim of its run's message."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from msgspec import Struct

from tickwork.core.model import Claim, Ending
from tickwork.core.workflow.model import Checkpoint, Run, RunEvent, RunStep, StepKind, StepState
from tickwork.store.shared.columns import RUN, RUN_STEP, Kind, compiled, read_run
from tickwork.store.sqlite.engine.sql import CONVERSIONS, SQL, from_microseconds, to_microseconds
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

_RUN_TIMES = ("deadline_at", "created_at", "finished_at", "diverged_at")
_RUN_IDS = ("uid", "message_id")


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


def run(row: Any) -> Run:
    """A row of `RUN`."""
    fields = dict(zip(RUN, row, strict=True))
    for name in _RUN_TIMES:
        fields[name] = _time(fields[name])
    for name in _RUN_IDS:
        fields[name] = UUID(bytes=fields[name])
    return read_run(fields.values())


def run_step(row: Any) -> RunStep:
    """A row with the columns of `RunStep`."""
    fields: dict[str, Any] = {
        name: _time(value) if kind is Kind.TIME else value
        for (name, kind), value in zip(RUN_STEP, row, strict=True)
    }
    fields["kind"], fields["state"] = StepKind(fields["kind"]), StepState(fields["state"])
    return RunStep(**fields)


def run_event(row: Any) -> RunEvent:
    """A row with the columns of `RunEvent`."""
    fields = dict(zip(RunEvent.__struct_fields__, row, strict=True))
    return RunEvent(**{**fields, "sent_at": from_microseconds(fields["sent_at"])})


def stored(value: Any) -> Any:
    """A value as the file stores it."""
    if isinstance(value, UUID):
        return value.bytes
    if isinstance(value, datetime):
        return CONVERSIONS[Kind.TIME](value)
    return str(value) if isinstance(value, str) else value


def _time(value: int | None) -> datetime | None:
    return None if value is None else from_microseconds(value)
