"""Keyed messages that were stored before keys had an order, after the migration."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import asyncpg
import pytest

from tests.conformance.acts import ALL, WORK, ack_all, counts, ids, pull, send, settle
from tests.kit.databases import PostgresHost
from tests.stores.clock import START, VirtualClock
from tickwork.core.model import SYSTEM, Claim, Counts, Ending, Fate, SettleResult
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres import PostgresStore
from tickwork.store.postgres.engine import migrate as postgres_migrating
from tickwork.store.shared.sql_files import load_migrations
from tickwork.store.sqlite import SqliteStore
from tickwork.store.sqlite.engine import migrate as sqlite_migrating
from tickwork.store.sqlite.engine.sql import to_microseconds

_QUEUE = "INSERT INTO tickwork_queues (id, tenant, name, settings, max_retries, retention_seconds)"
_MESSAGE = (
    "INSERT INTO tickwork_messages "
    "(tenant, id, queue_id, key, sent_at, visible_at, state, claim, holder, lease_until, body)"
)
LEASE_SECONDS = 30
HOLDER = new_id()
QUEUE_ID = new_id()


class Before:
    """A database of the first schema, with messages sent one second apart."""

    def __init__(self) -> None:
        self.rows: list[tuple[UUID, str | None, datetime, str]] = []

    def sent(self, key: str | None, state: str = "ready") -> UUID:
        """Adds a message. Ids are in reverse order, so that sorting by id would fail."""
        message_id = UUID(int=2**128 - 1 - new_id().int)
        self.rows.append((message_id, key, START + timedelta(seconds=len(self.rows)), state))
        return message_id

    async def migrated(self, clock: VirtualClock) -> Store:
        """A store on the migrated database."""
        raise NotImplementedError


class SqliteBefore(Before):
    """In a SQLite file."""

    def __init__(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._file, self._monkeypatch = file, monkeypatch

    async def migrated(self, clock: VirtualClock) -> Store:
        first = load_migrations("tickwork.store.sqlite")[:1]
        with self._monkeypatch.context() as patched:
            patched.setattr(sqlite_migrating, "load_migrations", lambda _: first)
            await sqlite_migrating.migrate(self._file)
        with closing(sqlite3.connect(self._file)) as connection, connection:
            connection.execute(
                f"{_QUEUE} VALUES (?, 'default', ?, '{{}}', 3, 345600)", (QUEUE_ID.bytes, WORK)
            )
            for message_id, key, sent_at, state in self.rows:
                sent, claimed = to_microseconds(sent_at), state == "claimed"
                until = to_microseconds(START + timedelta(seconds=LEASE_SECONDS))
                values = (message_id.bytes, QUEUE_ID.bytes, key, sent, sent, state, int(claimed))
                held = (HOLDER.bytes, until) if claimed else (None, None)
                connection.execute(
                    f"{_MESSAGE} VALUES ('default', ?, ?, ?, ?, ?, ?, ?, ?, ?, x'7b7d')",
                    values + held,
                )
        await sqlite_migrating.migrate(self._file)
        return await SqliteStore.open(self._file, moment=clock.now)


class PostgresBefore(Before):
    """On PostgreSQL. Rows are inserted in arbitrary order: a table has none."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self._url, self._monkeypatch = url, monkeypatch

    async def migrated(self, clock: VirtualClock) -> Store:
        first = load_migrations("tickwork.store.postgres")[:1]
        with self._monkeypatch.context() as patched:
            patched.setattr(postgres_migrating, "load_migrations", lambda _: first)
            await postgres_migrating.migrate(self._url)
        connection = await asyncpg.connect(self._url)
        await connection.execute(
            f"{_QUEUE} VALUES ($1, 'default', $2, '{{}}', 3, 345600)", QUEUE_ID, WORK
        )
        for message_id, key, sent_at, state in sorted(self.rows):
            claimed = state == "claimed"
            until = START + timedelta(seconds=LEASE_SECONDS)
            held = (HOLDER, until) if claimed else (None, None)
            await connection.execute(
                f"{_MESSAGE} VALUES ('default', $1, $2, $3, $4, $4, $5, $6, $7, $8, '{{}}')",
                *(message_id, QUEUE_ID, key, sent_at, state, int(claimed), *held),
            )
        await connection.close()
        await postgres_migrating.migrate(self._url)
        return await PostgresStore.open(self._url, moment=clock.now)


@pytest.fixture(params=["sqlite", "postgres"])
async def before(
    request: pytest.FixtureRequest,
    postgres_server: PostgresHost,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Before]:
    """A database of the first schema, of each kind."""
    if request.param == "sqlite":
        yield SqliteBefore(tmp_path / "before.db", monkeypatch)
        return
    url = await postgres_server.create_database()
    yield PostgresBefore(url, monkeypatch)
    await postgres_server.drop_database(url)


@pytest.fixture
def clock() -> VirtualClock:
    """A time when all of them are visible."""
    clock = VirtualClock()
    clock.advance(seconds=10)
    return clock


def ack_from_before(message_id: UUID) -> Ending:
    return Ending(claim=Claim("default", message_id, 1, HOLDER), fate=Fate.ACK)


async def test_migrated_messages_of_a_key_run_one_at_a_time_in_send_order(
    before: Before, clock: VirtualClock
) -> None:
    sent = [(key, before.sent(key)) for key in ("a", "b", "a", "a", "b")]
    store = await before.migrated(clock)
    try:
        assert await counts(store) == Counts(ready=2, blocked=3)
        last = await send(store, key="a")
        assert await counts(store) == Counts(ready=2, blocked=4)
        in_hand = await pull(store)
        assert sorted(ids(in_hand)) == sorted(each for _, each in sent[:2])
        assert await pull(store) == ()
        await settle(
            store, *(Ending(claim=each.current_claim, fate=Fate.RELEASE) for each in in_hand)
        )
        done = await ack_all(store)
        for key in ("a", "b"):
            own = [each for name, each in sent if name == key]
            assert [each for each in done if each in own] == own
        assert done.index(last.id) > done.index(sent[3][1])
        assert await counts(store) == Counts()
    finally:
        await store.close()


async def test_a_migrated_claimed_message_keeps_its_key(
    before: Before, clock: VirtualClock
) -> None:
    first = before.sent("a", "claimed")
    second, third = before.sent("a"), before.sent("a")
    store = await before.migrated(clock)
    try:
        assert await counts(store) == Counts(claimed=1, blocked=2)
        last = await send(store, key="a")
        assert await pull(store) == ()
        assert await settle(store, ack_from_before(first)) == SettleResult()
        assert await ack_all(store) == [second, third, last.id]
    finally:
        await store.close()


async def test_a_migrated_claimed_message_that_is_lost_is_still_the_head(
    before: Before, clock: VirtualClock
) -> None:
    first, second = before.sent("a", "claimed"), before.sent("a")
    store = await before.migrated(clock)
    try:
        clock.advance(seconds=LEASE_SECONDS)
        assert (await store.reaper.reap(SYSTEM, ALL)).released == 1
        assert await counts(store) == Counts(ready=1, blocked=1)
        assert await ack_all(store) == [first, second]
    finally:
        await store.close()


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_migrated_message_claimed_out_of_order_leaves_no_key_stuck(
    before: Before, clock: VirtualClock, is_lost: bool
) -> None:
    """There was no order then: a later message may be claimed while an earlier one waits. If it is
    retried it does not wait for its turn; everything else of its key does."""
    first, second = before.sent("a"), before.sent("a", "claimed")
    third, fourth = before.sent("a"), before.sent("a", "claimed")
    store = await before.migrated(clock)
    try:
        last = await send(store, key="a")
        if is_lost:
            clock.advance(seconds=LEASE_SECONDS)
            assert (await store.reaper.reap(SYSTEM, ALL)).released == 2
        else:
            endings = [ack_from_before(each) for each in (second, fourth)]
            assert await settle(store, *endings) == SettleResult()
        done = await ack_all(store)
        assert [each for each in done if each not in (second, fourth)] == [first, third, last.id]
        assert len(done) == (5 if is_lost else 3)
        assert await counts(store) == Counts()
    finally:
        await store.close()


async def test_a_migrated_message_without_a_key_is_not_blocked(
    before: Before, clock: VirtualClock
) -> None:
    sent = [before.sent(key) for key in (None, None, "a", "b")]
    store = await before.migrated(clock)
    try:
        assert sorted(ids(await pull(store))) == sorted(sent)
    finally:
        await store.close()
