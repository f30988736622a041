"""Errors of an app that cannot say what they are: they cost their own message, and no slot."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.service.workplace import Workplace
from tickwork import Permanent, Snooze
from tickwork.core.message.error_summary import summary_line
from tickwork.core.message.outcome import Failed, Snoozed
from tickwork.facade.app import Tickwork
from tickwork.service.worker.invoke import outcome_of_error, run_safely
from tickwork.testing import harness


class Limited(Snooze):
    """It says no seconds."""

    def __init__(self, why: str) -> None:
        self.why = why


class Later(Snooze):
    """Its seconds are no number."""

    def __init__(self, seconds: Any) -> None:
        self.seconds = seconds


class Gone(Permanent):
    """It has no text."""

    def __str__(self) -> str:
        return self.args[0]  # type: ignore[no-any-return]


class Misread(SyntaxError):
    """Not even a traceback can be written of it."""

    def __init__(self) -> None:
        super().__init__("misread")
        self.lineno, self.text = 1, 5  # type: ignore[assignment]


NO_SECONDS = "TypeError: a Snooze without seconds"
OUT_OF_RANGE = "ValueError: seconds must be from 0 to 31536000"


@pytest.mark.one_store("sqlite")
@pytest.mark.parametrize(
    ("error", "reason", "told"),
    [
        (Limited("too many"), "max_retries", NO_SECONDS),
        (Later(timedelta(seconds=1)), "max_retries", NO_SECONDS),
        (Later(True), "max_retries", NO_SECONDS),
        (Later(10**400), "max_retries", OUT_OF_RANGE),
        (Later(-1), "max_retries", OUT_OF_RANGE),
        (Gone(404), "permanent", "Gone: <exception str() failed>"),
        (Misread(), "max_retries", "Misread: an error that cannot be described"),
    ],
    ids=lambda name: type(name).__name__ if isinstance(name, Exception) else "",
)
@pytest.mark.parametrize("where", ["task", "thread"])
async def test_an_error_that_cannot_be_told_costs_its_own_message(
    app: Tickwork, database: str | None, where: str, error: Exception, reason: str, told: str
) -> None:
    app.queue("work", max_retries=0)
    seen: list[Any] = []

    def handle(message: Any) -> None:
        if message.body == "bad":
            raise error
        seen.append(message.body)

    async def handle_in_a_task(message: Any) -> None:
        handle(message)

    app.on("work", max_concurrency=1)(handle if where == "thread" else handle_in_a_task)
    async with harness(app, database=database) as h:
        await app.queue("work").send_batch(["bad", "bad", "good"])
        await h.drain()
        assert seen == ["good"]
        dead = await h.dead("work")
    assert [letter.reason for letter in dead] == [reason, reason]
    assert all(told in summary_line(letter.error) for letter in dead)


async def test_threads_outlive_errors_that_cannot_be_told(tmp_path: Path) -> None:
    place = Workplace(tmp_path)

    def handle(message: Any) -> None:
        if message.body == "bad":
            raise Limited("too many")
        message.send("out", threading.current_thread().name)

    place.handle(handle, max_concurrency=2)
    await place.send(*["bad"] * 20)
    async with place.app._engine.running() as worker:
        await place.until_dead(20)
        consumer = worker.consumers[0]
        assert consumer.permits.limit == 2
        await place.send("good")
        assert await place.until_out() == ["tickwork-handler"]


async def test_a_word_that_cannot_be_settled_is_a_failure(tmp_path: Path) -> None:
    place = Workplace(tmp_path)

    async def handle(message: Any) -> None:
        message._outcome = Snoozed(timedelta(seconds=1))  # type: ignore[arg-type]

    place.handle(handle)
    await place.send("a")
    async with place.app.running():
        (error,) = await place.until_dead()
    assert "TypeError" in error


def test_whatever_fails_is_an_outcome() -> None:
    def fails() -> None:
        raise KeyboardInterrupt("no luck")

    outcome = run_safely(fails)
    assert isinstance(outcome, Failed)
    assert "no luck" in outcome.error
    assert outcome_of_error(Snooze(3)) == Snoozed(3.0)
