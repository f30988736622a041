"""A forked copy of a handler process never answers the worker."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.service.programs import forking
from tests.service.workplace import Workplace
from tests.stores.home import Home


@pytest.fixture
async def place(home: Home) -> AsyncIterator[Workplace]:
    """An app on a database of each kind."""
    place = Workplace(home.url)
    yield place
    await place.app.close()


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize("handler", [forking.fork, forking.fork_in_a_task])
async def test_a_copy_that_comes_back_ends_and_answers_nothing(
    place: Workplace, handler: Callable[[Any], Any]
) -> None:
    place.handle(handler, isolation="process", max_concurrency=1)
    async with place.app.running():
        await place.send(*forking.COPIES, "a", "b", "bad", "c")
        told = await place.until_out(len(forking.COPIES) + 3)
        assert sorted(told, key=str) == sorted(
            [
                ["exec", 1],
                ["fail", 1],
                ["exit", 7],
                ["exit in peace", 0],
                ["return", 0],
                *("a", "b", "c"),
            ],
            key=str,
        )
        (dead,) = await place.until_dead()
        assert "ValueError: really failed" in dead


@pytest.mark.one_store("sqlite")
async def test_an_answer_to_another_question_is_not_taken(place: Workplace) -> None:
    """The process that gave it is not used again, since nobody knows who speaks there."""
    place.handle(forking.answer_too_much, isolation="process", max_concurrency=1)
    async with place.app.running():
        await place.send("a")
        ((_, first),) = await place.until_out()
        await place.send("forge")
        (dead,) = await place.until_dead()
        assert "its process sent an answer to no request" in dead
        await place.send("b", "c")
        _, (b, second), (c, third) = await place.until_out(3)
        assert {b, c} == {"b", "c"}
        assert (second == third, second == first) == (True, False)
        assert len(await place.errors()) == 1
