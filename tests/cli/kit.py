"""Runs commands on a database and prepares what they need in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from tickwork import wiring
from tickwork.cli import app
from tickwork.core.model import DEFAULT, ClaimRequest, Ending, Fate, Settlement
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

T = TypeVar("T")


class Desk:
    """Commands on one database."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.url = url or f"sqlite:///{folder}/tickwork.db"
        self._runner = CliRunner()

    def run(self, *words: str, given: str | None = None) -> Result:
        """A command; what it answers is in `stdout`, what it says beside that in `stderr`."""
        is_only_read = words[0] == "topology" and not {"show", "apply"} & {*words}
        asks = [] if is_only_read else ["--database", self.url]
        return self._runner.invoke(app, [*words, *asks], input=given)

    def answer(self, *words: str) -> str:
        """What a command answers that must succeed."""
        result = self.run(*words)
        assert (result.exit_code, result.stderr) == (0, "")
        return result.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self.answer(*words, "--json"))

    def store(self, work: Callable[[Store], Awaitable[T]]) -> T:
        """What the work answers, given the store."""

        async def run() -> T:
            store = await wiring.open_store(wiring.Settings(database=self.url))
            try:
                return await work(store)
            finally:
                await store.close()

        return asyncio.run(run())


async def kill(store: Store, queue: str, **ending: Any) -> None:
    """Lets every visible message of the queue die."""
    request = ClaimRequest(queue=queue, holder=new_id(), limit=1_000, lease_seconds=30)
    messages = await store.messages.claim(DEFAULT, request)
    endings = [
        Ending(claim=message.current_claim, fate=Fate.DEAD, **ending) for message in messages
    ]
    await store.messages.settle(DEFAULT, Settlement(tuple(endings)))
