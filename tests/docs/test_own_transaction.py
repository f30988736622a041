"""The outbox of `docs/own-transaction.md`, from one PostgreSQL database to another."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.docs.snippets import PageRunner, blocks
from tests.kit.databases import PostgresHost
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Tickwork

PAGE = Path(__file__).resolve().parents[2] / "docs" / "own-transaction.md"
HEADING = "## From a database that is not Tickwork's"


def test_the_first_half_of_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TICKWORK_DATABASE", raising=False)
    page, _ = PAGE.read_text(encoding="utf-8").split(HEADING)
    with asyncio.Runner() as runner:
        PageRunner("docs/own-transaction.md", tmp_path, runner).run(page)


def block(language: str) -> str:
    _, page = PAGE.read_text(encoding="utf-8").split(HEADING)
    (found,) = [snippet.text for snippet in blocks(page) if snippet.language == language]
    return found


def relay_of_the_page(folder: Path) -> Any:
    path = folder / "relay.py"
    path.write_text(block("python"))
    spec = importlib.util.spec_from_file_location("relay", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_bad_row_of_the_outbox_is_set_aside_and_the_others_go_on(
    home: Home,
    postgres_server: PostgresHost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = await postgres_server.create_database()
    monkeypatch.setenv("TICKWORK_DATABASE", home.url)
    relay = relay_of_the_page(tmp_path)
    shop = await asyncpg.connect(url)
    await shop.execute(block("sql"))
    handled: list[int] = []

    async def write(*rows: tuple[str, Any]) -> None:
        for queue, body in rows:
            await shop.execute(
                "INSERT INTO outbox (queue, body) VALUES ($1, $2)", queue, json.dumps(body)
            )

    app: Tickwork = relay.app
    app.queue("orders", payload=int)

    @app.on("orders")
    async def order(message: Any) -> None:
        handled.append(message.body)

    rolled_back = shop.transaction()
    await rolled_back.start()
    await write(("orders", 0))
    await rolled_back.rollback()
    await write(("orders", 1), ("orders", 2))
    async with app.running():
        dying = shop.transaction()
        await dying.start()
        assert await relay.move(shop) == 2
        await dying.rollback()  # As when the program dies between the sends and the delete.
        assert await relay.move(shop) == 2
        await write(("ordres", 3), ("orders", "four"), ("orders", 5))
        assert await relay.move(shop) == 3
        assert await relay.move(shop) == 0
        await eventually(lambda: sorted(handled) == [1, 2, 5], what="the good rows")

        async def is_empty() -> bool:
            counts = (await app.queues.stats("outbox")).counts
            return (counts.ready + counts.claimed, counts.dead) == (0, 2)

        await eventually(is_empty, what="the bad rows")
        letters = await app.dead_letters.list("outbox")
    assert sorted(letter.body["queue"] for letter in letters) == ["orders", "ordres"]
    assert {letter.reason for letter in letters} == {"permanent"}
    assert sorted(handled) == [1, 2, 5]
    await app.close()
    await shop.close()
    await postgres_server.drop_database(url)
