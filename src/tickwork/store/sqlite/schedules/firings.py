"""Records firings on SQLite, with a settlement or a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import Any

import msgspec

from tickwork.core.schedule.firing import (
    FiringResult,
    FiringStatus,
)
from tickwork.core.schedule.plan import Skip
from tickwork.store.ids import new_id
from tickwork.store.sqlite.engine.sql import (
    SQL,
    for_rows,
    in_chunks,
    microseconds,
    to_microseconds,
)
from tickwork.store.sqlite.engine.work import Transaction
from tickwork.store.sqlite.messages import rows

SkipValues = tuple[int, int | None, int, str, int]
"""A range of slots that did not fire: first slot, last slot if there are several, count, reason,
run."""

NO_ERRORS: Mapping[tuple[str, bytes], str] = MappingProxyType({})

ATTEMPT = 4
"""Position of the attempt number in a recorded slot."""


def record(transaction: Transaction, attempts: Sequence[tuple[rows.Row, FiringResult]]) -> None:
    """Records attempts at slots, each slot with the columns of `claimed_slots`."""
    now = transaction.now
    _write(
        transaction,
        [
            (
                *(slot if firing.is_attempt else _unseen(slot)), new_id().bytes,
                str(firing.status), firing.reason,
                now - microseconds(firing.took_seconds), now, firing.result_code, firing.excerpt,
                _channels(firing), 1, None,
            )
            for slot, firing in attempts
        ],
    )  # fmt: skip


def _unseen(slot: rows.Row) -> rows.Row:
    """A slot whose message ended without another attempt."""
    return (*slot[:ATTEMPT], slot[ATTEMPT] - 1, *slot[ATTEMPT + 1 :])


def skip_values(skip: Skip) -> SkipValues:
    """A range of skipped slots, prepared for writing."""
    first = to_microseconds(skip.first)
    last = to_microseconds(skip.last) if skip.count > 1 else None
    return first, last, skip.count, skip.reason, skip.run


def record_skips(
    transaction: Transaction,
    skips: Sequence[tuple[tuple[str, bytes], SkipValues]],
    errors: Mapping[tuple[str, bytes], str] = NO_ERRORS,
) -> None:
    """Records ranges of slots that did not fire, with the error if they could not be planned."""
    now, skipped = transaction.now, str(FiringStatus.SKIPPED)
    _write(
        transaction,
        [
            (*key, first, run, 0, first, 0, new_id().bytes, skipped, reason, now, now, None,
             errors.get(key), "[]", count, last)
            for key, (first, last, count, reason, run) in skips
        ],
    )  # fmt: skip


def _write(transaction: Transaction, found: Sequence[tuple[Any, ...]]) -> None:
    for some in in_chunks(found):
        statement = for_rows(SQL.record_firings, len(some))
        transaction.execute(statement, tuple(chain.from_iterable(some)))


def _channels(firing: FiringResult) -> str:
    return msgspec.json.encode(firing.channels).decode() if firing.channels else "[]"
