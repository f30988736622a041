"""Changes of tenants, queues and endpoints that meet: none is lost, and each is recorded."""

from __future__ import annotations

import asyncio

import pytest

from tests.conformance.endpoint_acts import make_endpoint
from tests.kit.contexts import acting
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings, Scope, Tenant
from tickwork.errors import Conflict, InvalidInput, NotFound
from tickwork.ops.audit import ACTOR, list_audit
from tickwork.ops.context import Context
from tickwork.ops.endpoints import update_endpoint
from tickwork.ops.outside import Box
from tickwork.ops.queues import put_queue, update_queue
from tickwork.ops.tenants import create_tenant, set_tenant_limits, suspend_tenant
from tickwork.store.contract import Store

LIMITS: dict[str, object] = {
    "weight": 3, "min_interval_seconds": 5, "schedules_max": 7, "schedules_per_second": 2.0,
    "messages_per_second": 9.0, "payload_bytes_max": 1_000, "backlog_max": 50, "claimed_max": 4,
}  # fmt: skip

SETTINGS: dict[str, object] = {
    "max_batch_size": 7, "max_retries": 9, "retention_seconds": 600, "timeout_seconds": 11,
    "visibility_timeout_seconds": 13, "rate_per_second": 5.0, "backlog_bytes_max": 200_000,
}  # fmt: skip
FIELDS: dict[str, object] = {
    "url": "https://new.example", "description": "new", "method": "PUT", "timeout_seconds": 7,
    "rate_per_second": 5.0, "concurrency": 3, "retry_seconds": (1.0, 2.0),
}  # fmt: skip


def allow(_url: str) -> None:
    """Every URL may be called."""


def no_box() -> Box:
    raise AssertionError("no secret changes")


async def test_changes_that_meet_are_all_kept(store: Store) -> None:
    ACTOR.set("operator")
    await create_tenant(store, "acme", {})
    changes = [set_tenant_limits(store, "acme", {name: limit}) for name, limit in LIMITS.items()]
    await asyncio.gather(suspend_tenant(store, "acme"), *changes)
    found = await store.tenants.get(SYSTEM, "acme")
    assert found == Tenant(id="acme", suspended=True, **LIMITS)  # type: ignore[arg-type]
    records = await list_audit(Context(store, Scope("acme")))
    assert len(records) == len(LIMITS) + 2
    assert {record.action for record in records} == {
        "tenant.create", "tenant.limits", "tenant.suspend",
    }  # fmt: skip
    assert all(record.before != record.after for record in records)


async def test_of_creations_that_meet_one_succeeds(store: Store) -> None:
    ACTOR.set("operator")
    made = await asyncio.gather(
        *(create_tenant(store, "acme", {"weight": 2 + number}) for number in range(5)),
        return_exceptions=True,
    )
    (created,) = [answer for answer in made if isinstance(answer, Tenant)]
    assert [type(answer) for answer in made if answer is not created] == [Conflict] * 4
    assert await store.tenants.get(SYSTEM, "acme") == created
    (record,) = await list_audit(Context(store, Scope("acme")))
    assert record.action == "tenant.create"


async def test_changes_of_a_queue_that_meet_are_all_kept(store: Store) -> None:
    ACTOR.set("operator")
    await put_queue(Context(store, DEFAULT), "work", {})
    await asyncio.gather(
        *(
            update_queue(Context(store, DEFAULT), "work", {name: setting})
            for name, setting in SETTINGS.items()
        )
    )
    found = await store.queues.get(DEFAULT, "work")
    assert found.settings == QueueSettings(**SETTINGS)  # type: ignore[arg-type]
    records = await list_audit(Context(store, DEFAULT))
    assert len(records) == len(SETTINGS) + 1


async def test_changes_of_an_endpoint_that_meet_are_all_kept(store: Store) -> None:
    ACTOR.set("operator")
    made = await make_endpoint(store)
    await asyncio.gather(
        *(
            update_endpoint(
                acting(store, DEFAULT, box=no_box, check_url=allow), made.id, {name: field}
            )
            for name, field in FIELDS.items()
        )
    )
    settings = (await store.endpoints.get(DEFAULT, made.id)).settings
    assert {name: getattr(settings, name) for name in FIELDS} == FIELDS
    records = await list_audit(Context(store, DEFAULT))
    assert len(records) == len(FIELDS)
    assert all(record.before != record.after for record in records)


async def test_a_refused_change_changes_nothing(store: Store) -> None:
    with pytest.raises(NotFound):
        await suspend_tenant(store, "nobody")
    with pytest.raises(NotFound):
        await suspend_tenant(store, "no\0body")
    with pytest.raises(InvalidInput, match="weight"):
        await set_tenant_limits(store, "default", {"weight": 0})
    assert await store.tenants.get(SYSTEM, "default") == Tenant(id="default")
