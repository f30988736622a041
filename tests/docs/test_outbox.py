"""The outbox of `docs/outbox.md`: what is sent commits or rolls back with the sender's own rows, on
a real PostgreSQL."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import psycopg
import pytest

from tests.docs.snippets import blocks
from tests.kit.waiting import eventually
from tests.stores.home import Home

PAGE = Path(__file__).resolve().parents[2] / "docs" / "outbox.md"


def block(language: str) -> str:
    (found,) = [
        snippet.text for snippet in blocks(PAGE.read_text()) if snippet.language == language
    ]
    return found


def set_up() -> str:
    """The SQL of the page, also on a database on which another test was."""
    return f"DROP FUNCTION IF EXISTS send_message; {block('sql')}"


def app_of_the_page(folder: Path) -> Any:
    path = folder / "outbox_shop.py"
    path.write_text(block("python"))
    spec = importlib.util.spec_from_file_location("outbox_shop", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.app


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_message_in_the_outbox_is_sent_once_if_its_transaction_commits(
    home: Home,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TICKWORK_DATABASE", home.url)
    connection = await asyncpg.connect(home.url)
    await connection.execute(set_up() + "CREATE TABLE orders (id int)")
    send = "SELECT send_message($1, $2)"
    for number in (1, 2, 3):
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute("INSERT INTO orders VALUES ($1)", number)
        await connection.execute(send, "orders", json.dumps({"order": number}))
        await (transaction.rollback() if number == 2 else transaction.commit())
    app = app_of_the_page(tmp_path)
    printed: list[str] = []

    async def is_done() -> bool:
        printed.extend(capsys.readouterr().out.splitlines())
        left = await connection.fetchval("SELECT count(*) FROM outbox")
        return left == 0 and len(printed) == 2

    async with app.running():
        await eventually(is_done, what="both orders")
        await connection.execute("INSERT INTO orders VALUES (4)")
        await connection.execute(send, "orders", '{"order": 4}')
        await eventually(lambda: "shipped 4" in capsys.readouterr().out, what="the third order")
    assert printed == ["shipped 1", "shipped 3"]
    stats = await app.queues.stats("orders")
    assert (stats.counts.ready, stats.counts.dead) == (0, 0)
    stored = await connection.fetch("SELECT id FROM orders ORDER BY id")
    assert [row["id"] for row in stored] == [1, 3, 4]
    await connection.close()
    await app.close()


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_the_function_is_called_as_django_and_psycopg_call_it(home: Home) -> None:
    statements = re.findall(r'cursor\.execute\("(SELECT [^"]+)"', PAGE.read_text())
    assert statements == ["SELECT send_message(%s, %s)"]

    def write() -> Any:
        connection: Any = psycopg.connect(home.url)
        with connection:
            connection.execute(set_up())
            # Django binds values in the client, plain psycopg in the server.
            kinds: Any = (psycopg.ClientCursor, psycopg.Cursor)
            for number, kind in enumerate(kinds * 2):
                with suppress(KeyError), connection.transaction(), kind(connection) as cursor:
                    cursor.execute(statements[0], ["orders", json.dumps({"order": number})])
                    if number > 1:
                        raise KeyError(number)
            return connection.execute("SELECT queue, body FROM outbox ORDER BY place").fetchall()

    sent = await asyncio.to_thread(write)
    assert sent == [("orders", {"order": 0}), ("orders", {"order": 1})]
