"""`tickwork messages show`, `queues peek`, `nodes` and `late`: where things are now."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.cli.kit import Desk
from tickwork.core.model import DEFAULT, SYSTEM, ClaimRequest, NewMessage, QueueSettings
from tickwork.core.when import Limits
from tickwork.ops.cluster import list_nodes
from tickwork.ops.schedules.create import create
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

NODE = UUID("0199a7c2-0000-7000-8000-000000000001")


def message(body: bytes = b'{"to":"ada"}', **fields: object) -> NewMessage:
    return NewMessage(id=new_id(), body=body, **fields)  # type: ignore[arg-type]


def send(desk: Desk, *messages: NewMessage) -> None:
    async def work(store: Store) -> None:
        await store.queues.put(DEFAULT, "emails", QueueSettings())
        for each in messages:
            await store.messages.send(DEFAULT, "emails", each)

    desk.store(work)


def claim(desk: Desk) -> None:
    """Claims one message by a node of its own."""

    async def work(store: Store) -> None:
        await store.nodes.join(SYSTEM, NODE, name="host-a:4711", roles=["worker"], ttl_seconds=60)
        assert await store.messages.claim(
            DEFAULT, ClaimRequest(queue="emails", holder=NODE, limit=1)
        )

    desk.store(work)


def first_line(desk: Desk, sent: NewMessage) -> str:
    return desk.answer("messages", "show", str(sent.id)).splitlines()[0]


def test_a_message_tells_where_it_is_and_what_it_waits_for(desk: Desk) -> None:
    first, second = message(key="a"), message(key="a")
    late = message(delay_seconds=3_600.0)
    send(desk, first, second, late)
    assert first_line(desk, first).startswith("in queue emails, ready since ")
    assert first_line(desk, second) == (
        "in queue emails, blocked: it waits for an earlier message of its key 'a'"
    )
    assert first_line(desk, late).startswith("in queue emails, delayed until ")
    claim(desk)
    claimed = first_line(desk, first)
    assert claimed.startswith("in queue emails, claimed since 20")
    assert claimed.endswith(f" by host-a, process 4711 (node {NODE})")
    assert desk.json("messages", "show", str(first.id))["message"]["claimed_at"] is not None


def test_a_message_is_shown_as_json_with_its_node(desk: Desk) -> None:
    sent = message(delay_seconds=60.0)
    send(desk, sent)
    shown = desk.json("messages", "show", str(sent.id))
    assert (shown["message"]["state"], shown["message"]["body"]) == ("delayed", {"to": "ada"})
    assert shown["node"] is None


def test_a_message_that_is_gone_says_where_to_look(desk: Desk) -> None:
    send(desk)
    gone = desk.run("messages", "show", str(new_id()))
    assert gone.exit_code == 1
    assert "it was handled, deleted or died; `tickwork dead list QUEUE`" in gone.stderr


def test_the_next_messages_of_a_queue_are_shown_and_stay(desk: Desk) -> None:
    send(desk, message(type="welcome"), message(delay_seconds=60.0))
    heading, row = desk.answer("queues", "peek", "emails").splitlines()
    assert heading.split() == [
        *("message", "visible_at", "type", "key", "priority", "attempts", "body")
    ]
    assert row.endswith('welcome              4         0  {"to":"ada"}')
    assert [each["state"] for each in desk.json("queues", "peek", "emails")] == ["ready"]


def test_nodes_are_listed_with_what_they_hold(desk: Desk) -> None:
    desk.answer("migrate")
    assert desk.answer("nodes") == "no process runs on this database\n"
    send(desk, message(), message())
    claim(desk)
    heading, row = desk.answer("nodes").splitlines()
    assert heading.split() == [
        *("node", "host", "pid", "roles", "started_at", "lease", "messages", "shards")
    ]
    assert row.split()[1:4] == ["host-a", "4711", "worker"]
    assert row.split()[-3:] == ["valid", "1", "0"]
    (node,) = desk.store(list_nodes)
    assert (node.host, node.pid, node.claims) == ("host-a", 4711, 1)


@pytest.mark.parametrize("name", ["harness", "host:", ":::x"])
def test_a_node_with_another_name_is_listed_by_it(desk: Desk, name: str) -> None:
    async def work(store: Store) -> None:
        await store.nodes.join(SYSTEM, NODE, name=name, roles=["worker"], ttl_seconds=60)

    desk.store(work)
    (node,) = desk.json("nodes")
    assert (node["host"], node["pid"]) == (name, None)


def test_what_is_overdue_is_listed(desk: Desk) -> None:
    desk.answer("migrate")
    assert desk.answer("late") == "nothing is late\n"
    send(desk, message(), message())

    async def overdue(store: Store) -> None:
        at = await store.now() - timedelta(hours=1)
        fields = {"once_at": at.isoformat(), "name": "report", "target": {"queue": "emails"}}
        await create(store, DEFAULT, fields, limits=Limits())

    desk.store(overdue)
    assert desk.json("late")["schedules"] == []  # A time in the past is due when it is created.
    found = desk.json("late", "--seconds", "0")
    assert [each["name"] for each in found["schedules"]] == ["report"]
    assert [(each["queue"], each["messages"]) for each in found["queues"]] == [("emails", 2)]
    lines = desk.answer("late", "--seconds", "0").splitlines()
    assert lines[0].split() == ["schedule", "name", "due_at", "timezone", "late"]
    assert lines[3].split() == ["queue", "ready", "oldest", "late", "paused"]
    refused = desk.run("late", "--seconds", "-1")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("tickwork: --seconds: must be from 0 to ")
