"""Batches that cannot be made: what is left of them, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from math import nan
from typing import Any

import pytest

from tickwork.app.message import Message
from tickwork.core.answers.batch import BatchAnswer
from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.message.batch import Batch, BatchStatus, ItemStatus
from tickwork.core.model import DEFAULT, ClaimRequest, Counts, Ending, Fate, Settlement
from tickwork.errors import InvalidInput, StoreUnavailable
from tickwork.facade.app import Tickwork
from tickwork.store.ids import new_id
from tickwork.testing import Harness, harness

PIECE, MANY = 10, 25


@pytest.fixture(autouse=True)
def _in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many items are more than any store stores in one piece."""
    monkeypatch.setattr("tickwork.store.sqlite.messages.batch_fill.PIECE_ITEMS", PIECE)
    monkeypatch.setattr("tickwork.store.postgres.messages.batch_fill.PIECE_ITEMS", PIECE)


class Told:
    """An app whose items are numbers, and what it was told of."""

    def __init__(self, app: Tickwork) -> None:
        self.numbers: list[int] = []
        self.ends: list[BatchAnswer] = []
        app.queue("items")
        app.on("items")(self.handle)
        app.on_completed("items")(self.done)

    async def handle(self, message: Message[int]) -> None:
        self.numbers.append(message.body)

    async def done(self, batch: BatchAnswer) -> None:
        self.ends.append(batch)


async def batches(h: Harness) -> tuple[Batch, ...]:
    return await h.store.batches.list(DEFAULT, 100)


async def counts(h: Harness) -> Counts:
    return (await h.store.stats.queue(DEFAULT, "items")).counts


def failing(after: int, error: BaseException) -> Iterator[int]:
    yield from range(after)
    raise error


@pytest.mark.parametrize(
    ("items", "options", "error"),
    [
        (lambda: ["bad"], {}, InvalidInput),
        (lambda: [1, 2, "bad"], {}, InvalidInput),
        (lambda: [1], {"delay_seconds": -1}, InvalidInput),
        (lambda: failing(3, OSError("gone")), {}, OSError),
    ],
    ids=["first", "third", "option", "raised"],
)
async def test_of_a_batch_whose_beginning_is_refused_nothing_is_left(
    app: Tickwork,
    database: str | None,
    items: Callable[[], Iterable[object]],
    options: dict[str, Any],
    error: type[Exception],
) -> None:
    told = Told(app)
    async with harness(app, database=database) as h:
        for batch_id in (None, new_id()):
            with pytest.raises(error):
                await app.batch("items", items(), batch_id=batch_id, **options)
        assert await batches(h) == ()
        await h.advance(hours=2)
        assert (told.numbers, told.ends) == ([], [])


async def test_a_batch_that_is_refused_later_is_taken_back_and_can_be_repeated(
    app: Tickwork, database: str | None
) -> None:
    told = Told(app)
    items: list[object] = [*range(MANY)]
    items[-1] = "bad"
    async with harness(app, database=database) as h:
        with pytest.raises(InvalidInput, match=rf"items\[{MANY - 1}\]"):
            await app.batch("items", items)
        assert await counts(h) == Counts()
        (left,) = await batches(h)
        assert (left.status, left.pending, left.failed) == (BatchStatus.COMPLETED, 0, left.total)
        items[-1] = MANY - 1
        made = await app.batch("items", items)
        await h.drain()
        assert sorted(told.numbers) == items
        await h.advance(hours=2)
        assert [batch.id for batch in told.ends] == [made.id]


async def test_a_batch_that_is_left_in_the_middle_is_taken_back(
    app: Tickwork, database: str | None
) -> None:
    told = Told(app)
    async with harness(app, database=database) as h:
        with pytest.raises(asyncio.CancelledError):
            await app.batch("items", failing(MANY, asyncio.CancelledError()))
        assert await counts(h) == Counts()
        await h.advance(hours=2)
        assert (told.numbers, told.ends) == ([], [])


async def test_what_was_begun_of_a_refused_batch_goes_on_and_nobody_is_told(
    app: Tickwork, database: str | None
) -> None:
    told = Told(app)
    request = ClaimRequest(queue="items", holder=new_id(), limit=2, lease_seconds=30)
    async with harness(app, database=database) as h:
        making = asyncio.create_task(app.batch("items", failing(100 * MANY, OSError("gone"))))
        while not (begun := await h.store.messages.claim(DEFAULT, request)):
            assert not making.done()
            await asyncio.sleep(0)
        with pytest.raises(OSError, match="gone"):
            await making
        assert await counts(h) == Counts(claimed=len(begun))
        (left,) = await batches(h)
        assert (left.status, left.processing, left.pending) == (
            BatchStatus.COMPLETED,
            len(begun),
            0,
        )
        endings = [Ending(claim=message.current_claim, fate=Fate.ACK) for message in begun]
        await h.store.messages.settle(DEFAULT, Settlement(tuple(endings)))
        await h.advance(hours=2)
        assert (told.numbers, told.ends) == ([], [])
        done = await h.store.batches.items(DEFAULT, left.id, ItemStatus.COMPLETED, 10)
        assert {item.id for item in done} == {message.id for message in begun}


async def test_a_refused_batch_with_an_id_of_ones_own_stays(
    app: Tickwork, database: str | None
) -> None:
    told = Told(app)
    async with harness(app, database=database) as h:
        batch_id = new_id()
        with pytest.raises(OSError, match="gone"):
            await app.batch("items", failing(MANY, OSError("gone")), batch_id=batch_id)
        (left,) = await batches(h)
        assert (left.id, left.status) == (batch_id, BatchStatus.FILLING)
        assert left.pending == left.total > 0
        await app.batch("items", range(MANY), batch_id=batch_id)
        await h.drain()
        assert sorted(told.numbers) == [*range(MANY)]
        assert [batch.total for batch in told.ends] == [MANY]


@pytest.mark.parametrize(
    ("asked", "given", "said"),
    [
        ("items", ("foo",), "status: must be one of pending, processing, completed, failed, not "),
        ("items", (None,), "status: must be one of"),
        ("items", (5,), "status: must be one of"),
        ("items", ("failed", "5"), "limit: must be a whole number, not '5'"),
        ("wait", ("5",), "timeout_seconds: must be a number, not '5'"),
        ("wait", (nan,), "timeout_seconds: must be a number of seconds, not NaN"),
    ],
)
async def test_what_cannot_be_asked_of_a_batch_is_named(
    app: Tickwork, asked: str, given: tuple[Any, ...], said: str
) -> None:
    app.queue("items")
    async with harness(app):
        batch = await app.batch("items", [1])
        with pytest.raises(InvalidInput, match=f"^{said}"):
            await getattr(batch, asked)(*given)


async def test_the_name_of_a_status_will_do(app: Tickwork, database: str | None) -> None:
    app.queue("items")
    status: Any = "pending"
    async with harness(app, database=database):
        batch = await app.batch("items", [1, 2])
        assert len(await batch.items(status)) == 2


async def test_what_cannot_be_taken_back_is_named(
    app: Tickwork, database: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Told(app)

    async def away(*_: object, **__: object) -> Batch:
        raise StoreUnavailable("the database is away")

    async with harness(app, database=database) as h:
        with monkeypatch.context() as patch:
            patch.setattr(h.store.batches, "cancel", away)
            with pytest.raises(OSError, match="gone") as raised:
                await app.batch("items", failing(MANY, OSError("gone")))
        (left,) = await batches(h)
        (note,) = raised.value.__notes__
        assert f"tickwork batches cancel {public_id(Prefix.BATCH, left.id)}" in note
        assert "the database is away" in note
