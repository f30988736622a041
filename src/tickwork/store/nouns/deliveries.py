"""Deliveries to endpoints: list them with their attempts, count them, and send them again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from msgspec import structs

from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    Attempt,
    DeliverySelection,
    EndpointDelivery,
)
from tickwork.core.delivery.publish import check_resend, delivery_message, spacing
from tickwork.core.limits import check_limit, is_name
from tickwork.core.message.message_list import END_OF_TIME, LAST_ID, NO_ID, START_OF_TIME
from tickwork.core.model import SYSTEM, NewMessage, Scope
from tickwork.errors import NotFound
from tickwork.store.ids import new_id, own_tenant
from tickwork.store.nouns.endpoint_rows import (
    read_attempt,
    read_delivery,
    read_published,
    read_settings,
)
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import (
    NOW,
    Noun,
    Port,
    Row,
    Statement,
    Steps,
    Wake,
    changes_once,
    reads,
    searches,
)

_GET = Statement("get_delivery", EndpointDelivery, is_alive=Kind.FLAG)
_UNDELIVERED = Statement("undelivered_ids", id=Kind.ID)
_ATTEMPTS = Statement("list_attempts", Attempt)
_LOCK = Statement("lock_deliveries", id=Kind.ID)
_TO_RESEND = Statement(
    "deliveries_to_resend",
    EndpointDelivery,
    delivery_id=Kind.ID,
    has_message=Kind.FLAG,
)
_SHOW = Statement("show_messages", queue_id=Kind.ID)
_RESOLVE = Statement("resolve_dead_letters")
RESEND_DELIVERIES = Statement("resend_deliveries")
"""Gives deliveries other messages: they are waiting again."""


class Deliveries(Noun, ABC):
    """Deliveries of a tenant."""

    def __init__(self, port: Port, paths: HotPaths) -> None:
        super().__init__(port)
        self._paths = paths

    @reads
    def delivery(self, scope: Scope, delivery_id: UUID) -> Steps[EndpointDelivery]:
        return (yield from _get(scope, delivery_id))

    @searches
    def deliveries(
        self, scope: Scope, selection: DeliverySelection, *, before: UUID | None = None
    ) -> Steps[tuple[EndpointDelivery, ...]]:
        check_limit(selection.limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        position = (END_OF_TIME, LAST_ID)
        if before is not None:
            position = ((yield from _get(scope, before)).published_at, before)
        if selection.until is not None and selection.until <= position[0]:
            position = (selection.until, NO_ID)
        statement, status = self._listing(selection)
        rows = yield from statement.fetch(
            tenant,
            selection.endpoint_id,
            *position,
            selection.since or START_OF_TIME,
            *status,
            selection.limit,
        )
        return tuple(map(read_delivery, rows))

    @abstractmethod
    def _listing(self, selection: DeliverySelection) -> tuple[Statement, tuple[bool | None, ...]]:
        """The statement for a selection, and its values for the status."""

    @searches
    def undelivered(
        self,
        scope: Scope,
        endpoint_id: UUID,
        *,
        since: datetime | None,
        until: datetime,
        limit: int,
        after: UUID | None = None,
    ) -> Steps[tuple[UUID, ...]]:
        check_limit(limit)
        tenant = own_tenant(scope)
        if not is_name(tenant):
            return ()
        position = (since or START_OF_TIME, NO_ID)
        if after is not None:
            position = ((yield from _get(scope, after)).published_at, after)
        rows = yield from _UNDELIVERED.fetch(tenant, endpoint_id, *position, until, limit)
        return tuple(row["id"] for row in rows)

    @reads
    def attempts(
        self, scope: Scope, delivery_id: UUID, *, limit: int | None = None, after: int = 0
    ) -> Steps[tuple[Attempt, ...]]:
        yield from _get(scope, delivery_id)
        rows = yield from _ATTEMPTS.fetch(delivery_id, after, limit)
        return tuple(map(read_attempt, rows))

    # Not repeated: a second run might send what the first one has sent.
    @changes_once
    def resend(
        self,
        scope: Scope,
        delivery_ids: Sequence[UUID],
        *,
        rate_per_second: float | None = None,
        first_after_seconds: float = 0.0,
    ) -> Steps[int]:
        ids = [*dict.fromkeys(delivery_ids)]
        check_resend(len(ids), rate_per_second, first_after_seconds)
        if scope.tenant is not None and not is_name(scope.tenant):
            return 0
        queue = yield from self._paths.queue(SYSTEM, ENDPOINTS_QUEUE)
        # Two statements, so that the second sees what was written while the first waited.
        locked = yield from _LOCK.fetch_each([(id_,) for id_ in ids], scope.tenant)
        rows = yield from _TO_RESEND.fetch_each([(row["id"],) for row in locked])
        # Without a published event there is nothing to send.
        rows = [row for row in rows if row["has_message"] or row["id"] is not None]
        rows.sort(key=lambda row: (row["published_at"], row["delivery_id"]))
        every = spacing(rate_per_second)
        delayed = [(row, first_after_seconds + index * every) for index, row in enumerate(rows)]
        yield from show_messages(
            [
                (row["tenant"], row["message_id"], delay)
                for row, delay in delayed
                if row["has_message"]
            ]
        )
        new = [(row, _message(row, delay)) for row, delay in delayed if not row["has_message"]]
        yield from RESEND_DELIVERIES.fetch_each(
            [(row["delivery_id"], message.id, row["tenant"]) for row, message in new]
        )
        yield from _RESOLVE.fetch_each(
            [(row["tenant"], row["message_id"], message.id) for row, message in new], NOW
        )
        by_tenant: dict[str, list[NewMessage]] = {}
        for row, message in new:
            by_tenant.setdefault(row["tenant"], []).append(message)
        if by_tenant:
            yield from self._paths.send(queue, by_tenant)
        return len(rows)


def show_messages(delayed: Sequence[tuple[str, UUID, float]]) -> Steps[None]:
    """Makes messages that wait visible, each after some seconds. A message that waits for its
    completion stays."""
    shown = yield from _SHOW.fetch_each(delayed, NOW)
    if shown:
        yield Wake(frozenset(row["queue_id"] for row in shown))


def _get(scope: Scope, delivery_id: UUID) -> Steps[EndpointDelivery]:
    row = None
    if scope.tenant is None or is_name(scope.tenant):
        row = yield from _GET.fetch_row(delivery_id, scope.tenant)
    if row is None:
        raise NotFound("delivery", delivery_id)
    return read_delivery(row)


def _message(row: Row, delay_seconds: float) -> NewMessage:
    message = delivery_message(
        read_published(row),
        row["endpoint_id"],
        read_settings(row["settings"]),
        delivery_id=row["delivery_id"],
        message_id=new_id(),
    )
    return structs.replace(message, delay_seconds=delay_seconds)
