"""The app and the client give equal results for the same verbs, on both stores.

The same story is told to an app of one tenant and to a client of another. What differs by nature is
made equal: ids, times, and the name of the tenant.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest

from tests.client.kit import InProcess
from tests.kit.api import ReusedApi, bearer, in_process, new_key
from tests.stores.home import Home
from tickwork import Client, Outgoing, Tickwork
from tickwork.cli.local import as_client
from tickwork.core.answers.ids import ENCODER
from tickwork.core.model import ClaimRequest, Ending, Fate, Scope, Settlement
from tickwork.errors import TickworkError
from tickwork.ops.tenants import create_tenant
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

Told = list[tuple[str, Any]]

QUEUE: Any = {"type": "queue", "queue": "emails"}
_ID = re.compile(r"\b(?:[a-z]{3,4}_)?[0-9a-f]{32}\b|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MINUTES = re.compile(r'"minutes":\[(?:\{"label":"20[0-9: -]+","counts":\{[^}]*\}\},?)+\]')
"""Counts by minute: a story may begin in one and end in the next."""

_TIME = re.compile(r"20(?:2[5-9])-[0-9-]+T[0-9:.]+(?:Z|\+00:00)")


class Side(NamedTuple):
    """An app or a client, and the tenant it acts for."""

    client: Client
    store: Store
    tenant: str


async def kill(side: Side, queue: str) -> None:
    """Lets every visible message of the queue die."""
    scope, store = Scope(side.tenant), side.store
    request = ClaimRequest(queue=queue, holder=new_id(), limit=100, lease_seconds=30)
    messages = await store.messages.claim(scope, request)
    endings = [
        Ending(
            claim=message.current_claim, fate=Fate.DEAD, reason="max_retries", error="ValueError"
        )
        for message in messages
    ]
    await store.messages.settle(scope, Settlement(tuple(endings)))


async def queues_and_messages(side: Side) -> AsyncIterator[Any]:
    c = side.client
    yield "put", c.queues.put("emails", max_retries=2, retention_seconds=3_600)
    yield "list", c.queues.list()
    yield "update", c.queues.update("emails", max_retries=5)
    yield "a bad setting", c.queues.update("emails", max_retries=101)
    yield "an unknown queue", c.queues.get("emials")
    emails = c.queue("emails")
    first = await emails.send({"to": "ada"}, type="welcome", key="ada", priority=7)
    yield (
        "a batch",
        emails.send_batch([1, Outgoing("later", delay_seconds=3_600)], key="ada", source="shop"),
    )
    yield "a text", emails.send("hello", content_type="text", correlation_id="c1")
    yield "no queue", c.queue("nobody").send(1)
    yield "get", c.messages.get(first)
    yield "get in a queue", c.messages.get(first, queue="emails")
    yield "no message", c.messages.get("msg_" + "0" * 32)
    yield "all", c.messages.list("emails")
    yield "delayed", c.messages.list("emails", state="delayed")
    yield "of a key", c.messages.list("emails", key="ada", limit=2)
    yield "of a correlation", c.messages.list("emails", correlation_id="c1")
    yield "old", c.messages.list("emails", older_than=1_000.0)
    yield "peek", c.messages.peek("emails", limit=1)
    yield "why", c.why(first)
    yield "stats", c.queues.stats("emails")
    yield "all stats", c.stats()
    yield "usage", c.usage()
    yield "usage by day", c.usage(by="day", since="2027-01-01T00:00:00Z")
    yield "performance", c.performance(by="day", queue="emails")
    backwards = {"since": "2027-01-02T00:00:00Z", "until": "2027-01-01T00:00:00Z"}
    yield "performance of no time", c.performance(**backwards)
    yield "trace", c.trace("c1")
    yield "no trace", c.trace("nothing")
    yield "topology", c.topology()
    yield "types", c.types.list()
    yield "nothing to explain", c.why("nothing")
    yield "delete", c.messages.delete("emails", first)
    yield "delete again", c.messages.delete("emails", first)
    yield "subscribe", c.subscriptions.create("order.*", "emails")
    yield "subscriptions", c.subscriptions.list()
    yield "unsubscribe", c.subscriptions.delete("order.*", "emails")
    yield "unsubscribe again", c.subscriptions.delete("order.*", "emails")
    yield "pause", c.queues.pause("emails")
    yield "purge", c.queues.purge("emails")
    yield "resume", c.queues.resume("emails")
    yield "delete the queue", c.queues.delete("emails")
    yield "a limit", c.limits.put("api", rate=5.0, concurrency=2)
    yield "a bad limit", c.limits.put("api", rate=-1.0)
    yield "the limit", c.limits.get("api")
    yield "limits", c.limits.list()
    yield "no limit", c.limits.delete("other")
    yield "delete the limit", c.limits.delete("api")


async def dead_letters(side: Side) -> AsyncIterator[Any]:
    c = side.client
    await c.queues.put("emails")
    for number in range(3):
        await c.queue("emails").send({"n": number}, type="welcome")
    await kill(side, "emails")
    letters = await c.dead_letters.list("emails")
    yield "list", c.dead_letters.list("emails", reason="max_retries", type="welcome", limit=2)
    yield "none", c.dead_letters.list("emails", reason="expired")
    yield "groups", c.dead_letters.groups("emails")
    until = letters[-1].failed_at
    yield "count", c.dead_letters.count("emails", type="welcome", failed_before=until)
    yield "count none", c.dead_letters.count("emails", no_type=True, failed_before=until)
    yield "no type", c.dead_letters.list("emails", no_type=True)
    yield "discard no type", c.dead_letters.discard("emails", no_type=True, failed_before=until)
    yield "type and no type", c.dead_letters.replay("emails", type="welcome", no_type=True)
    yield "status", c.status(checks=["queues"])
    yield "unknown check", c.status(checks=["queue"])
    yield "get", c.dead_letters.get(letters[0].id)
    yield "no letter", c.dead_letters.get("dead_" + "0" * 32)
    yield "edit", c.dead_letters.edit(letters[0].id, {"n": 9})
    yield "why", c.why(letters[0].id)
    yield "replay", c.dead_letters.replay("emails", ids=[letters[0].id])
    yield "replay again", c.dead_letters.replay("emails", ids=[letters[0].id])
    yield "discard", c.dead_letters.discard("emails", limit=1)
    yield "replay the rest", c.dead_letters.replay("emails", rate_per_second=100.0)
    yield "sent again", c.messages.list("emails")


async def batches(side: Side) -> AsyncIterator[Any]:
    c = side.client
    await c.queues.put("emails")
    batch = await c.batch("emails", [1, Outgoing(2, delay_seconds=60)], type="item")
    yield "get", c.batches.get(batch.id)
    yield "list", c.batches.list()
    yield "items", c.batches.items(batch.id, "pending")
    yield "cancel", c.batches.cancel(batch.id)
    yield "failed items", c.batches.items(batch.id, "failed", limit=1)
    yield "no batch", c.batches.get("bat_" + "0" * 32)


async def schedules(side: Side) -> AsyncIterator[Any]:
    c = side.client
    await c.queues.put("emails")
    yield "create", c.schedules.create(
        cron_expr="0 9 * * MON-FRI", timezone="America/New_York", name="report", target=QUEUE,
        payload={"team": "ops"}, metadata={"plan": "pro"}, owner="ann",
    )  # fmt: skip
    yield "a taken name", c.schedules.create(name="report", interval_minutes=5, target=QUEUE)
    yield "two timings", c.schedules.create(cron_expr="@daily", interval_minutes=5, target=QUEUE)
    yield "an unknown field", c.schedules.create(dailyTime="9:00", target=QUEUE)  # type: ignore[call-arg]
    yield (
        "many",
        c.schedules.create_many(
            [
                {"name": f"s{n}", "daily_time": {"hour": n, "minute": 0}, "target": QUEUE}
                for n in (1, 2)
            ]
        ),
    )
    yield "get", c.schedules.get("report")
    yield "list", c.schedules.list()
    yield "one owner's", c.schedules.list(owner="ann", limit=1)
    yield "by prefix", c.schedules.list(name_prefix="s", order="next_due_at")
    yield "update", c.schedules.update("report", daily_time={"hour": 10, "minute": 30}, owner=None)  # type: ignore[call-arg]
    yield "update well", c.schedules.update("report", daily_time={"hour": 10, "minute": 30})
    yield "pause", c.schedules.pause("report")
    yield "resume", c.schedules.resume("report")
    yield "preview", c.schedules.preview(
        cron_expr="30 2 * * *", timezone="America/New_York", limit=2,
        since=datetime(2027, 3, 13, 12, tzinfo=UTC),
    )  # fmt: skip
    yield "upcoming", c.schedules.upcoming("report", limit=2)
    yield "all upcoming", c.schedules.upcoming(limit=3)
    yield "trigger", c.schedules.trigger("s1")
    yield "firings", c.schedules.firings("s1")
    yield "why", c.schedules.why("s1", "2027-01-01T01:00:00Z")
    slot = f"{int(datetime(2027, 1, 1, 1, tzinfo=UTC).timestamp()) * 1_000_000:016x}"
    own = (await c.schedules.get("s1")).id.removeprefix("sch_")
    yield "why a webhook", c.why(f"msg_{own}{slot}")
    yield "why no webhook", c.why(f"msg_{'0' * 32}{slot}")
    yield "no schedule", c.schedules.get("nobody")
    yield "a calendar", c.calendars.put("holidays", ["2027-12-25"])
    yield "use it", c.schedules.update("s2", calendar="holidays", roll="next_day")
    yield "in use", c.calendars.delete("holidays")
    yield "calendars", c.calendars.list()
    yield "the calendar", c.calendars.get("holidays")
    yield "a bad day", c.calendars.put("holidays", ["2027-13-25"])
    await c.schedules.delete("s2")
    yield "deleted", c.schedules.list(status="deleted")


async def deliveries(side: Side) -> AsyncIterator[Any]:
    c = side.client
    made = await c.endpoints.create(
        "shop", url="https://example.com/hooks", types=["order.*"], description="Orders"
    )
    assert made.secret is not None
    assert made.secret.startswith("whsec_")
    yield "a bad url", c.endpoints.create("other", url="ftp://example.com", types="a")
    yield "get", c.endpoints.get("shop")
    yield "list", c.endpoints.list()
    yield "update", c.endpoints.update("shop", types="order.paid", timeout_seconds=10)
    yield "publish", c.events.publish("order.paid", {"order": 17}, event_id="order-17")
    yield "publish again", c.events.publish("order.paid", {"order": 17}, event_id="order-17")
    yield "deliveries", c.deliveries.list(endpoint="shop", undelivered=True)
    yield "delivered", c.deliveries.list(status="delivered")
    (delivery,) = await c.deliveries.list()
    yield "one", c.deliveries.get(delivery.id)
    yield "why", c.why(delivery.id)
    yield "why not", c.why(delivery.id.replace("dlv", "end"))
    yield "why the endpoint", c.why("shop")
    yield "resend", c.deliveries.resend(delivery.id)
    yield "recover", c.deliveries.recover("shop", since="2026-01-01T00:00:00Z")
    yield "stats", c.endpoints.stats("shop")
    yield "disable", c.endpoints.disable("shop", "it moves")
    yield "why disabled", c.why(delivery.id)
    yield "enable", c.endpoints.enable("shop")
    yield "no endpoint", c.endpoints.get("nobody")
    yield "delete", c.endpoints.delete("shop")


async def access(side: Side) -> AsyncIterator[Any]:
    c = side.client
    made = await c.keys.create("shop", scopes=["read", "send"])
    assert made.token.startswith("tw_")
    yield "a bad scope", c.keys.create("shop", scopes=["write"])
    yield "get", c.keys.get(made.id)
    yield "no key", c.keys.get("nobody")
    yield "list", c.keys.list()
    yield "revoke", c.keys.revoke(made.id)
    other = f"of-{side.tenant}"
    yield "tenant", c.tenants.create(other, schedules_max=7)
    yield "tenant again", c.tenants.create(other)
    yield "limits", c.tenants.set_limits(other, weight=5, schedules_max=None)
    yield "suspend", c.tenants.suspend(other)
    yield "resume", c.tenants.resume(other)
    yield "no tenant", c.tenants.get("nobody")
    yield "cluster", c.nodes.list()
    yield "too wide", c.widen_windows(-1)


async def workflows_and_entities(side: Side) -> AsyncIterator[Any]:
    c = side.client
    yield "names", c.workflows.names()
    yield "runs", c.workflows.list()
    yield "no workflow", c.workflows.list("nobody")
    yield "start nothing", c.workflows.start("nobody", {})
    yield "no run", c.workflows.get("brand-7").status()
    yield "types", c.entities.types()
    yield "no type", c.entities.list("Brand")
    yield "no entity", c.entities.get("Brand", "a")


async def operations(side: Side) -> AsyncIterator[Any]:
    c = side.client
    await c.queues.put("emails", max_retries=0)
    await c.queue("emails").send_batch([1, 2, 3])
    await kill(side, "emails")
    yield "none", c.operations.list()
    which = {"queue": "emails", "limit": 2, "failed_before": datetime.now(UTC)}
    made = await c.operations.start("dead_letters.replay", which, canary=1, rate_per_second=9)
    yield "get", c.operations.get(made.id)
    yield "open", c.operations.list(open_only=True)
    yield "stop", c.operations.stop(made.id)
    yield "stop again", c.operations.stop(made.id)
    yield "none open", c.operations.list(open_only=True)
    yield "a bad kind", c.operations.start("dead_letters.replay_all", {})
    yield "no queue", c.operations.start("dead_letters.replay", {})
    yield "an unknown queue", c.operations.start("dead_letters.replay", {"queue": "nobody"})
    yield "an unknown field", c.operations.start("dead_letters.replay", {"quue": "emails"})
    yield "a canary of a discard", c.operations.start("dead_letters.discard", which, canary=1)
    yield "no runs", c.operations.start("runs.restart", {"status": "failed"}, canary=1)
    yield "no open runs", c.operations.start("runs.cancel", {"workflow": "nobody"})
    yield "a bad status", c.operations.start("runs.cancel", {"status": "failed"})
    yield "no schedules", c.operations.start("schedules.pause", {"owner": "ada", "limit": 3})
    yield "a bad canary", c.operations.start("dead_letters.replay", which, canary=101)
    yield "no operation", c.operations.get("oper_" + 32 * "0")


STORIES = (
    queues_and_messages, dead_letters, operations, batches, schedules, deliveries, access,
    workflows_and_entities,
)  # fmt: skip


@pytest.fixture
async def sides(
    home: Home, reused_api: ReusedApi, app: Tickwork
) -> AsyncIterator[tuple[Side, Side]]:
    """An app of one tenant with the answers of a client, and a client of another."""
    store = await home.open()
    for tenant in ("one", "two"):
        await create_tenant(store, tenant, {})
    key = await new_key(store)
    async with in_process(reused_api.on(home), **bearer(key)) as http:
        remote = Client("http://t", key=key, tenant="two", transport=InProcess(http))
        yield Side(as_client(app), store, "one"), Side(remote, store, "two")
    await store.close()


async def tell(story: Any, side: Side) -> Told:
    told: Told = []
    async for name, verb in story(side):
        try:
            result: Any = await verb
        except TickworkError as error:
            faults = getattr(error, "errors", None)
            result = [type(error).__name__, error.code, str(error), faults]
        told.append((name, _plain(result, side.tenant)))
    return told


def _plain(value: Any, tenant: str) -> Any:
    """A result as text, without what differs by nature."""
    if hasattr(value, "progress"):
        return "a batch"
    text = ENCODER.encode(value).decode()
    text = text.replace(f'"{tenant}"', '"tenant"').replace(f"of-{tenant}", "of-tenant")
    text = re.sub(r'"(id|key_id)":"[0-9a-f]{20}"', '"id":"key"', text)
    text = re.sub(r"tenant (one|two)\b", "tenant it", text)
    text = re.sub(r'"(started|stopped)_by":"key [0-9a-f]+"', r'"\1_by":null', text)
    text = _MINUTES.sub('"minutes":MINUTES', text)
    text = re.sub(r'"(at|oldest_age_seconds)":[0-9.e-]+', '"age":0', text)
    return _TIME.sub("TIME", _ID.sub("ID", text))


@pytest.mark.parametrize("story", STORIES, ids=lambda function: function.__name__)
async def test_an_app_and_a_client_give_equal_results(story: Any, sides: Any) -> None:
    here, there = [await tell(story, side) for side in sides]
    for own, other in zip(here, there, strict=True):
        assert own == other
