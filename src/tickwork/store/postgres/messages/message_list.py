"""Lists the messages of a queue on PostgreSQL: one statement for each part of the list."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any
from uuid import UUID

from tickwork.core.limits import check_limit
from tickwork.core.message.message_list import (
    ClaimedPart,
    CorrelatedPart,
    KeyPart,
    KeysPart,
    Lane,
    ListOrder,
    MessagePage,
    MessagePosition,
    MessageSelection,
    Part,
    cut,
    has_window,
    parts_after,
    position_of,
    state_filter,
)
from tickwork.core.model import Scope
from tickwork.store.ids import Moment, own_tenant
from tickwork.store.postgres.engine.database import Connection, Database
from tickwork.store.postgres.engine.sql import CUSTOM_PLAN, SQL
from tickwork.store.postgres.messages import rows


async def list_messages(
    database: Database,
    scope: Scope,
    queue_id: UUID,
    selection: MessageSelection,
    limit: int,
    *,
    after: MessagePosition | None,
    looked_at_max: int,
    moment: Moment,
) -> MessagePage:
    """The selected messages of a tenant after a position."""
    check_limit(limit)

    async def work(connection: Connection) -> tuple[list[Any], MessagePosition | None]:
        # The filters are optional: a plan for any values would read all messages and sort them.
        await connection.execute(CUSTOM_PLAN)
        now = moment() or await connection.fetchval(SQL.read_clock)
        reader = _Reader(connection, queue_id, own_tenant(scope), selection, now)
        parts = parts_after(selection, after, now)
        return await reader.read(parts, limit + 1, looked_at_max)

    found, end = await database.transact(work)
    messages = rows.messages(found[:limit])
    if len(found) > limit:
        end = position_of(messages[-1], found[limit - 1]["place"], selection)
    return MessagePage(messages, end)


class _Reader:
    """Reads parts of a list in one transaction."""

    def __init__(
        self,
        connection: Connection,
        queue_id: UUID,
        tenant: str,
        selection: MessageSelection,
        now: datetime,
    ) -> None:
        self._connection = connection
        self._selection = selection
        self._now = now
        self._queue_id, self._tenant = queue_id, tenant

    async def read(
        self, parts: Sequence[Part], limit: int, rest: int
    ) -> tuple[list[Any], MessagePosition | None]:
        """The first rows of the parts, and where it ends if it has looked at `rest` rows before the
        end of the list. All priorities are read at once."""
        found: list[Any] = []
        for _, group in groupby(parts, type):
            if len(found) == limit:
                break
            kept: list[Part] = []
            end: MessagePosition | None = None
            for part in group:
                if has_window(part, self._selection):
                    row = await self._window_end(part, rest)
                    if row is None:
                        continue
                    rest -= row["number"]
                    if not rest:
                        end = _position(part, row)
                        kept += cut(part, end)
                        break
                kept.append(part)
            found += await self._read_all(kept, limit - len(found))
            if end is not None:
                return found, end
        return found, None

    async def _window_end(self, part: Part, rest: int) -> Any:
        fetch, own = self._connection.fetchrow, (self._queue_id, self._tenant, rest)
        match part:
            case Lane(priority=priority, after=start, until=end):
                return await fetch(SQL.ready_window_end, *own, priority, *start, *end)
            case KeyPart(key=key, after=first, until=last):
                return await fetch(SQL.key_window_end, *own, key, first, last)
            case KeysPart(after=after, before=before):
                return await fetch(SQL.keys_window_end, *own, after, before)
            case _:
                assert isinstance(part, CorrelatedPart)
                named = self._tenant, self._selection.correlation_id, rest
                return await fetch(SQL.correlated_window_end, *named, part.after, part.until)

    async def _read_all(self, parts: Sequence[Part], limit: int) -> list[Any]:
        lanes = [part for part in parts if isinstance(part, Lane)]
        if lanes:
            return await self._read(lanes[0], lanes, limit)
        found: list[Any] = []
        for part in parts:
            if len(found) < limit:
                found += await self._read(part, lanes, limit - len(found))
        return found

    async def _read(self, part: Part, lanes: Sequence[Lane], limit: int) -> list[Any]:
        fetch, selection = self._connection.fetch, self._selection
        filters = (self._queue_id, self._tenant, selection.type, selection.sent_until, limit)
        wanted = state_filter(selection, self._now)
        state = None if wanted.state is None else str(wanted.state)
        states = state, wanted.visible_after, wanted.visible_until
        match part:
            case ClaimedPart(after=after):
                return await fetch(SQL.list_claimed, *filters, after)
            case Lane():
                return await fetch(SQL.list_ready, *filters, *_columns(lanes))
            case KeyPart(key=key, after=low, until=high):
                return await fetch(SQL.list_of_key, *filters, *states, key, low, high)
            case KeysPart(after=key, before=before):
                return await fetch(SQL.list_of_keys, *filters, *states, key, before)
            case CorrelatedPart(after=first, until=last):
                own = selection.correlation_id, selection.key
                return await fetch(SQL.list_correlated, *filters, *states, *own, first, last)


def _columns(lanes: Sequence[Lane]) -> tuple[list[Any], ...]:
    return (
        [lane.priority for lane in lanes],
        [lane.after[0] for lane in lanes],
        [lane.after[1] for lane in lanes],
        [lane.until[0] for lane in lanes],
        [lane.until[1] for lane in lanes],
    )


def _position(part: Part, row: Any) -> MessagePosition:
    """The position of the last row of a window."""
    match part:
        case Lane(priority=priority):
            return MessagePosition(ListOrder.READY, priority, row["visible_at"], row["id"])
        case KeyPart(key=key):
            return MessagePosition(ListOrder.KEYED, key=key, rank=row["place"])
        case KeysPart():
            return MessagePosition(ListOrder.KEYED, key=row["key"], rank=row["place"])
        case _:
            return MessagePosition(ListOrder.CORRELATED, id=row["id"])
