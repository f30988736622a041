"""One PostgreSQL database as a store."""

from __future__ import annotations

from datetime import datetime

from tickwork.core.model import Meta
from tickwork.errors import StoreError
from tickwork.store.moment import Moment, database_time
from tickwork.store.postgres.database import SQL, Database
from tickwork.store.postgres.messages import PostgresMessages
from tickwork.store.postgres.migrate import check_version
from tickwork.store.postgres.nodes import PostgresNodes, PostgresReaper
from tickwork.store.postgres.queues import PostgresQueues, PostgresTenants
from tickwork.store.postgres.sending import Sender
from tickwork.store.postgres.settling import Settler
from tickwork.store.postgres.wakeups import PostgresWakeups

CONNECTIONS_MAX = 10


class PostgresStore:
    """The nouns of one database. Open it with `open`; the schema must be there already."""

    def __init__(self, database: Database, moment: Moment, listen_url: str) -> None:
        self._database, self._moment = database, moment
        self.wakeups = PostgresWakeups(database, listen_url)
        self.tenants = PostgresTenants(database)
        self.queues = PostgresQueues(database, moment)
        self._sender = Sender(database, moment, self.queues, self.wakeups)
        self._settler = Settler(database, moment, self._sender, self.wakeups)
        self.messages = PostgresMessages(database, moment, self.queues, self._sender, self._settler)
        self.nodes = PostgresNodes(database, moment)
        self.reaper = PostgresReaper(database, moment, self._settler)

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        moment: Moment = database_time,
        direct_url: str | None = None,
        connections_max: int = CONNECTIONS_MAX,
    ) -> PostgresStore:
        """Connects, to a schema that is up to date.

        With `direct_url` the first URL is a transaction pooler's, and only LISTEN goes the
        direct way.
        """
        database = await Database.open(
            url, connections_max=connections_max, pooled=direct_url is not None
        )
        store = cls(database, moment, direct_url or url)
        try:
            check_version((await store.meta()).schema_version)
        except StoreError:
            await store.close()
            raise
        return store

    async def now(self) -> datetime:
        virtual = self._moment()
        if virtual is not None:
            return virtual
        now: datetime = await self._database.run(
            lambda connection: connection.fetchval(SQL.read_clock)
        )
        return now

    async def meta(self) -> Meta:
        row = await self._database.run(lambda connection: connection.fetchrow(SQL.read_meta))
        assert row is not None
        return Meta(*row)

    async def close(self) -> None:
        await self._sender.drain()
        await self._settler.drain()
        await self.wakeups.close()
        await self._database.close()
