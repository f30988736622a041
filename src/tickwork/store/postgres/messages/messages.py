"""Messages on PostgreSQL: send, claim and settle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.limits import check_message
from tickwork.core.model import Message, NewMessage, Scope
from tickwork.store.ids import Moment
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.messages import Messages
from tickwork.store.postgres.engine.database import Database
from tickwork.store.postgres.messages.claim import Claimer
from tickwork.store.postgres.messages.send import Sender
from tickwork.store.postgres.messages.settle import Settler
from tickwork.store.postgres.messages.system_events import publish
from tickwork.store.shared.fair_shares import LANES_MAX
from tickwork.store.steps import NOW, Port, Row, Statement, Steps

_PEEK = Statement("peek", Message)
_NEXT_VISIBLE_AT = Statement("next_visible_at")


class PostgresMessages(Messages):
    """Send, claim and settle."""

    def __init__(
        self,
        port: Port,
        paths: HotPaths,
        sender: Sender,
        claimer: Claimer,
        settler: Settler,
        database: Database,
        moment: Moment,
    ) -> None:
        super().__init__(port, paths, sender, claimer, settler)
        self._database, self._moment = database, moment
        self._events = sender

    async def notify(self, scope: Scope, event: NewMessage) -> int:
        check_message(event)
        return await publish(self._database, self._moment, self._events, scope, event)

    def _peek(self, queue_id: UUID, tenant: str | None, limit: int) -> Steps[Sequence[Row]]:
        return (yield from _PEEK.fetch(NOW, queue_id, tenant, limit))

    def _next_visible_at(self, queue_id: UUID, tenant: str | None) -> Steps[datetime | None]:
        at: datetime | None = yield from _NEXT_VISIBLE_AT.fetch_value(
            NOW, queue_id, tenant, LANES_MAX
        )
        return at
