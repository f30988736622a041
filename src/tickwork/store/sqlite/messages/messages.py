"""Messages on SQLite: send, claim and settle."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from tickwork.core.limits import check_message
from tickwork.core.model import Message, NewMessage, Scope
from tickwork.store.ids import Moment
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.nouns.messages import Messages
from tickwork.store.shared.columns import Kind
from tickwork.store.shared.fair_shares import LANES_MAX
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.sqlite.messages.claim import Claimer, lanes
from tickwork.store.sqlite.messages.effects import EffectWriters
from tickwork.store.sqlite.messages.send import Sender
from tickwork.store.sqlite.messages.settle import Settler
from tickwork.store.sqlite.messages.system_events import publish
from tickwork.store.steps import NOW, Native, Port, Row, Statement, Steps

_PEEK = Statement("peek", Message)
_NEXT_VISIBLE_AT = Statement("next_visible_at", at=Kind.TIME)


class SqliteMessages(Messages):
    """Messages: send, claim, settle, read and delete."""

    def __init__(
        self,
        port: Port,
        paths: HotPaths,
        database: Database,
        moment: Moment,
        writers: EffectWriters,
    ) -> None:
        settler = Settler(database, writers)
        claimer = Claimer(database, moment, settler.row_hints)
        super().__init__(port, paths, Sender(database), claimer, settler)
        self._database = database

    async def notify(self, scope: Scope, event: NewMessage) -> int:
        check_message(event)
        return await publish(self._database, scope, event)

    def _peek(self, queue_id: UUID, tenant: str | None, limit: int) -> Steps[Sequence[Row]]:
        """An index finds those of one tenant and priority."""
        ready = yield Native(lambda transaction: lanes(transaction, queue_id.bytes, tenant))
        rows: list[Row] = []
        for lane in ready:
            rows += yield from _PEEK.fetch(queue_id, lane.tenant, lane.priority, NOW, limit)
        return sorted(rows, key=lambda row: (-row["priority"], row["visible_at"], row["id"]))

    def _next_visible_at(self, queue_id: UUID, tenant: str | None) -> Steps[datetime | None]:
        at: datetime | None = yield from _NEXT_VISIBLE_AT.fetch_value(
            queue_id, tenant, NOW, LANES_MAX
        )
        return at
