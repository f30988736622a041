"""Requests with an idempotency key: begin one, keep its answer, or forget it if it failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import overload
from uuid import UUID

from tickwork.core.request import KEY_LENGTH_MAX, StoredRequest
from tickwork.errors import Conflict, RequestRunning
from tickwork.ops.context import Context
from tickwork.store.ids import new_id

__all__ = [
    "KEY_LENGTH_MAX",
    "PENDING_ANSWER",
    "DoneMark",
    "begin",
    "done_with_change",
    "finish",
    "forget",
    "ids_from",
    "new_seed",
]

PENDING_ANSWER = b""
"""The stored answer of a request whose change is done and whose answer is not known."""

IDS_MAX = 2**20
"""Maximum number of ids that one seed gives."""


async def begin(context: Context, key: str, fingerprint: bytes) -> StoredRequest:
    """Records a request, or returns the answer that it had before. Raises `Conflict` if it was
    another request, and `RequestRunning` if it is still running."""
    begun = await context.store.requests.begin(context.scope, key, fingerprint, new_id())
    if begun.fingerprint != fingerprint:
        raise Conflict(
            "this Idempotency-Key was used for another request; choose a new key for a new request"
        )
    if not begun.is_own and begun.answer is None:
        raise RequestRunning(
            "a request with this Idempotency-Key is still running; repeat it in a moment"
        )
    return begun


class DoneMark:
    """The answer of a request that is stored with its change; `PENDING_ANSWER` if the answer is
    made only afterwards."""

    def __init__(self) -> None:
        self.answer = PENDING_ANSWER


@asynccontextmanager
async def done_with_change(context: Context, key: str, seed: UUID) -> AsyncIterator[DoneMark]:
    """Marks a request as done in the transaction of the first change that is made inside: if the
    process dies afterwards, a repeat changes nothing more."""
    mark = DoneMark()
    async with context.store.requests.joined(context.scope, key, seed, lambda: mark.answer):
        yield mark


async def finish(context: Context, key: str, seed: UUID, answer: bytes) -> None:
    """Keeps the answer of a request."""
    await context.store.requests.finish(context.scope, key, seed, answer)


async def forget(context: Context, key: str, seed: UUID) -> None:
    """Forgets a request that failed."""
    await context.store.requests.forget(context.scope, key, seed)


def new_seed() -> UUID:
    """An id from which a request takes the ids of what it creates."""
    return new_id()


def ids_from(seed: UUID, count: int) -> Sequence[UUID]:
    """Ids that are the same for every attempt at a request; they sort by number and time. Each is
    made when it is taken: a caller may give a list that is too long."""
    assert count <= IDS_MAX
    return _SeededIds(seed.int - seed.int % IDS_MAX, count)


class _SeededIds(Sequence[UUID]):
    def __init__(self, start: int, count: int) -> None:
        self._numbers = range(start, start + count)

    def __len__(self) -> int:
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> UUID: ...
    @overload
    def __getitem__(self, index: slice) -> list[UUID]: ...
    def __getitem__(self, index: int | slice) -> UUID | list[UUID]:
        if isinstance(index, slice):
            return [UUID(int=number) for number in self._numbers[index]]
        return UUID(int=self._numbers[index])
