"""An id looks the same wherever a user sees it: with the prefix of its kind, never as a bare UUID.

One of everything is made, by a real app with a worker and a real receiver. Then everything that a
user sees is collected: what handlers and receivers get, the stream, the audit log, answers over
HTTP, commands, and log lines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from msgspec import Struct, structs

from tests.channel.receiver import Receiver, allow_local_deliveries, receiver
from tests.cli.kit import Desk
from tests.kit.api import bearer, in_process, new_key, outside_of
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import Message, Permanent, Step, Tickwork, log_context
from tickwork.api import create_api
from tickwork.clock import now
from tickwork.core import when
from tickwork.core.schedule.model import FIRED_TYPE
from tickwork.facade.app import engine_of
from tickwork.store.ids import new_id
from tickwork.wiring import Settings, open_store

UUID_TEXT = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)

BARE = re.compile(r"(?<![0-9a-zA-Z_])[0-9a-f]{32}(?![0-9a-f])")
"""An id without hyphens and without a prefix."""


STABLE = {"webhook-id", "idempotency-key", "idempotency_key", "event_id"}
"""What receivers recognise a repeat by. It is the same text before and after an upgrade, so it is
no place for a new spelling."""

WITHOUT_PREFIX = {"queue_id", "claimed_by", "next_cursor"}
"""Fields with ids of kinds that have no prefix: queues and processes; and cursors."""


REPR_WITHOUT_PREFIX = re.compile(
    r"(AuditRecord\(id|queue_id|claimed_by|event_id|idempotency_key)=[^,)]+"
)


class Seen:
    """What a user has seen, by where."""

    def __init__(self) -> None:
        self.texts: dict[str, list[str]] = {}

    def add(self, where: str, value: object) -> None:
        text = value if isinstance(value, str) else json.dumps(plain(value))
        self.texts.setdefault(where, []).append(text)

    def faults(self, allowed: set[str]) -> list[str]:
        """The bare ids, each with where it was seen."""
        return [
            f"{where}: {text[max(found.start() - 60, 0) : found.end()]}"
            for where, texts in self.texts.items()
            for text in texts
            for pattern in (UUID_TEXT, BARE)
            for found in pattern.finditer(text)
            if found[0] not in allowed
        ]


def plain(value: Any) -> Any:
    """A value as JSON has it, with ids as they are written, and without what may be bare."""
    if isinstance(value, Struct):
        return plain(structs.asdict(value))
    if isinstance(value, dict):
        fields = {
            name: plain(field)
            for name, field in value.items()
            if str(name).lower() not in STABLE | WITHOUT_PREFIX
        }
        # A record of the audit log has an id that names nothing.
        return {name: fields[name] for name in fields if name != "id" or "actor" not in fields}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


@pytest.fixture
def seen() -> Seen:
    return Seen()


@pytest.fixture
async def hook(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Receiver]:
    allow_local_deliveries(monkeypatch)
    async with receiver() as server:
        yield server


def declared(app: Tickwork, seen: Seen) -> None:
    """Handlers that show all they get."""
    app.queue("work")
    app.queue("told")
    app.queue("pushed", push_to="shop")

    async def handle(message: Message[Any]) -> None:
        shown = [
            message.id, message.correlation_id, message.causation_id, message.source,
            message.body, message.metadata, log_context(), repr(message),
        ]  # fmt: skip
        seen.add(f"handler of {message.type}", shown)
        if message.body == {"dies": True}:
            message.send("work", {"caused": True})
            raise Permanent("it cannot work")
        if message.body == {"first": True}:
            message.send("work", {"second": True})

    app.on("work")(handle)
    app.on("told")(handle)

    @app.workflow(name="shipping", version="1")
    async def ship(step: Step, params: Any) -> None:
        seen.add("workflow", [step.run_id, repr(params)])


async def make_one_of_each(app: Tickwork, seen: Seen, hook: Receiver) -> dict[str, str]:
    """Returns the ids that were made, by kind."""
    for types in ("message.dead", "schedule.*", "endpoint.*", "batch.completed"):
        await app.subscriptions.create(types, "told")
    sent = await app.queue("work").send({"first": True})
    dies = await app.queue("work").send({"dies": True})
    seen.add("send", [sent, dies])
    batch = await app.batch("work", [{"n": 1}])
    seen.add("batch", batch.id)
    await app.events.publish("order.paid", {"total": 5})
    await app.queue("pushed").send({"total": 6})
    at = datetime.now(UTC) + timedelta(seconds=1)
    made = await app.schedules.create(
        name="once", once_at=at.isoformat(), target_url=f"{hook.url}/slot", payload={}
    )
    await app.schedules.create(
        name="queued", once_at=at.isoformat(), target={"type": "queue", "queue": "work"}, payload={}
    )
    await app.schedules.create(
        name="to-endpoint",
        once_at=at.isoformat(),
        target={"type": "webhook", "endpoint": "shop"},
        payload={},
    )
    run = await app.workflows.start("shipping", {})
    seen.add("start", run.id)
    await app.schedules.pause("once")
    await app.schedules.resume("once")
    return {"message": dies, "batch": batch.id, "schedule": f"sch_{made.id.hex}", "run": run.id}


@pytest.mark.one_store("sqlite")
async def test_no_bare_uuid_is_shown_to_a_user(
    home: Home, tmp_path: Path, hook: Receiver, seen: Seen, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tickwork")
    app = Tickwork(home.url)
    declared(app, seen)
    since = str(new_id())
    endpoint = await app.endpoints.create("shop", url=f"{hook.url}/shop", types=["order.*"])
    seen.add("endpoint", [endpoint, repr(endpoint)])
    async with app.running(drain_seconds=1.0):
        ids = await make_one_of_each(app, seen, hook)
        token = await new_key(await engine_of(app).open())
        await eventually(lambda: len(hook.requests) >= 4)
        told = {f"handler of {kind}" for kind in ("message.dead", "batch.completed", FIRED_TYPE)}
        await eventually(lambda: told <= {*seen.texts})
        processes = {str(node.id) for node in await app.nodes.list()}
        await read_in_python(app, ids, seen)
        await read_over_http(Settings(database=home.url), token, ids, seen, since)
    assert {request.path for request, _ in hook.requests} == {"/shop", "/slot"}
    for request, body in hook.requests:
        seen.add(f"webhook {request.path}", [{**request.headers}, msgspec.json.decode(body)])
    for record in caplog.records:
        if record.name.startswith("tickwork"):
            seen.add("log", re.sub(r"event_id=\S+", "", record.getMessage()))
    await asyncio.to_thread(read_by_commands, Desk(tmp_path, home.url), ids, seen)
    await app.close()
    faults = seen.faults(processes)
    assert not faults, "\n".join(faults)


async def read_in_python(app: Tickwork, ids: dict[str, str], seen: Seen) -> None:
    """Whatever the nouns of an app return."""
    letters = await app.dead_letters.list("work")
    assert len(letters) == 1
    assert str(letters[0].message_id) == ids["message"]
    later = datetime.now(UTC) + timedelta(days=1)
    held = await app.queue("told").send({}, delay_seconds=600)
    await app.schedules.create(
        name="later", once_at=later.isoformat(), target={"type": "queue", "queue": "told"}
    )
    deliveries = await app.deliveries.list()
    assert len(deliveries) == 2
    for shown in (
        letters, await app.dead_letters.get(letters[0].id), await app.messages.get(held),
        await app.messages.list("told"), await app.messages.peek("told"),
        await app.batches.get(ids["batch"]), await app.batches.list(),
        await app.batches.items(ids["batch"], "completed"), await app.endpoints.list(),
        await app.endpoints.get("shop"), deliveries,
        await app.deliveries.get(deliveries[0].id), await app.schedules.list(),
        await app.schedules.get("once"), await app.schedules.firings("once"),
        await app.schedules.upcoming(), await app.schedules.why("once"),
        await app.why(ids["message"]), await app.trace(ids["message"]), await app.audit.list(),
        await app.workflows.get(ids["run"]).status(), await app.status(),
        await app.dead_letters.replay("work"),
    ):  # fmt: skip
        seen.add(f"Python: {type(shown).__name__} {str(shown)[:40]}", shown)
        seen.add("repr", REPR_WITHOUT_PREFIX.sub("", repr(shown)))


async def read_over_http(
    settings: Settings, token: str, ids: dict[str, str], seen: Seen, since: str
) -> None:
    api = create_api(
        now=now,
        limits=when.Limits(),
        open_store=lambda: open_store(settings),
        outside=outside_of(settings.database),
    )
    async with in_process(api, **bearer(token)) as http:
        stream = await http.get("/v1/stream", headers={"Last-Event-ID": since})
        assert "event: message.dead" in stream.text
        assert "event: schedule.pause" in stream.text
        seen.add("stream", re.sub(r"(?m)^id: .*$", "", stream.text))  # A cursor.
        for path, body in (
            ("/v1/queues/work/messages", {"body": {}}),
            ("/v1/events", {"type": "order.sent", "data": {}}),
            (f"/v1/schedules/{ids['schedule']}/trigger", {}),
            ("/v1/batches", {"queue": "work", "items": [{"body": {}}]}),
        ):
            made = await http.post(path, json=body)
            assert made.is_success, (path, made.text)
            seen.add(f"POST {path}", made.text)
        for path in paths_of(ids):
            answer = await http.get(path)
            assert answer.status_code == 200, (path, answer.text)
            seen.add(f"GET {path}", answer.json())
            for item in items_of(answer):
                for more in more_of(path, item):
                    found = await http.get(more)
                    assert found.status_code == 200, (more, found.text)
                    seen.add(f"GET {more}", found.json())


def paths_of(ids: dict[str, str]) -> list[str]:
    return [
        "/v1/schedules", f"/v1/schedules/{ids['schedule']}",
        f"/v1/schedules/{ids['schedule']}/firings",
        "/v1/upcoming", "/v1/queues", "/v1/queues/work/messages", "/v1/queues/work/dead",
        "/v1/queues/work/dead/groups", "/v1/batches", f"/v1/batches/{ids['batch']}/items",
        "/v1/endpoints", "/v1/deliveries", "/v1/workflows/shipping/runs", "/v1/audit", "/v1/stats",
        f"/v1/trace/{ids['message']}", "/v1/topology",
    ]  # fmt: skip


def items_of(answer: httpx.Response) -> list[dict[str, Any]]:
    shown = answer.json()
    found: list[dict[str, Any]] = shown.get("items", []) if isinstance(shown, dict) else []
    return found


def more_of(path: str, item: dict[str, Any]) -> list[str]:
    """What is read of each item of a list."""
    if path == "/v1/queues/work/dead":
        return [f"/v1/dead/{item['id']}", f"/v1/trace/{item['message_id']}"]
    if path == "/v1/deliveries":
        return [f"/v1/deliveries/{item['id']}", f"/v1/deliveries/{item['id']}/attempts"]
    if path == "/v1/endpoints":
        return [f"/v1/endpoints/{item['id']}"]
    return []


def read_by_commands(desk: Desk, ids: dict[str, str], seen: Seen) -> None:
    for words in (
        ["schedules", "list"], ["schedules", "show", "once"], ["schedules", "firings", "once"],
        ["why", "once"], ["dead", "list", "work"], ["dead", "groups", "work"], ["batches", "list"],
        ["endpoints", "list"], ["deliveries", "list"], ["audit"], ["trace", ids["message"]],
        ["workflows", "list"], ["late", "--seconds", "0"],
    ):  # fmt: skip
        for more in ([], ["--json"]):
            result = desk.run(*words, *more)
            assert result.exit_code == 0, (words, result.output)
            shown = json.loads(result.output) if more else result.output
            seen.add(f"tickwork {' '.join([*words, *more])}", shown)
