"""A function on a schedule may run in a process, with limits."""

from __future__ import annotations

import os
from typing import Any

import msgspec
import pytest

from tests.kit.waiting import eventually
from tests.service.programs import process_functions
from tests.stores.home import Home
from tickwork.core.model import DEFAULT
from tickwork.facade.app import Tickwork


@pytest.fixture
def app(home: Home, monkeypatch: pytest.MonkeyPatch) -> Tickwork:
    """The app of the module, on the database of this test."""
    monkeypatch.setitem(process_functions.app._engine._flags, "database", home.url)
    return process_functions.app


@pytest.mark.one_store("sqlite")
async def test_a_function_in_a_process_gets_its_firing_and_its_limit(app: Tickwork) -> None:
    async with app.running():
        store = await app._engine.open()

        async def sent() -> list[Any]:
            found = await store.messages.peek(DEFAULT, "out", 10)
            return [msgspec.json.decode(message.body) for message in found]

        async def errors() -> list[str | None]:
            found = await app.dead_letters.list("functions.functions")
            return [letter.error for letter in found]

        await store.subscriptions.put(DEFAULT, "report.*", "heard")
        for name in ("report", "burn"):
            await app.schedules.trigger(name)
        await eventually(sent)
        await eventually(errors)
        ((*firing, pid),) = await sent()
        assert firing == ["report", "sales", 1]
        assert pid != os.getpid()
        (error,) = await errors()
        assert error is not None
        assert "used more than 0.5 seconds of CPU time" in error
        heard = await store.messages.peek(DEFAULT, "heard", 10)
        assert [message.type for message in heard] == ["report.made"]
