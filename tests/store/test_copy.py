"""A SQLite file is copied to PostgreSQL with everything in it, whatever interrupts the copy."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.channel.receiver import KEY_OF_SECRETS
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Entity, Firing, Message, Tickwork, wiring
from tickwork.core.message.history import EndedRecord, HistorySelection
from tickwork.core.model import DEFAULT, ClaimRequest, QueueSettings
from tickwork.errors import Conflict, InvalidInput, StoreBroken, StoreUnavailable
from tickwork.ops import copy as copy_verb
from tickwork.store.ids import new_id
from tickwork.store.postgres.engine.tables import PostgresTables, open_tables
from tickwork.store.shared.table_copy import CopiedTable, copied_tables
from tickwork.store.sqlite.engine.tables import SqliteTables

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

MESSAGES = 40
KEYS = 4


class Account(Entity):
    async def deposit(self, amount: int) -> int:
        balance: int = await self.storage.get("balance", 0) + amount
        await self.storage.put("balance", balance)
        return balance


def new_app(database: str, seen: list[Any]) -> Tickwork:
    app = Tickwork(database, name="moved")
    app.queue("work")
    app.queue("capped", backlog_bytes_max=1_000_000, rate_per_second=1_000)
    app.queue("fails", max_retries=0)
    app.entities.register(Account)

    @app.on("work")
    async def handle(message: Message) -> None:
        seen.append(message.body)

    @app.on("capped")
    async def handle_capped(message: Message) -> None:
        seen.append(message.body)

    @app.on("fails")
    async def fail(message: Message) -> None:
        raise ValueError(message.body)

    @app.workflow(name="ship")
    async def ship(step: Any, params: Any) -> str:
        await step.sleep("wait", 0.2)
        return f"shipped {params['order']}"

    @app.schedule(cron_expr="0 9 * * *", name="report")
    async def report(firing: Firing) -> None: ...

    return app


async def fill(url: str) -> None:
    """Stores something of everything, some of it claimed by a process that is gone."""
    app = new_app(url, [])
    await app.queue("fails").send("broken")
    async with app.running():
        await eventually(lambda: _is_dead(app), what="a dead letter")
    for number in range(MESSAGES):
        key = f"key {number % KEYS}" if number % 2 else None
        await app.queue("work").send(number, key=key, delay_seconds=int(number % 5 == 4))
    await app.queue("capped").send("capped")
    await app.batch("work", [f"item {number}" for number in range(5)])
    target: Any = {"type": "queue", "queue": "work"}
    await app.schedules.create(interval_minutes=30, target=target, payload="tick")
    await app.calendars.put("feasts", ["2027-01-01"])
    await app.limits.put("crm", rate=5)
    await app.endpoints.create("crm", url="https://crm.example.com/in", types=["order.*"])
    await app.events.publish("order.paid", {"id": 1})
    await app.entity(Account, "ada").deposit(3)
    await app.entity(Account, "ada").send.deposit(4)
    await app.workflows.start("ship", {"order": 7}, id="run-1")
    await app.close()
    store = await wiring.open_store(wiring.Settings(database=url))
    request = ClaimRequest(queue="work", holder=new_id(), limit=10, lease_seconds=600)
    assert len(await store.messages.claim(DEFAULT, request)) == 10
    await store.close()


async def _is_dead(app: Tickwork) -> bool:
    return len(await app.dead_letters.list("fails")) == 1


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the file is that is filled once."""
    return tmp_path_factory.mktemp("filled") / "source.db"


@pytest.fixture
async def source(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TICKWORK_SECRET_KEY", KEY_OF_SECRETS)
    if not os.path.exists(filled):  # noqa: ASYNC240, PTH110
        await fill(f"sqlite:///{filled}")
    with sqlite3.connect(filled) as known, sqlite3.connect(tmp_path / "source.db") as own:
        known.backup(own)
    known.close()
    own.close()
    return f"sqlite:///{tmp_path}/source.db"


async def rows_of(home: Home, statement: str) -> list[tuple[Any, ...]]:
    connection = await asyncpg.connect(home.url)
    try:
        return [tuple(row) for row in await connection.fetch(statement)]
    finally:
        await connection.close()


class Killed(BaseException):
    """The process ends here."""


class KilledTables(PostgresTables):
    """Dies at the given write, before or after its commit."""

    left = 0
    is_after = False

    async def write(
        self, table: CopiedTable, rows: Sequence[tuple[Any, ...]], position: Any
    ) -> None:
        type(self).left -= 1
        if self.left == 0 and not self.is_after:
            raise Killed
        await super().write(table, rows, position)
        if self.left == 0:
            raise Killed


async def killed_copy(source: str, home: Home, at: int, *, is_after: bool) -> bool:
    """Starts or continues a copy that dies at a write. False if it was complete before."""
    KilledTables.left, KilledTables.is_after = at, is_after
    await wiring.migrate(wiring.Settings(database=home.url))
    try:
        async with open_tables(home.url) as plain:
            tables = KilledTables(plain._connection, home.url)
            name = source.removeprefix("sqlite:///")
            await copy_verb.copy_database(
                SqliteTables(source), tables, source_name=name, note="it is being copied"
            )
    except Killed:
        return True
    return False


async def test_a_copy_that_dies_again_and_again_ends_complete_and_is_worked_on_once(
    source: str, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copy_verb, "CHUNK_ROWS", 12)
    deaths = 0
    while await killed_copy(source, home, 4 + deaths % 9, is_after=deaths % 2 == 0):
        deaths += 1
        if deaths == 3:
            with pytest.raises(StoreUnavailable, match="a copy into this database is not complete"):
                await _send_one(home.url)
        assert deaths < 200
    assert deaths > 5
    seen: list[Any] = []
    app = new_app(home.url, seen)
    async with app.running():
        wanted = [*range(MESSAGES), *(f"item {number}" for number in range(5)), "capped"]
        await eventually(lambda: len(seen) >= len(wanted), what="all messages")
        run = (await app.workflows.list("ship"))[0]
        assert run.id == "run-1"
        await eventually(lambda: _is_shipped(app), what="the run")
        await eventually(lambda: _has_balance(app, 7), what="the entity")
        assert Counter(map(str, seen)) == Counter(map(str, wanted))
        for key in range(1, KEYS, 2):
            of_key = [number for number in seen if isinstance(number, int) and number % KEYS == key]
            assert of_key == sorted(of_key)
        (batch, *_) = await app.batches.list()
        assert (batch.completed, batch.total) == (5, 5)
        (dead,) = await app.dead_letters.list("fails")
        assert "broken" in str(dead.error)
        assert len(await app.schedules.list()) == 2
        assert (await app.calendars.list())[0].days == ("2027-01-01",)
    await app.close()
    assert await rows_of(home, "SELECT count(*) FROM tickwork_keys") == [(0,)]
    assert await rows_of(home, "SELECT coalesce(sum(bytes), 0) FROM tickwork_backlogs") == [(0,)]


async def _is_shipped(app: Tickwork) -> bool:
    return (await app.workflows.list("ship"))[0].status == "completed"


async def _has_balance(app: Tickwork, balance: int) -> bool:
    return bool(await app.entity(Account, "ada").deposit(0) == balance)


async def _send_one(url: str) -> None:
    store = await wiring.open_store(wiring.Settings(database=url))
    try:
        await store.queues.put(DEFAULT, "other", QueueSettings())
    finally:
        await store.close()


async def test_a_copy_has_equal_checksums_and_releases_claims(source: str, home: Home) -> None:
    told: list[str] = []
    copied = await wiring.copy(
        source, home.url, on_progress=lambda text, _done, _total: told.append(text)
    )
    filled = {copy.table.removeprefix("tickwork_") for copy in copied if copy.rows}
    assert filled >= {
        "tenants", "queues", "messages", "schedules", "batches", "calendars", "endpoints",
        "deliveries", "published", "entities", "entity_storage", "runs", "limits", "dead_letters",
        "secrets", "tallies", "message_history",
    }  # fmt: skip
    assert "copy tickwork_messages" in told
    states = dict(await rows_of(home, "SELECT state, count(*) FROM tickwork_messages GROUP BY 1"))
    assert states.keys() == {"ready", "held"}
    flags = await rows_of(
        home, "SELECT is_governed, is_capped FROM tickwork_queues WHERE name = 'capped'"
    )
    assert flags == [(True, True)]


async def records_of(url: str) -> list[EndedRecord]:
    """The whole history of a database."""
    store = await wiring.open_store(wiring.Settings(database=url))
    page = await store.history.page(DEFAULT, HistorySelection(), 1_000)
    await store.close()
    assert page.next is None
    return sorted(page.records, key=lambda record: (record.ended_at, record.id, record.outcome))


async def test_the_history_of_both_databases_is_the_same_and_found_by_the_same_ids(
    source: str, home: Home
) -> None:
    app = Tickwork(source, name="moved")
    work = app.queue("done", history_bodies=True)
    ids: dict[str, Any] = {"event_id": "e-1", "key": "k-1", "correlation_id": "c-1"}
    sent = [
        await work.send({"n": 1}, type="a", source="b", **ids),
        await work.send(b"\0", content_type="bytes"),
    ]

    @app.on("done")
    async def handle(message: Message) -> None: ...

    async def are_done() -> bool:
        return len(await app.history.list(queue="done")) == len(sent)

    async with app.running(roles="worker"):
        await eventually(are_done)
    await app.close()
    before = await records_of(source)
    assert {record.outcome for record in before} >= {"done", "dead"}
    await wiring.copy(source, home.url)
    assert await records_of(home.url) == before
    store = await wiring.open_store(wiring.Settings(database=home.url))
    for record in before:
        assert (await store.history.get(DEFAULT, record.id)).id == record.id
    for name, value in ids.items():
        page = await store.history.page(DEFAULT, HistorySelection(**{name: value}), 10)
        assert [record.id for record in page.records] == [sent[0].uuid]
    await store.close()


async def test_a_copy_that_is_complete_is_compared_again_until_somebody_works_on_the_target(
    source: str, home: Home
) -> None:
    app = Tickwork(source, name="moved")
    app.entities.register(Account)
    await app.entity(Account, "bob").send.deposit(4)
    await app.close()
    place = _let_a_direct_call_wait(source)
    copied = await wiring.copy(source, home.url)
    send = f"SELECT state FROM tickwork_messages WHERE place = {place}"
    assert await rows_of(home, send) == [("ready",)]
    assert await wiring.copy(source, home.url) == copied
    await _send_one(home.url)
    with pytest.raises(Conflict, match="the target is not empty"):
        await wiring.copy(source, home.url)


def _let_a_direct_call_wait(source: str) -> int:
    """Puts a direct call, which is not copied, before the last send, which is to the same entity.
    Returns where that send is."""
    with sqlite3.connect(source.removeprefix("sqlite:///")) as file:
        (place,) = file.execute("SELECT max(place) FROM tickwork_messages").fetchone()
        fields = [row[1] for row in file.execute("PRAGMA table_info(tickwork_messages)")]
        given = {"id": "randomblob(16)", "place": f"{place} - 100000", "caller": "randomblob(16)"}
        values = ", ".join(given.get(name, f'"{name}"') for name in fields)
        file.execute(
            f"INSERT INTO tickwork_messages SELECT {values} FROM tickwork_messages"
            f" WHERE place = {place}"
        )
        file.execute("UPDATE tickwork_messages SET state = 'held' WHERE place = ?", (place,))
    file.close()
    return int(place)


async def test_a_frozen_source_refuses_changes_until_it_is_thawed(source: str, home: Home) -> None:
    await wiring.copy(source, home.url)
    with pytest.raises(StoreUnavailable, match=r"is frozen: it was copied to .*--thaw sqlite:///"):
        await _send_one(source)
    app = Tickwork(source, name="moved")
    assert len(await app.schedules.list()) == 2  # Reading goes on.
    await app.close()
    assert await wiring.thaw_database(source) is True
    assert await wiring.thaw_database(source) is False
    await _send_one(source)


async def test_a_copy_that_was_killed_continues(source: str, home: Home) -> None:
    app = Tickwork(source, name="moved")
    await app.queue("work").send_batch([{"body": number} for number in range(100)])
    for _ in range(100):
        await app.queue("work").send_batch([{"body": "x" * 500} for _ in range(100)])
    await app.close()
    command = (sys.executable, "-m", "tickwork", "copy", source, home.url)
    process = await asyncio.create_subprocess_exec(*command)
    await eventually(lambda: _has_begun(home), what="copied messages")
    process.kill()
    await process.wait()
    again = await asyncio.create_subprocess_exec(*command, "--json", stdout=PIPE)
    (printed, _) = await again.communicate()
    assert again.returncode == 0
    rows = {load["table"]: load["rows"] for load in json.loads(printed)}
    assert rows["tickwork_messages"] > 10_000
    stored = await rows_of(home, "SELECT count(*) FROM tickwork_messages")
    assert stored == [(rows["tickwork_messages"],)]


async def _has_begun(home: Home) -> bool:
    try:
        found = await rows_of(home, "SELECT 1 FROM tickwork_copy WHERE name LIKE '%messages'")
    except asyncpg.UndefinedTableError:
        return False
    return bool(found)


async def test_a_changed_row_is_found(source: str, home: Home) -> None:
    class Spoiled(PostgresTables):
        async def checksum(self, table: CopiedTable) -> tuple[int, int]:
            if table.name == "tickwork_messages":
                await self._connection.execute("UPDATE tickwork_messages SET priority = 9")
            return await super().checksum(table)

    async with open_tables(home.url) as plain:
        with pytest.raises(StoreBroken, match="tickwork_messages differs"):
            await copy_verb.copy_database(
                SqliteTables(source),
                Spoiled(plain._connection, home.url),
                source_name="a",
                note="b",
            )
    with pytest.raises(Conflict, match="an incomplete copy of a"):
        await wiring.copy(source, home.url)


async def test_every_table_and_column_is_known_to_the_copy(home: Home, tmp_path: Path) -> None:
    path = tmp_path / "empty.db"
    await wiring.migrate(wiring.Settings(database=f"sqlite:///{path}"))
    async with open_tables(home.url) as target:
        columns = await target.columns()
        assert copied_tables(await SqliteTables(path).columns(), columns)
        connection = sqlite3.connect(path)
        connection.execute("CREATE TABLE tickwork_new (a)")
        connection.execute("ALTER TABLE tickwork_queues ADD COLUMN new TEXT")
        connection.close()
        with pytest.raises(StoreBroken, match=r"tickwork_new, tickwork_queues\.new"):
            copied_tables(await SqliteTables(path).columns(), columns)


async def test_only_sqlite_is_copied_and_only_to_postgresql(home: Home, tmp_path: Path) -> None:
    for source, target in ((home.url, f"sqlite:///{tmp_path}/a.db"), (home.url, home.url)):
        with pytest.raises(InvalidInput, match="copies a SQLite file to a PostgreSQL database"):
            await wiring.copy(source, target)
