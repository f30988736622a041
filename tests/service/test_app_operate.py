"""What an operator asks an app: queues, messages, batches, dead letters, nodes and schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from tickwork import InvalidInput, Message, NotFound, Permanent, Schedule, Tickwork
from tickwork.core.model import Scope
from tickwork.ops.audit import list_audit
from tickwork.ops.context import Context
from tickwork.testing import harness

EMAILS: Any = {"type": "queue", "queue": "emails"}


@pytest.fixture
def app() -> Tickwork:
    return Tickwork()


async def test_waiting_messages_are_shown_with_their_body(
    app: Tickwork, database: str | None
) -> None:
    emails = app.queue("emails")
    async with harness(app, database=database):
        sent = await emails.send({"to": "ada"}, type="welcome", key="ada")
        behind = await emails.send({"to": "ada"}, key="ada")
        (first,) = await app.messages.peek("emails")
        assert (first.id, first.body, first.state) == (
            sent,
            {"to": "ada"},
            "ready",
        )
        assert (first.queue, first.type, first.key) == ("emails", "welcome", "ada")
        assert await app.messages.get(sent) == first
        assert (await app.messages.get(behind, queue="emails")).state == "blocked"
        with pytest.raises(NotFound):
            await app.messages.get(uuid4())
        with pytest.raises(InvalidInput, match="message_id: must be an id, not 'abc'"):
            await app.messages.get("abc")


async def test_queues_are_listed_paused_and_purged(app: Tickwork, database: str | None) -> None:
    emails = app.queue("emails", max_retries=7)
    async with harness(app, database=database):
        await emails.send("a")
        assert [listed_queue.name for listed_queue in await app.queues.list()] == ["emails"]
        await app.queues.pause("emails")
        queue = await app.queues.get("emails")
        assert (queue.paused, queue.max_retries) == (True, 7)
        await app.queues.resume("emails")
        changed = await app.queues.update("emails", max_retries=9, push_to="shop")
        assert (changed.max_retries, changed.push_to) == (9, "shop")
        changed = await app.queues.update("emails", max_retries=7, push_to=None)
        assert (changed.max_retries, changed.push_to) == (7, None)
        with pytest.raises(InvalidInput, match="max_retries: must be from 0 to 100"):
            await app.queues.update("emails", max_retries=101)
        assert (await app.queues.stats("emails")).counts.ready == 1
        assert await app.queues.purge("emails") == 1
        assert await app.messages.peek("emails") == ()
        with pytest.raises(NotFound):
            await app.queues.get("emials")


async def test_what_an_app_changes_is_recorded_under_its_name(database: str | None) -> None:
    app = Tickwork(name="shop")
    app.queue("emails")
    async with harness(app, database=database) as running:
        await app.queues.pause("emails")
        made = await app.schedules.create(cron_expr="@daily", target=EMAILS, payload="secret")
        await app.schedules.pause(made.id)
        records = await list_audit(Context(running.store, Scope("default")))
    assert [record.action for record in reversed(records)][-3:] == [
        "queue.pause", "schedule.create", "schedule.pause",
    ]  # fmt: skip
    assert {record.actor for record in records} == {"app shop"}
    assert "secret" not in str(records)


async def test_dead_letters_are_grouped_edited_replayed_and_discarded(
    app: Tickwork, database: str
) -> None:
    emails, handled = app.queue("emails"), list[Any]()

    @app.on("emails")
    async def handle(message: Message) -> None:
        if message.body != "good":
            raise Permanent("no such address")
        handled.append(message.body)

    async with harness(app, database=database) as h:
        await emails.send_batch(["bad", "worse", "worst"])
        await h.drain()
        (group,) = await app.dead_letters.groups("emails")
        assert group.dead_letters == 3
        first, second, third = await app.dead_letters.list("emails")
        assert await app.dead_letters.list("emails", limit=2) == (first, second)
        assert await app.dead_letters.list("emails", after=second.id) == (third,)
        edited = await app.dead_letters.edit(first.id, "good")
        assert (await app.dead_letters.get(str(first.id))) == edited
        assert edited.body == "good"
        summary = await app.dead_letters.replay("emails", ids=[first.id])
        assert (summary.replayed, summary.stopped) == (1, None)
        await h.drain()
        assert handled == ["good"]
        assert await app.dead_letters.discard("emails") == 2
        assert await app.dead_letters.list("emails") == ()


async def test_the_error_for_an_unknown_queue_has_the_nearest_name(
    app: Tickwork, database: str | None
) -> None:
    app.queue("emails")
    async with harness(app, database=database):
        for asked in (
            app.queues.get("emials"),
            app.queues.pause("emials"),
            app.messages.list("emials"),
            app.dead_letters.replay("emials"),
        ):
            with pytest.raises(NotFound) as refused:
                await asked
            assert str(refused.value) == "there is no queue emials; did you mean 'emails'?"
        with pytest.raises(NotFound) as refused:
            await app.queues.get("other")
        assert str(refused.value) == "there is no queue other"


async def test_batches_are_found_by_their_id(app: Tickwork, database: str | None) -> None:
    app.queue("emails")
    async with harness(app, database=database):
        made = await app.batch("emails", ["a", "b"])
        batch = await app.batches.get(made.id)
        assert (batch.total, batch.pending) == (2, 2)
        assert await app.batches.list() == (batch,)
        assert len(await app.batches.items(made.id, "pending")) == 2
        with pytest.raises(InvalidInput, match="status: must be one of pending"):
            await app.batches.items(made.id, "waiting")
        cancelled = await app.batches.cancel(made.id)
        assert cancelled.failed == 2


async def test_running_processes_are_listed(app: Tickwork, tmp_path: Path) -> None:
    app = Tickwork(f"sqlite:///{tmp_path}/nodes.db")
    app.queue("emails")

    @app.on("emails")
    async def handle(message: Message) -> None: ...

    async with app.running():
        (node,) = await app.nodes.list()
        assert node.is_alive
        assert set(node.roles) == {"scheduler", "worker"}


async def test_a_schedule_shows_the_fields_it_was_created_with(
    app: Tickwork, database: str
) -> None:
    app.queue("emails")
    async with harness(app, database=database, start=datetime(2027, 3, 1, tzinfo=UTC)):
        made = await app.schedules.create(
            daily_time="08:30",
            timezone="Europe/Berlin",
            target=EMAILS,
            payload={"to": "ada"},
            metadata={"plan": "pro"},
            name="reminder of ada",
            owner="ada",
            missed={"policy": "skip"},
        )
        assert made.daily_time == {"hour": 8, "minute": 30}
        assert (made.timezone, made.kind, made.status) == ("Europe/Berlin", "daily", "active")
        assert (made.target, made.payload) == (EMAILS, {"to": "ada"})
        assert (made.metadata, made.owner) == ({"plan": "pro"}, "ada")
        assert made.missed == {"policy": "skip", "cap": 10, "grace_seconds": 60}
        assert made.next_fire_at == datetime(2027, 3, 1, 7, 30, tzinfo=UTC)
        assert await app.schedules.get("reminder of ada") == made
        minutes = await app.schedules.create(interval_minutes=90, target=EMAILS)
        assert (minutes.interval_minutes, minutes.interval_seconds) == (90, None)
        changed = await app.schedules.update(made.id, weekly_time="MON 09:00", payload=None)
        assert (changed.daily_time, changed.payload) == (None, None)
        assert changed.weekly_time == {"day_of_week": 1, "hour": 9, "minute": 0}
        with pytest.raises(InvalidInput, match="owner: is set when the schedule is created"):
            await app.schedules.update(made.id, owner="bob")  # type: ignore[call-arg]


async def test_schedules_are_listed_by_owner_name_and_metadata(
    app: Tickwork, database: str
) -> None:
    app.queue("emails")
    async with harness(app, database=database) as h:

        async def create(name: str, owner: str, plan: str) -> Schedule:
            return await app.schedules.create(
                interval_minutes=60, target=EMAILS, name=name, owner=owner, metadata={"plan": plan}
            )

        first = await create("report:ada", "ada", "pro")
        second = await create("report:bob", "bob", "free")
        third = await create("backup:bob", "bob", "pro")
        listed = app.schedules.list
        assert await listed(owner="bob") == (second, third)
        assert await listed(name_prefix="report:") == (first, second)
        assert await listed(metadata={"plan": "pro"}) == (first, third)
        assert await listed(owner="bob", metadata={"plan": "pro"}) == (third,)
        with pytest.raises(InvalidInput, match="metadata: must be an object"):
            await listed(metadata={"plan": 1.5})  # type: ignore[dict-item]
        hour = timedelta(hours=1)
        fires = await app.schedules.upcoming(
            owner="bob", since=h.now + hour, until=h.now + 3 * hour
        )
        assert {fire.schedule_id for fire in fires} == {second.id, third.id}
        assert len(fires) == 2


def test_only_what_users_need_is_on_the_app() -> None:
    shown = {name for name in dir(Tickwork()) if not name.startswith("_")}
    assert shown == {
        "alerts", "audit", "background", "batch", "batches", "calendars", "capacity",
        "close", "cluster", "consumer",
        "dead_letters", "deliveries", "endpoints", "entities",
        "entity", "events", "firings", "history", "http", "keys", "limits",
        "messages", "name", "nodes", "now", "on", "on_completed", "open", "operations", "owner",
        "pause_all",
        "performance",
        "queue", "queues", "run",
        "resume_all", "running", "schedule", "schedules", "search", "service", "stats", "status",
        "subscriptions", "sync", "tenant", "tenants", "topology", "trace", "types", "usage",
        "webhooks",
            "why", "widen_windows",
            "workflow",
            "workflows",
    }  # fmt: skip


def test_only_what_users_need_is_on_a_message() -> None:
    shown = {name for name in dir(Message) if not name.startswith("_")}
    assert shown == {
        "ack", "attempts", "body", "causation_id", "correlation_id", "died", "event_id", "hops",
        "id", "idempotency_key", "key", "metadata", "retry", "send", "source", "tenant",
        "time_left", "timestamp", "transaction", "type",
    }  # fmt: skip


async def test_unknown_dead_letters_are_named_and_nothing_is_done(
    app: Tickwork, database: str | None
) -> None:
    emails = app.queue("emails")

    @app.on("emails")
    async def handle(_: Message) -> None:
        raise Permanent("no such address")

    async with harness(app, database=database) as h:
        await emails.send_batch(["bad", "worse"])
        await h.drain()
        first, second = await app.dead_letters.list("emails")
        unknown = uuid4()
        for call in (app.dead_letters.replay, app.dead_letters.discard):
            with pytest.raises(NotFound, match=f"open dead letter dead_{unknown.hex} in queue"):
                await call("emails", ids=[first.id, unknown])
        assert len(await app.dead_letters.list("emails")) == 2
        assert await app.dead_letters.discard("emails", ids=[second.id]) == 1
        with pytest.raises(NotFound, match=str(second.id)):
            await app.dead_letters.replay("emails", ids=[second.id])
        many = [uuid4() for _ in range(1_200)]
        with pytest.raises(NotFound, match="and 1195 more in queue"):
            await app.dead_letters.discard("emails", ids=[*many, first.id])


async def test_a_queue_object_in_place_of_its_name_is_refused_with_advice(app: Tickwork) -> None:
    emails: Any = app.queue("emails")
    async with harness(app):
        calls: list[Any] = [
            app.queues.get, app.queues.stats, app.queues.pause, app.queues.resume,
            app.queues.purge, app.queues.update, app.messages.peek, app.dead_letters.list,
            app.dead_letters.groups, app.dead_letters.replay, app.dead_letters.discard,
        ]  # fmt: skip
        for call in calls:
            with pytest.raises(InvalidInput, match=r"queue: must be the name .* give 'emails'"):
                await call(emails)
        with pytest.raises(InvalidInput, match="give 'emails'"):
            await app.messages.get(uuid4(), queue=emails)


async def test_times_and_ids_may_be_texts_and_others_are_refused(app: Tickwork) -> None:
    app.queue("emails")
    async with harness(app) as h:
        await app.schedules.create(cron_expr="0 12 * * *", target=EMAILS, name="noon")
        noon = h.now.replace(hour=12).isoformat()
        assert (await app.schedules.why("noon", noon)).code == "to_come"
        assert len(await app.schedules.upcoming(since=noon, limit=2)) == 2
        assert await app.dead_letters.list("emails", failed_before=noon) == ()
        wrong: Any = "noon"
        calls: dict[str, Any] = {
            "since": lambda: app.schedules.upcoming(since=wrong),
            "until": lambda: app.schedules.backfill("noon", since=noon, until=wrong),
            "at": lambda: app.schedules.why("noon", wrong),
            "failed_before": lambda: app.dead_letters.list("emails", failed_before=wrong),
            "after": lambda: app.schedules.list(after=wrong),
            "ids": lambda: app.dead_letters.replay("emails", ids=wrong),
        }
        for field, call in calls.items():
            with pytest.raises(InvalidInput) as refused:
                await call()
            assert [error.field for error in refused.value.errors] == [field]
        naive = datetime(2026, 1, 5)  # noqa: DTZ001 (this is the error)
        with pytest.raises(InvalidInput, match="at: must have a time zone offset"):
            await app.schedules.why("noon", naive)


async def test_an_id_is_taken_in_each_of_its_spellings(app: Tickwork, database: str | None) -> None:
    app.queue("emails")

    @app.on("emails")
    async def handle(message: Message) -> None:
        message.send("later", {"then": True})
        raise Permanent("no such address")

    app.queue("later")
    async with harness(app, database=database) as h:
        sent = await app.queue("emails").send({"to": "ada"})
        held = await app.queue("later").send({}, correlation_id=sent)
        await h.drain()
        (letter,) = await app.dead_letters.list("emails")
        assert letter.body == {"to": "ada"}
        for spelling in (letter.id, str(letter.id), letter.id.hex, str(UUID(letter.id.hex))):
            assert (await app.dead_letters.get(spelling)).id == letter.id
        for spelling in (sent, str(letter.message_id), str(UUID(letter.message_id.hex))):
            (found,) = await app.messages.list("later", correlation_id=spelling)
            assert str(found.id) == held
            assert (await app.trace(spelling)).records == 2
        # What 0.1 sent names its cause without a prefix.
        await app.queue("later").send({}, correlation_id=str(UUID(letter.message_id.hex)))
        assert (await app.trace(sent)).records == 3
