"""Observes the cluster: the database's time, the leaders, and unfinished slots."""

from __future__ import annotations

import asyncio
from datetime import datetime

import asyncpg

from tickwork import Tickwork

POLL_SECONDS = 0.1
LEADERS_SECONDS_MAX = 120.0
FINISH_SECONDS_MAX = 600.0

SELECT_NOW = "SELECT clock_timestamp()"
HAS_UNFINISHED_SLOTS = """
    SELECT EXISTS (SELECT FROM tickwork_schedules WHERE next_slot <= $1)
        OR EXISTS (SELECT FROM tickwork_messages WHERE slot <= $1)
"""


class Cluster:
    """The nodes on one database, seen from outside."""

    def __init__(self, app: Tickwork, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._app, self._connection = app, connection

    async def now(self) -> datetime:
        """Return the database's time."""
        now: datetime = await self._connection.fetchval(SELECT_NOW)
        return now

    async def wait_for_leaders(self, nodes: int, shards: int) -> None:
        """Wait until this number of live nodes leads this number of shards."""
        async with asyncio.timeout(LEADERS_SECONDS_MAX):
            while True:
                live = [node for node in await self._app.nodes.list() if node.is_alive]
                led = [len(node.shards) for node in live if node.shards]
                if len(led) == nodes and sum(led) == shards:
                    return
                await asyncio.sleep(POLL_SECONDS)

    async def wait_for_slots(self, until: datetime) -> None:
        """Wait until every slot up to this time is planned and its message is settled."""
        async with asyncio.timeout(FINISH_SECONDS_MAX):
            while True:
                if not await self._connection.fetchval(HAS_UNFINISHED_SLOTS, until):
                    return
                await asyncio.sleep(POLL_SECONDS)
