"""Endpoints on PostgreSQL: what it does in one statement, and publishing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from tickwork.core.delivery.breaker import (
    PROBE_CANDIDATES_MAX,
    PULLED_AGAIN_SECONDS,
    PULLED_AT_ONCE_MAX,
)
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    AttemptRecord,
    DeliverySelection,
    DeliveryStatus,
    EndpointDelivery,
    Published,
)
from tickwork.core.delivery.publish import event_name
from tickwork.core.delivery.slot_delivery import SlotDelivery
from tickwork.core.message.message_list import END_OF_TIME
from tickwork.core.model import NewMessage, Scope
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.endpoint_rows import published_values
from tickwork.store.nouns.endpoints import Endpoints
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.postgres.endpoints.publish import Publisher
from tickwork.store.shared.columns import Kind
from tickwork.store.steps import NOW, Port, Statement, Steps, Wake, writes

_BEGIN = Statement("begin_delivery")
_RECORD = Statement("record_attempts", is_new=Kind.FLAG, now=Kind.TIME)
_PULL = Statement("pull_probes", queue_id=Kind.ID)
_OF_ENDPOINT = Statement("endpoint_deliveries", EndpointDelivery, is_alive=Kind.FLAG)
_OF_TENANT = Statement("tenant_deliveries", EndpointDelivery, is_alive=Kind.FLAG)


class PostgresEndpoints(Endpoints):
    """Endpoints, and what is published to them."""

    def __init__(self, port: Port, paths: HotPaths, publisher: Publisher) -> None:
        super().__init__(port, paths)
        self._publisher = publisher

    async def publish(self, scope: Scope, event: NewMessage, owner: str | None) -> Published:
        return await self._publisher.publish(own_tenant(scope), event, owner)

    @writes(repeatable=True, is_single=True)
    def begin(self, scope: Scope, delivery: SlotDelivery) -> Steps[bool]:
        event = delivery.event
        names = (delivery.message_id, delivery.endpoint_id, event_name(event))
        values = (*published_values(event), delivery.is_sent_once, delivery.running_code)
        return bool((yield from _BEGIN.fetch_value(NOW, own_tenant(scope), *names, *values)))

    @writes(repeatable=False, is_single=True)
    def pull_probes(self) -> Steps[None]:
        """Makes a waiting delivery of each endpoint visible whose breaker may be probed."""
        bounds = (PULLED_AT_ONCE_MAX, PROBE_CANDIDATES_MAX, PULLED_AGAIN_SECONDS)
        rows = yield from _PULL.fetch(NOW, ENDPOINTS_QUEUE, *bounds)
        yield Wake(frozenset(row["queue_id"] for row in rows if row["queue_id"] is not None))

    def _listing(self, selection: DeliverySelection) -> tuple[Statement, tuple[bool | None, ...]]:
        """Its values: whether deliveries must be delivered, and undelivered ones waiting."""
        statement = _OF_TENANT if selection.endpoint_id is None else _OF_ENDPOINT
        status = selection.status
        if selection.is_undelivered or status in (DeliveryStatus.WAITING, DeliveryStatus.DEAD):
            return statement, (False, None if status is None else status is DeliveryStatus.WAITING)
        return statement, (None if status is None else True, None)

    def _store_attempts(
        self, records: Sequence[AttemptRecord]
    ) -> Steps[tuple[dict[int, bool], datetime]]:
        rows = yield from _RECORD.fetch_each([*map(_values, records)], NOW)
        now = rows[0]["now"] if rows else END_OF_TIME
        return {row["position"] - 1: row["is_new"] for row in rows}, now


def _values(record: AttemptRecord) -> tuple[object, ...]:
    claim, attempt = record.claim, record.attempt
    return (
        claim.tenant, claim.id, claim.number, claim.holder, record.delivery_id,
        attempt.took_seconds, attempt.code, attempt.kind, attempt.error, attempt.excerpt,
    )  # fmt: skip
