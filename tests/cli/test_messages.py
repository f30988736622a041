"""`tickwork messages show`, `queues peek`, `nodes` and `late`: where things are now."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

import pytest

from tests.cli.kit import Desk
from tests.kit.contexts import acting
from tickwork.core.model import (
    DEFAULT,
    SYSTEM,
    ClaimRequest,
    Ending,
    Fate,
    NewMessage,
    QueueSettings,
    Settlement,
)
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
        for new_message in messages:
            await store.messages.send(DEFAULT, "emails", new_message)

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
    assert [shown_message["state"] for shown_message in desk.json("queues", "peek", "emails")] == [
        "ready"
    ]


def test_claimed_messages_are_listed_with_who_has_them_and_filters_apply(desk: Desk) -> None:
    send(desk, message(correlation_id="c"), message(type="welcome"))
    claim(desk)
    heading, row = desk.answer("messages", "list", "emails", "--state", "claimed").splitlines()
    assert heading.split()[-3:] == ["claimed_at", "node", "body"]
    assert "host-a:4711" in row
    for filters, number in ((["--correlation-id", "c"], 1), (["--older-than", "3600"], 0), ([], 2)):
        assert len(desk.json("messages", "list", "emails", *filters)) == number


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
        await create(acting(store, DEFAULT, limits=Limits()), fields)

    desk.store(overdue)
    assert desk.json("late")["schedules"] == []  # A time in the past is due when it is created.
    found = desk.json("late", "--seconds", "0")
    assert [schedule["name"] for schedule in found["schedules"]] == ["report"]
    assert [(queue["queue"], queue["messages"]) for queue in found["queues"]] == [("emails", 2)]
    lines = desk.answer("late", "--seconds", "0").splitlines()
    assert lines[0].split() == ["schedule", "name", "due_at", "timezone", "late"]
    assert lines[3].split() == ["queue", "ready", "oldest", "late", "paused"]
    refused = desk.run("late", "--seconds", "-1")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("tickwork: --seconds: must be from 0 to ")


def test_the_number_of_shards_is_changed_and_a_bad_one_refused(desk: Desk) -> None:
    desk.answer("migrate")
    assert desk.answer("cluster", "reshard", "8") == "8 shards, 64 before; no scheduler runs\n"
    assert desk.json("cluster", "reshard", "64") == {
        "before": 8,
        "shards": 64,
        "led": 0,
        "schedulers": 0,
    }
    assert [entry["action"] for entry in desk.json("audit")] == ["cluster.reshard"] * 2
    for bad, said in (("48", "N: must be a power of two"), ("x", "N: must be a whole number")):
        result = desk.run("cluster", "reshard", bad)
        assert (result.exit_code, result.stdout) == (2, "")
        assert said in result.stderr


def test_everything_is_paused_and_resumed(desk: Desk) -> None:
    desk.answer("migrate")
    assert desk.answer("cluster", "pause").startswith("everything is paused since 20")
    said = {finding["check"]: finding["says"] for finding in desk.json("doctor")}
    assert "everything is paused" in said["processes"]
    assert desk.answer("cluster", "resume") == "resumed\n"
    assert len(desk.json("audit")) == 2


def test_fire_windows_are_widened_and_narrowed(desk: Desk) -> None:
    desk.answer("migrate")
    assert desk.answer("cluster", "widen", "600") == "fire windows: at least 600 s\n"
    assert "fire windows: at least 600 s\n" in desk.answer("cluster", "show")
    said = {finding["check"]: finding["says"] for finding in desk.json("doctor")}
    assert said["fire windows"] == "they are widened: slots come up to 600 s late"
    assert desk.json("cluster", "narrow")["widened_seconds"] == 0
    assert "fire windows: those of the schedules\n" in desk.answer("cluster", "show")
    assert [entry["action"] for entry in desk.json("audit")] == ["cluster.widen"] * 2
    for bad in ("-1", "x", "86401"):
        result = desk.run("cluster", "widen", "--", bad)
        assert (result.exit_code, result.stdout) == (2, "")


def test_doctor_says_which_roles_no_process_has(desk: Desk) -> None:
    desk.answer("migrate")

    def said() -> dict[str, tuple[str, str]]:
        return {
            finding["check"]: (finding["level"], finding["says"]) for finding in desk.json("doctor")
        }

    assert said()["processes"] == ("ok", "no process runs on this database now")
    assert said()["API keys"][1].startswith("there is none")

    async def join(store: Store) -> None:
        await store.nodes.join(SYSTEM, NODE, name="host-a:4711", roles=["worker"], ttl_seconds=60)

    desk.store(join)
    desk.answer("keys", "create", "shop", "--scope", "read")
    missing = "no process has the role scheduler: schedules do not fire"
    assert said()["processes"] == ("warning", missing)
    assert said()["API keys"][1].startswith("1 can be used")


def test_why_and_trace_answer_for_a_message(desk: Desk) -> None:
    waiting = message(correlation_id="story", delay_seconds=3_600)
    send(desk, waiting)
    why = desk.answer("why", str(waiting.id)).splitlines()
    assert why[0] == "The message in queue emails is delayed."
    names = ["since", "until", "next", "No consumer has pulled from queue emails yet.", "trace"]
    assert [line.partition(":")[0] for line in why[1:]] == names
    assert desk.json("why", str(waiting.id)[-8:])["code"] == "delayed"
    lines = desk.answer("trace", "story").splitlines()
    assert lines[0] == "correlation story"
    assert lines[1].startswith(f"  message msg_{waiting.id.hex} emails ready ")
    assert desk.json("trace", str(waiting.id))["correlation_id"] == "story"
    found = desk.answer("find", str(waiting.id)).splitlines()
    assert found[0].startswith(f"message msg_{waiting.id.hex}: ")
    assert desk.answer("find", "nowhere").startswith("Nothing has this id")
    refused = desk.run("trace", "other")
    assert "nothing with this correlation id is left" in refused.stderr


def test_a_message_that_has_ended_tells_what_became_of_it(desk: Desk) -> None:
    sent = message(event_id="order-17", type="order.placed")
    send(desk, sent)
    claim(desk)

    async def ack(store: Store) -> None:
        found = await store.messages.get(DEFAULT, "emails", sent.id)
        ending = Ending(claim=found.current_claim, fate=Fate.ACK, took_seconds=1.5)
        await store.messages.settle(DEFAULT, Settlement((ending,)))

    desk.store(ack)
    assert "it was handled at " in first_line(desk, sent)
    assert " by host-a:4711 (1 attempt, 1.5 s)." in first_line(desk, sent)
    assert "it was handled at " in desk.answer("why", str(sent.id))
    assert "outcome           done" in desk.answer("history", "show", str(sent.id))
    for options in ([], ["--event-id", "order-17"], ["--type", "order.placed"]):
        assert "order.placed" in desk.answer("history", "list", *options)
    assert "there are no such records" in desk.answer("history", "list", "--outcome", "dead")
    assert "order-17 was handled in" in desk.answer("history", "handled", "order-17")
    assert "was not handled" in desk.answer("history", "handled", "order-18")
    assert "keep: all, for 24 hours" in desk.answer("history", "default")
    answer = desk.answer("history", "default", "--history", "off")
    assert "keep: off, for 24 hours" in answer


def test_performance_shows_how_messages_of_each_type_fared(desk: Desk) -> None:
    sent = message(type="order.placed")
    send(desk, sent)
    assert "no message ended in this time" in desk.answer("performance")
    claim(desk)

    async def ack(store: Store) -> None:
        found = await store.messages.get(DEFAULT, "emails", sent.id)
        ending = Ending(claim=found.current_claim, fate=Fate.ACK, took_seconds=1.5)
        await store.messages.settle(DEFAULT, Settlement((ending,)))

    desk.store(ack)
    whole = desk.answer("performance").splitlines()
    assert len(whole) == 2
    assert "order.placed" in whole[1]
    assert "1.5" in whole[1]
    assert len(desk.answer("performance", "--by", "day").splitlines()) == 5
    (row,) = desk.json("performance", "--queue", "emails", "--type", "order.placed")["totals"]
    assert (row["messages"], row["done"]) == (1, 1)
    refused = desk.run("performance", "--by", "week")
    assert refused.exit_code == 2
    assert refused.stderr.startswith("tickwork: --by: must be one of minute, hour, day")


def test_usage_shows_what_a_tenant_used_as_a_table_json_and_csv(desk: Desk) -> None:
    sent = message()
    send(desk, sent)
    assert "nothing was used in this time" in desk.answer("usage", "--by", "day")
    claim(desk)

    async def ack(store: Store) -> None:
        found = await store.messages.get(DEFAULT, "emails", sent.id)
        ending = Ending(claim=found.current_claim, fate=Fate.ACK, took_seconds=1.5)
        await store.messages.settle(DEFAULT, Settlement((ending,)))

    desk.store(ack)
    heading, row = desk.answer("usage", "--by", "hour").splitlines()
    assert heading.split()[:3] == ["period", "tenant", "handled"]
    assert "default" in row
    heading, row = desk.answer("usage", "--csv", "--all-tenants").splitlines()
    cells = dict(zip(heading.split(","), row.split(","), strict=True))
    assert (cells["tenant"], cells["handled"], cells["handler_seconds"]) == ("default", "1", "1.5")
    assert cells["period"].endswith("T00:00:00+00:00")
    (total,) = desk.json("usage", "--by", "day")["used"]["totals"]
    assert total["handled"] == 1
    assert desk.json("usage")["used"] is None
