"""Endpoints on SQLite: what PostgreSQL does in one statement, and publishing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

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
from tickwork.core.model import NewMessage, Scope
from tickwork.store.ids import own_tenant
from tickwork.store.nouns.deliveries import show_messages
from tickwork.store.nouns.endpoint_rows import published_values
from tickwork.store.nouns.endpoints import Endpoints
from tickwork.store.nouns.hot_paths import HotPaths
from tickwork.store.shared.columns import Kind
from tickwork.store.sqlite.endpoints.publish import NewEvent
from tickwork.store.sqlite.engine.database import Database
from tickwork.store.steps import NOW, Port, Statement, Steps, read_clock, writes

_BEGIN = Statement("begin_delivery")
_RECORD_PUBLISHED = Statement("record_published")
_CLAIMED = Statement("claimed_attempts", is_new=Kind.FLAG)
_RECORD = Statement("record_attempts")
_SHOW = Statement("show_attempts")
_DUE_PROBES = Statement("due_probes", id=Kind.ID, probe_message_id=Kind.ID, probe_back_at=Kind.TIME)
_CHOOSE_PROBE = Statement("choose_probe", id=Kind.ID, visible_at=Kind.TIME)
_PUT_BACK = Statement("put_back_probe")
_PULLED = Statement("pull_probes")
_LISTINGS = {
    (is_of_endpoint, what): Statement(
        f"{'endpoint' if is_of_endpoint else 'tenant'}_{what}",
        EndpointDelivery,
        is_alive=Kind.FLAG,
    )
    for is_of_endpoint in (False, True)
    for what in ("deliveries", "undelivered", "dead")
}


class SqliteEndpoints(Endpoints):
    """Endpoints, and what is published to them."""

    def __init__(self, port: Port, paths: HotPaths, database: Database) -> None:
        super().__init__(port, paths)
        self._database = database

    async def publish(self, scope: Scope, event: NewMessage, owner: str | None) -> Published:
        return await self._database.write(NewEvent(own_tenant(scope), event, owner).publish)

    @writes(repeatable=True)
    def begin(self, scope: Scope, delivery: SlotDelivery) -> Steps[bool]:
        event, tenant = delivery.event, own_tenant(scope)
        if not delivery.is_sent_once:
            yield from _RECORD_PUBLISHED.execute(tenant, NOW, *published_values(event))
        ids = (delivery.id, delivery.message_id, delivery.endpoint_id)
        values = (event_name(event), event.type, delivery.running_code)
        return bool((yield from _BEGIN.fetch_value(tenant, NOW, *ids, *values)))

    def _listing(self, selection: DeliverySelection) -> tuple[Statement, tuple[bool | None, ...]]:
        """Its value: whether undelivered ones must be waiting, or others delivered."""
        status, what = selection.status, "deliveries"
        if status is DeliveryStatus.DEAD:
            what = "dead"
        elif selection.is_undelivered or status is DeliveryStatus.WAITING:
            what = "undelivered"
        is_filtered = None if status in (None, DeliveryStatus.DEAD) else True
        return _LISTINGS[selection.endpoint_id is not None, what], (is_filtered,)

    def _store_attempts(
        self, records: Sequence[AttemptRecord]
    ) -> Steps[tuple[dict[int, bool], datetime]]:
        now = yield from read_clock()
        valid: dict[int, bool] = {}
        for index, record in enumerate(records):
            claim, attempt = record.claim, record.attempt
            delivery_id = record.delivery_id
            named = (claim.tenant, claim.id, claim.number, claim.holder, delivery_id)
            row = yield from _CLAIMED.fetch_row(*named)
            if row is None:
                continue
            valid[index] = row["is_new"]
            if row["is_new"] and delivery_id is not None:
                at = now - timedelta(seconds=attempt.took_seconds)
                values = (attempt.took_seconds, attempt.code, attempt.kind, attempt.error)
                yield from _RECORD.execute(
                    delivery_id, claim.id, claim.number, at, *values, attempt.excerpt
                )
                delivered_at = now if attempt.is_delivered else None
                yield from _SHOW.execute(delivery_id, at, attempt.code, attempt.error, delivered_at)
        return valid, now


def pull_probes() -> Steps[None]:
    """Makes a waiting delivery of each endpoint visible whose breaker may be probed."""
    now = yield from read_clock()
    again = now + timedelta(seconds=PULLED_AGAIN_SECONDS)
    for due in (yield from _DUE_PROBES.fetch(now, PULLED_AT_ONCE_MAX)):
        tenant, last_id = due["tenant"], due["probe_message_id"]
        found = yield from _CHOOSE_PROBE.fetch_row(
            tenant, due["id"], ENDPOINTS_QUEUE, last_id, now, PROBE_CANDIDATES_MAX
        )
        chosen = (None, None) if found is None else (found["id"], found["visible_at"])
        if found is not None:
            yield from show_messages([(tenant, found["id"], 0.0)])
            if last_id not in (None, found["id"]):
                yield from _PUT_BACK.execute(tenant, last_id, due["probe_back_at"], now)
        yield from _PULLED.execute(due["id"], again, *chosen)
