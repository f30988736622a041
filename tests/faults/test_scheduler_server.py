"""Leaders whose PostgreSQL crashes, loses responses, or has another clock."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.fleet import BOUND_SECONDS, Fleet
from tests.faults.open_store import opened
from tests.kit.postgres import PostgresServer
from tests.kit.postgres_proxy import COMMIT, PostgresProxy
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.store.contract import Store
from tickwork.store.postgres.engine.migrate import migrate

PLAN = rb"^-- Carries out plans"
HOUR_SECONDS = 3_600.0
LEASE_SECONDS = 600.0
"""Longer than the server is down, so that no node is reaped because of it."""

CRASHES_OF_A_SOAK = 15
LOSSES_OF_A_SOAK = 60


@pytest.fixture
async def store(home: Home) -> AsyncIterator[Store]:
    async with opened(home.url) as other:
        yield other


async def goes_on(child: Child) -> None:
    """Waits until it has planned something from now on."""
    before = len(child.events("planned"))
    await eventually(
        lambda: len(child.events("planned")) > before,
        timeout_seconds=BOUND_SECONDS,
        what="it to plan",
    )


async def crash(server: PostgresServer, children: Children, folder: Path, *, crashes: int) -> None:
    await migrate(server.url)
    fleet = Fleet(server.url, children, folder)
    async with opened(server.url) as store:
        await fleet.prepare(store)
        nodes = [await fleet.started(ttl_seconds=LEASE_SECONDS) for _ in range(2)]
        for _ in range(crashes):
            await asyncio.gather(*map(goes_on, nodes))
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.to_thread(server.start)
        await asyncio.gather(*map(goes_on, nodes))
        assert await fleet.judge(store) == ()


async def test_leaders_continue_after_their_server_crashed_and_restarted(
    durable_postgres: PostgresServer, children: Children, tmp_path: Path
) -> None:
    await crash(durable_postgres, children, tmp_path, crashes=1)


@pytest.mark.soak
async def test_many_crashes_lose_and_duplicate_no_slot(
    durable_postgres: PostgresServer, children: Children, tmp_path: Path
) -> None:
    await crash(durable_postgres, children, tmp_path, crashes=CRASHES_OF_A_SOAK)


async def lose_answers(fleet: Fleet, store: Store, url: str, *, losses: int) -> None:
    """Responses to plans that commit by themselves, and to COMMITs, of one leader of two."""
    await fleet.prepare(store)
    async with PostgresProxy(url) as proxy:
        unlucky = await fleet.started(url=proxy.url_for(url))
        await fleet.started()
        faults = [
            proxy.lose_reply_to(PLAN, losses),
            proxy.lose_request_to(PLAN, losses),
            proxy.lose_reply_to(COMMIT, losses),
        ]
        for fault in faults:
            await fault.strikes(losses, timeout_seconds=losses * BOUND_SECONDS)
        await goes_on(unlucky)
        assert await fleet.judge(store) == ()
        unlucky.kill9()


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_a_plan_whose_response_is_lost_is_carried_out_once(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await lose_answers(fleet, store, home.url, losses=2)


@pytest.mark.soak
@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_many_lost_responses_lose_and_duplicate_no_slot(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await lose_answers(fleet, store, home.url, losses=LOSSES_OF_A_SOAK)


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
async def test_nodes_whose_clocks_are_an_hour_apart_fire_neither_early_nor_twice(
    store: Store, home: Home, children: Children, tmp_path: Path
) -> None:
    fleet = Fleet(home.url, children, tmp_path)
    await fleet.prepare(store)
    early = await fleet.started(clock_seconds=HOUR_SECONDS)
    late = await fleet.started(clock_seconds=-HOUR_SECONDS)
    await asyncio.gather(goes_on(early), goes_on(late))
    early.kill9()
    await goes_on(late)
    assert await fleet.judge(store) == ()
