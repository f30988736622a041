"""Records steps and ends of runs on PostgreSQL, those of many runs in one statement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from tickwork.core.model import Claim, Ending, Fate
from tickwork.core.workflow.model import Checkpoint, RunEnd
from tickwork.store.ids import Moment
from tickwork.store.postgres.engine.database import Connection
from tickwork.store.postgres.engine.sql import SQL, once
from tickwork.store.shared.columns import RUN_STEP


class Fenced(Struct, frozen=True):
    """A checkpoint, and the claim that fences it."""

    claim: Claim
    checkpoint: Checkpoint


class Recorded(NamedTuple):
    """A checkpoint that was recorded: the signals of its run. It is not fresh if the step was done
    before: the answer to that was lost."""

    signals: int
    is_fresh: bool


async def record(connection: Connection, fenced: Sequence[Fenced]) -> dict[int, Recorded]:
    """Records the checkpoints whose claims are valid, by index."""
    tenants, ids, claims, holders = claim_columns([pair.claim for pair in fenced])
    steps = [pair.checkpoint.step for pair in fenced]
    found = await connection.fetch(
        SQL.record_checkpoints,
        once(tenants),
        ids,
        once(claims),
        once(holders),
        [pair.checkpoint.uid for pair in fenced],
        once([pair.checkpoint.event for pair in fenced]),
        *(once([getattr(step, name) for step in steps]) for name, _ in RUN_STEP),
    )
    return {row["number"] - 1: Recorded(row["signals"], row["fresh"]) for row in found}


async def record_one(connection: Connection, fenced: Fenced) -> int | None:
    """Records a checkpoint without an event: the signals of its run; None if its claim is not
    valid."""
    claim, step = fenced.claim, fenced.checkpoint.step
    signals: int | None = await connection.fetchval(
        SQL.record_checkpoint,
        claim.tenant,
        claim.id,
        claim.number,
        claim.holder,
        fenced.checkpoint.uid,
        *(getattr(step, name) for name, _ in RUN_STEP),
    )
    return signals


async def record_steps(connection: Connection, kept: Sequence[Ending]) -> dict[int, Recorded]:
    """Records the checkpoints of endings whose claims are valid, by index."""
    fenced = [
        Fenced(ending.claim, ending.checkpoint) for ending in kept if ending.checkpoint is not None
    ]
    return await record(connection, fenced)


def claim_columns(claims: Sequence[Claim]) -> tuple[list[Any], ...]:
    """Claims as columns, in the order in which statements take them."""
    return (
        [claim.tenant for claim in claims],
        [claim.id for claim in claims],
        [claim.number for claim in claims],
        [claim.holder for claim in claims],
    )


class FencedEnd(NamedTuple):
    """The end of a run, and the claim that fences it."""

    claim: Claim
    end: RunEnd


async def end_runs(connection: Connection, moment: Moment, ends: Sequence[FencedEnd]) -> set[int]:
    """Ends the runs whose claims are valid, or gives them new params; returns their indexes."""
    found = await connection.fetch(
        SQL.end_runs,
        moment(),
        *claim_columns([end.claim for end in ends]),
        [end.end.uid for end in ends],
        [end.end.status for end in ends],
        [end.end.result for end in ends],
        [end.end.error for end in ends],
        [ended.end.failed_step for ended in ends],
        [end.end.params for end in ends],
    )
    return {row["number"] - 1 for row in found}


async def end_dead_runs(connection: Connection, moment: Moment, dead: Sequence[Ending]) -> None:
    """Ends runs before their messages become dead letters, which fails all others."""
    ends = [
        FencedEnd(ending.claim, ending.run_end) for ending in dead if ending.run_end is not None
    ]
    if ends:
        await end_runs(connection, moment, ends)


def run_ends(endings: Sequence[Ending]) -> tuple[list[Any], ...]:
    """The runs that acks end, as columns: the number of the ack, and how its run ends."""
    ends = [
        (number, end.uid, end.status, end.result, end.error, end.failed_step)
        for number, ending in enumerate(endings, start=1)
        if (end := ending.run_end) is not None
    ]
    return tuple(map(list, zip(*ends, strict=True))) if ends else ([], [], [], [], [], [])


async def finish_runs(connection: Connection, moment: Moment, ended: Sequence[Ending]) -> None:
    """Ends the runs of messages that were acked in this transaction."""
    ends = [
        (ending.claim.id, ending.run_end)
        for ending in ended
        if ending.run_end is not None and ending.fate is Fate.ACK
    ]
    if ends:
        await connection.execute(
            SQL.finish_runs,
            moment(),
            [end.uid for _, end in ends],
            [message_id for message_id, _ in ends],
            [end.status for _, end in ends],
            [end.result for _, end in ends],
            [end.error for _, end in ends],
            [end.failed_step for _, end in ends],
        )
