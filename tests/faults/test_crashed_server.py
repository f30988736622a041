"""PostgreSQL crashes under load and restarts: accepted messages survive, and work continues."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.faults.campaign import Campaign, prepare
from tests.faults.open_store import opened
from tests.kit.checkers import accepted
from tests.kit.history import Event
from tests.kit.postgres import PostgresServer
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tickwork.core.model import SYSTEM
from tickwork.store.contract import Store
from tickwork.store.postgres.engine.migrate import migrate

WORKERS = 2
LEASE_SECONDS = 600.0
CRASHES = 1
CRASHES_OF_A_SOAK = 25
BOUND_SECONDS = 180.0


@pytest.fixture
async def store(durable_postgres: PostgresServer) -> AsyncIterator[Store]:
    await migrate(durable_postgres.url)
    async with opened(durable_postgres.url) as prepared:
        await prepare(prepared, durable_postgres.url)
        yield prepared


def nodes_that_settle(events: list[Event]) -> set[str]:
    """The nodes that claimed a message and got the result that it is settled."""
    claims = {
        (event.text("message"), event.number("claim")): event.text("node")
        for event in events
        if (event.op, event.kind) == ("claim", "ok")
    }
    settled = [event for event in events if (event.op, event.kind) == ("settle", "ok")]
    names = [(event.text("message"), event.number("claim")) for event in settled]
    return {claims[name] for name in names if name in claims}


async def crash_under_load(
    server: PostgresServer, campaign: Campaign, store: Store, *, crashes: int
) -> None:
    """After every crash the sender and the workers continue by themselves, as the same nodes."""
    async with campaign.at_work(WORKERS):
        for _ in range(crashes):
            await asyncio.to_thread(server.stop, "immediate")
            await asyncio.to_thread(server.start)
            back = campaign.mark()

            def all_go_on(since: int = back) -> bool:
                events = campaign.read(since)
                return bool(accepted(events)) and len(nodes_that_settle(events)) == WORKERS

            await eventually(all_go_on, timeout_seconds=BOUND_SECONDS)
    nodes = await store.nodes.list(SYSTEM)
    assert {str(node.id) for node in nodes} == nodes_that_settle(campaign.read())
    for node in nodes:
        campaign.history.info("giving_back", node=str(node.id))
        await store.nodes.leave(SYSTEM, node.id)
    await campaign.drain(store)
    assert await campaign.judged() == []


async def test_accepted_messages_survive_a_crash_and_all_processes_continue(
    durable_postgres: PostgresServer, store: Store, children: Children, tmp_path: Path
) -> None:
    campaign = Campaign(durable_postgres.url, children, tmp_path, seed=1, ttl_seconds=LEASE_SECONDS)
    await crash_under_load(durable_postgres, campaign, store, crashes=CRASHES)


@pytest.mark.soak
async def test_many_crashes_lose_and_duplicate_nothing(
    durable_postgres: PostgresServer, store: Store, children: Children, tmp_path: Path
) -> None:
    campaign = Campaign(durable_postgres.url, children, tmp_path, seed=2, ttl_seconds=LEASE_SECONDS)
    await crash_under_load(durable_postgres, campaign, store, crashes=CRASHES_OF_A_SOAK)
