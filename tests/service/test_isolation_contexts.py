"""What a handler sets in its context ends with it, with every isolation."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.service.programs import handlers
from tests.service.workplace import Workplace
from tickwork.app.message import Message
from tickwork.service.worker.prefetch import Prefetch

MESSAGES = 20


@pytest.fixture(autouse=True)
def in_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are in hand before their slot is free: the end of one begins the next."""
    monkeypatch.setattr(Prefetch, "claim_limit", lambda prefetch, *_: MESSAGES - len(prefetch))


_from_outside: ContextVar[str] = ContextVar("from_outside", default="nothing")


@pytest.mark.parametrize(
    ("handler", "isolation"),
    [
        (handlers.see_in_a_task, "task"),
        (handlers.see, "thread"),
        (handlers.see, "process"),
        (handlers.see_in_a_task, "process"),
    ],
)
async def test_no_message_sees_the_context_of_another(
    tmp_path: Path, handler: Any, isolation: str
) -> None:
    place = Workplace(tmp_path)
    place.handle(handler, isolation=isolation, max_concurrency=1)
    await place.send(*range(MESSAGES))
    async with place.app.running():
        seen = await place.until_out(MESSAGES)
    assert sorted(seen) == [[number, None] for number in range(MESSAGES)]


async def test_every_message_sees_the_context_in_which_the_worker_was_started(
    tmp_path: Path,
) -> None:
    place = Workplace(tmp_path)

    async def handle(message: Any) -> None:
        message.send("out", _from_outside.get())
        _from_outside.set("spoilt")

    place.handle(handle, max_concurrency=1)
    _from_outside.set("the caller's")
    await place.send(1, 2, 3)
    async with place.app.running():
        assert await place.until_out(3) == ["the caller's"] * 3


@dataclass
class Noting:
    """A payload that looks around where it is made."""

    number: int

    def __post_init__(self) -> None:
        _noted.append(_from_outside.get())


_noted: list[str] = []


async def test_payloads_are_made_in_nobodys_context(tmp_path: Path) -> None:
    place = Workplace(tmp_path)

    async def handle(message: Message[Noting]) -> None:
        _from_outside.set("a handler's")
        message.send("out", message.body.number)

    place.handle(handle, max_concurrency=1)
    await place.send(*({"number": number} for number in range(MESSAGES)))
    _noted.clear()  # What is sent is checked by making it, too.
    async with place.app.running():
        await place.until_out(MESSAGES)
    assert _noted == ["nothing"] * MESSAGES
