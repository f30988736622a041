"""Readers: a role for reports sees the rows of its tenant, and nothing of any other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg
import pytest

from tests.cli.kit import Desk
from tests.conformance.acts import ALL, make_queue, new
from tests.conformance.schedule_acts import new_schedule
from tests.stores.clock import VirtualClock
from tests.stores.home import Home
from tickwork.core.audit import new_record
from tickwork.core.model import SYSTEM, QueueSettings, Scope, Tenant
from tickwork.core.schedule.model import ScheduleSelection
from tickwork.errors import InvalidInput, NotFound
from tickwork.store.access_contract import Reader
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.store.postgres.readers import CONDITIONS

pytestmark = pytest.mark.parametrize("home", ["postgres"], indirect=True)

SHOPS = ("shop-a", "shop-b")
HIDDEN = ("tickwork_api_keys", "tickwork_secrets", "tickwork_requests", "tickwork_nodes")


@pytest.fixture
async def store(home: Home, clock: VirtualClock) -> AsyncIterator[Store]:
    opened = await home.open(clock)
    yield opened
    await opened.close()


@pytest.fixture
async def role(home: Home) -> AsyncIterator[str]:
    """A role that may log in, and nothing else."""
    name = f"Reports {new_id()}"
    owner = await asyncpg.connect(home.url)
    await owner.execute(f'CREATE ROLE "{name}" LOGIN')
    yield name
    for table in CONDITIONS:
        await owner.execute(f"ALTER TABLE {table} DISABLE ROW LEVEL SECURITY")
    await owner.execute(f'DROP OWNED BY "{name}"; DROP ROLE "{name}"')
    await owner.close()


@asynccontextmanager
async def reading(home: Home, role: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(home.url, user=role)
    try:
        yield connection
    finally:
        await connection.close()


async def fill(store: Store, clock: VirtualClock) -> None:
    """Rows of two tenants, each with a canary, and a shared queue."""
    await store.queues.put(SYSTEM, "shared", QueueSettings())
    for shop in SHOPS:
        scope = Scope(shop)
        await store.tenants.put(SYSTEM, Tenant(id=shop))
        await store.queues.put(scope, f"queue-of-{shop}", QueueSettings())
        await store.schedules.create(
            scope, [new_schedule(clock, queue=f"queue-of-{shop}", name=f"canary-{shop}")]
        )
        for _ in range(2):
            await store.messages.send(scope, f"queue-of-{shop}", new(type=f"canary-{shop}"))
        record = new_record(new_id(), "a person", f"canary-{shop}", shop, None, None)
        await store.audit.add(scope, record)


async def test_a_reader_sees_its_tenant_and_nothing_of_another(
    store: Store, clock: VirtualClock, home: Home, role: str
) -> None:
    await fill(store, clock)
    async with reading(home, role) as connection:
        for table in CONDITIONS:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(f"SELECT FROM {table}")
    await store.readers.grant(SYSTEM, Reader(role, SHOPS[0]))
    assert await store.readers.list(SYSTEM) == (Reader(role, SHOPS[0]),)
    async with reading(home, role) as connection:
        seen = {
            table: str(await connection.fetch(f"SELECT * FROM {table}")) for table in CONDITIONS
        }
        assert [table for table, rows in seen.items() if SHOPS[1] in rows] == []
        shown = {table for table, rows in seen.items() if SHOPS[0] in rows}
        assert shown >= {
            "tickwork_tenants",
            "tickwork_queues",
            "tickwork_schedules",
            "tickwork_messages",
            "tickwork_audit",
        }
        for table in HIDDEN:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.fetch(f"SELECT FROM {table}")
        for change in (
            "DELETE FROM tickwork_messages",
            "UPDATE tickwork_schedules SET status = 'paused'",
            "ALTER TABLE tickwork_messages DISABLE ROW LEVEL SECURITY",
        ):
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await connection.execute(change)
        await connection.execute("SET row_security = off")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT FROM tickwork_messages")


async def test_a_reader_may_be_given_another_tenant_and_loses_everything_at_last(
    store: Store, clock: VirtualClock, home: Home, role: str
) -> None:
    await fill(store, clock)
    for shop in SHOPS:
        await store.readers.grant(SYSTEM, Reader(role, shop))
        async with reading(home, role) as connection:
            found = await connection.fetch("SELECT DISTINCT tenant FROM tickwork_messages")
            assert [row["tenant"] for row in found] == [shop]
    await store.readers.revoke(SYSTEM, role)
    assert await store.readers.list(SYSTEM) == ()
    async with reading(home, role) as connection:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.fetch("SELECT FROM tickwork_messages")
    with pytest.raises(NotFound, match="reader"):
        await store.readers.revoke(SYSTEM, role)


async def test_tickwork_itself_works_as_before(
    store: Store, clock: VirtualClock, role: str
) -> None:
    await fill(store, clock)
    await store.readers.grant(SYSTEM, Reader(role, SHOPS[0]))
    await make_queue(store)
    for shop in SHOPS:
        assert len(await store.schedules.list(Scope(shop), ScheduleSelection(), ALL)) == 1


async def test_a_role_that_row_security_does_not_hold_is_refused(
    store: Store, clock: VirtualClock, home: Home, role: str
) -> None:
    await fill(store, clock)
    with pytest.raises(NotFound, match="role nobody"):
        await store.readers.grant(SYSTEM, Reader("nobody", SHOPS[0]))
    with pytest.raises(NotFound, match="tenant shop-c"):
        await store.readers.grant(SYSTEM, Reader(role, "shop-c"))
    owner = await asyncpg.connect(home.url)
    for power in (f'ALTER ROLE "{role}" BYPASSRLS', f'ALTER ROLE "{role}" NOBYPASSRLS SUPERUSER'):
        await owner.execute(power)
        with pytest.raises(InvalidInput, match="role: must not be a superuser"):
            await store.readers.grant(SYSTEM, Reader(role, SHOPS[0]))
    await owner.close()


async def test_the_command_grants_lists_and_revokes(
    store: Store, clock: VirtualClock, home: Home, role: str, tmp_path: Path
) -> None:
    await fill(store, clock)
    desk = Desk(tmp_path, home.url)

    def answers() -> None:
        granted = desk.json("readers", "grant", role, "--tenant", SHOPS[0])
        assert desk.json("readers", "list") == [granted] == [{"role": role, "tenant": SHOPS[0]}]
        assert desk.answer("readers", "revoke", role) == f"{role} may read nothing\n"
        assert desk.answer("readers", "list") == "there are no readers\n"

    await asyncio.to_thread(answers)
