"""A batch while it is watched: a bar at a terminal, else lines, or JSON for programs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING

from tickwork.cli.printing import bar, print_json_line, print_lines
from tickwork.clock import monotonic

if TYPE_CHECKING:
    from tickwork.core.message.batch import Batch
    from tickwork.ops.batches import Progress

LINE_SECONDS = 5.0
"""Where there is no terminal a line tells of a change no more often than this."""


async def show(looks: AsyncIterator[Progress], *, as_json: bool) -> Batch:
    """Shows what is seen of a batch, and answers with the batch as it was last."""
    look, printed, printed_at = None, None, 0.0
    with nullcontext() if as_json else bar() as tell:
        async for look in looks:
            batch = look.batch
            if tell is not None:
                tell(sentence(look), batch.completed + batch.failed, batch.total)
            elif batch != printed and (
                as_json or printed is None or monotonic() >= printed_at + LINE_SECONDS
            ):
                _print(look, as_json=as_json)
                printed, printed_at = batch, monotonic()
    assert look is not None, "whoever watches looks at least once"
    if look.batch != printed:
        _print(look, as_json=as_json)
    return look.batch


def sentence(look: Progress) -> str:
    """All there is to say about a batch, on one line."""
    from tickwork.core.message.batch import BatchStatus

    batch = look.batch
    so_far = " so far" if batch.status is BatchStatus.FILLING else ""
    counts = (
        f"{batch.pending} pending, {batch.processing} processing, {batch.completed} completed, "
        f"{batch.failed} failed, of {batch.total}{so_far}"
    )
    if batch.status is BatchStatus.COMPLETED or look.rate_per_second is None:
        return counts
    rate = f"{look.rate_per_second:.1f} a second"
    if look.remaining_seconds is None:
        return f"{counts}; {rate}"
    return f"{counts}; {rate}, {timedelta(seconds=round(look.remaining_seconds))} left"


def _print(look: Progress, *, as_json: bool) -> None:
    from msgspec import structs

    if as_json:
        fields = structs.asdict(look)
        print_json_line({**structs.asdict(fields.pop("batch")), **fields})
    else:
        print_lines([sentence(look)])
