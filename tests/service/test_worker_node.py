"""A node keeps its lease, and takes a new identity if it is lost, whatever the database does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.kit.postgres_proxy import PostgresProxy
from tests.kit.waiting import eventually, eventually_blocking
from tests.stores.home import Home
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, QueueSettings, Scope
from tickwork.errors import NodeExpired, StoreBroken, StoreError, StoreUnavailable
from tickwork.service import node as nodes
from tickwork.service.node import HeartbeatEnded, Node
from tickwork.service.observe import Observer
from tickwork.store.contract import Store
from tickwork.store.postgres import PostgresStore

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Server:
    """Answers as told, in turn, and then as if all were well."""

    def __init__(self) -> None:
        self.joined: list[UUID] = []
        self.beats: list[UUID] = []
        self.left: list[UUID] = []
        self.events: list[dict[str, Any]] = []
        self.on_notify: list[StoreError] = []
        self.on_join: list[StoreError] = []
        self.on_beat: list[Callable[[UUID], Exception]] = []
        self.is_closed = False

    async def open(self) -> Store:
        store: Any = SimpleNamespace(nodes=self, messages=self, now=self.now, close=self.close)
        return cast(Store, store)

    async def close(self) -> None:
        self.is_closed = True

    async def now(self) -> datetime:
        return NOON

    async def notify(self, scope: Scope, event: NewMessage) -> int:
        if self.on_notify:
            raise self.on_notify.pop(0)
        self.events.append({"tenant": scope.tenant, **json.loads(event.body)})
        return 0

    async def join(self, _: object, node_id: UUID, **__: object) -> None:
        if self.on_join:
            raise self.on_join.pop(0)
        self.joined.append(node_id)

    async def heartbeat(self, _: object, node_id: UUID, *__: object) -> None:
        if self.on_beat:
            raise self.on_beat.pop(0)(node_id)
        if node_id not in self.joined:
            raise NodeExpired(node_id)
        self.beats.append(node_id)

    async def leave(self, _: object, node_id: UUID) -> int:
        self.left.append(node_id)
        return 0


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """One that is tried again soon."""
    monkeypatch.setattr(nodes, "_RETRY_SECONDS", 0.01)
    return Server()


class OwnTime:
    """The monotonic clock of a node: it stands still until the test lets seconds pass."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def own_time(monkeypatch: pytest.MonkeyPatch) -> OwnTime:
    """The clock by which nodes know how long their lease is good."""
    made = OwnTime()
    monkeypatch.setattr(nodes, "monotonic", made)
    monkeypatch.setattr(nodes, "_RETRY_SECONDS", 0.01)
    return made


class Errors(Observer):
    """Records the errors that a node reports, or raises them."""

    def __init__(self, *, raises: bool = False) -> None:
        self.seen: list[str] = []
        self._raises = raises

    def error_occurred(self, activity: str, error: Exception) -> None:
        if self._raises:
            raise error
        self.seen.append(f"{activity}: {error}")


def make(server: Server, observer: Observer | None = None) -> Node:
    return Node(server.open, name="node", roles=["worker"], observer=observer, ttl_seconds=0.05)


async def test_a_node_joins_beats_and_leaves(server: Server) -> None:
    node = make(server)
    first = node.id
    await node.start()
    await eventually(lambda: len(server.beats) > 2)
    await node.stop()
    assert (server.joined, server.left, {*server.beats}) == ([first], [first], {first})
    assert server.is_closed


async def test_a_node_that_cannot_join_says_why(server: Server) -> None:
    server.on_join = [StoreBroken("no schema")]
    node = make(server)
    with pytest.raises(StoreBroken, match="no schema"):
        await node.start()
    await node.stop()
    assert server.is_closed


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreBroken("odd")])
async def test_a_node_outlives_a_database_that_does_not_answer(
    server: Server, error: StoreError
) -> None:
    server.on_beat = [lambda _: error] * 3
    node = make(server)
    await node.start()
    await eventually(lambda: len(server.beats) > 0)
    await node.stop()
    assert len(server.joined) == 1


async def test_a_lost_lease_means_a_new_identity_and_everybody_is_told(server: Server) -> None:
    server.on_beat = [NodeExpired]
    node, lost = make(server), list[UUID]()
    node.on_lease_lost(lost.append)
    first = node.id
    await node.start()
    await eventually(lambda: len(server.beats) > 0)
    await node.stop()
    assert lost == [first]
    assert server.joined == [first, node.id]
    assert {*server.beats} == {node.id} != {first}


async def test_a_new_identity_is_tried_for_until_it_is_there(server: Server) -> None:
    node, lost = make(server), list[UUID]()
    node.on_lease_lost(lost.append)
    first = node.id
    await node.start()
    server.on_join = [StoreUnavailable("away"), StoreBroken("odd"), StoreUnavailable("away")]
    server.on_beat = [NodeExpired]
    await eventually(lambda: len(server.joined) == 2)
    await eventually(lambda: node.id in server.beats)
    await node.stop()
    assert lost[0] == first
    assert first not in server.left


async def test_a_node_outlives_what_nobody_thought_of_and_tells_it(server: Server) -> None:
    server.on_beat = [lambda _: RuntimeError("odd")] * 2
    errors, lost = Errors(), list[UUID]()
    node = make(server, errors)
    node.on_lease_lost(lost.append)
    first = node.id
    await node.start()
    await eventually(lambda: node.id != first and node.id in server.beats)
    await node.stop()
    assert errors.seen[0] == "heartbeat: odd"
    assert (lost[0], server.left) == (first, [node.id])


async def test_a_node_that_cannot_start_says_so_whatever_it_is() -> None:
    async def open_nothing() -> Store:
        raise RuntimeError("odd")

    node = Node(open_nothing, name="node", roles=["worker"])
    with pytest.raises(RuntimeError, match="odd"):
        await node.start()
    await node.stop()


async def test_who_works_for_a_node_whose_heart_stops_is_ended(server: Server) -> None:
    node = make(server, Errors(raises=True))
    await node.start()
    with pytest.raises(HeartbeatEnded, match="odd"):
        async with node.guarded():
            server.on_beat = [lambda _: RuntimeError("odd")]
            await asyncio.Event().wait()
    with pytest.raises(HeartbeatEnded, match="odd"):
        async with node.guarded():  # Also who comes too late.
            raise AssertionError
    await node.stop()
    assert server.is_closed


async def test_who_is_cancelled_by_somebody_else_is_only_that(server: Server) -> None:
    node = make(server)
    await node.start()

    async def work() -> None:
        async with node.guarded():
            await asyncio.Event().wait()

    working = asyncio.create_task(work())
    await asyncio.wait([working], timeout=0.05)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await node.stop()


async def test_the_heart_goes_on_while_the_loop_is_blocked(server: Server) -> None:
    node = make(server)
    await node.start()
    before = len(server.beats)
    block(lambda: len(server.beats) > before + 2)
    await node.stop()


def block(condition: Callable[[], bool]) -> None:
    """Keeps the event loop from running until something is so."""
    assert asyncio.get_running_loop().is_running()
    eventually_blocking(condition)


async def test_a_role_that_was_dropped_does_not_come_back_with_a_new_identity(
    home: Home, store: Store
) -> None:
    node = Node(home.open, name="draining", roles=["scheduler", "worker"], ttl_seconds=1.0)
    await node.start()
    first = node.id
    node.drop_role("scheduler")
    await store.shards.give_up(SYSTEM, first)
    await store.nodes.leave(SYSTEM, first)  # As if its lease had run out.

    async def roles() -> list[tuple[str, ...]]:
        return [member.roles for member in await store.nodes.list(SYSTEM) if member.id != first]

    found = await eventually(roles)
    await node.stop()
    assert found == [("worker",)]


class Renewals(Errors):
    """Records what a node reports about its lease."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []
        self.left_seconds: list[float] = []

    def renewal_failed(self, why: str, left_seconds: float) -> None:
        self.told.append(f"failed: {why}")
        self.left_seconds.append(left_seconds)

    def renewal_failing(self, why: str, left_seconds: float) -> None:
        self.told.append(f"failing: {why}")
        self.left_seconds.append(left_seconds)

    def renewal_recovered(self, failed_seconds: float) -> None:
        assert failed_seconds >= 0
        self.told.append("recovered")

    def lease_lost(self, node_id: UUID) -> None:
        self.told.append(f"lost: {node_id}")


@pytest.mark.parametrize("error", [StoreUnavailable("away"), StoreBroken("odd"), RuntimeError("?")])
async def test_the_first_failed_heartbeat_is_told_and_its_end(
    server: Server, error: Exception
) -> None:
    server.on_beat = [lambda _: error] * 2
    renewals = Renewals()
    node = Node(server.open, name="node", roles=["worker"], observer=renewals, ttl_seconds=3.0)
    await node.start()
    await eventually(lambda: len(server.beats) > 0)
    await node.stop()
    assert renewals.told == [f"failed: {error}", "recovered"]
    assert 1.0 < renewals.left_seconds[0] <= 3.0


async def test_a_lease_that_cannot_be_renewed_is_told_while_there_is_time(
    server: Server, own_time: OwnTime
) -> None:
    server.on_beat = [lambda _: StoreUnavailable("away")] * 10_000
    renewals = Renewals()
    node = Node(server.open, name="node", roles=["worker"], observer=renewals, ttl_seconds=0.3)
    first = node.id
    await node.start()
    await eventually(lambda: renewals.told == ["failed: away"])
    own_time.seconds = 0.25
    await eventually(lambda: len(renewals.told) > 1)
    assert renewals.told == ["failed: away", "failing: away"]
    assert 0.0 < renewals.left_seconds[1] <= 0.1
    server.on_beat, server.joined = [NodeExpired], []
    await eventually(lambda: node.id in server.beats)
    await node.stop()
    assert renewals.told[2:] == [f"lost: {first}", "recovered"]


@pytest.mark.parametrize("is_lost", [False, True])
async def test_failing_renewals_are_published_once_when_the_database_answers_again(
    server: Server, own_time: OwnTime, *, is_lost: bool
) -> None:
    server.on_beat = [lambda _: StoreUnavailable("away")] * 10_000
    renewals = Renewals()
    node = Node(server.open, name="host-a:1", roles=["worker"], observer=renewals, ttl_seconds=0.3)
    first = node.id
    await node.start()
    await eventually(lambda: renewals.told == ["failed: away"])
    own_time.seconds = 0.25
    await eventually(lambda: len(renewals.told) > 1)
    assert server.events == []
    server.on_notify = [StoreUnavailable("away again")]
    server.on_beat = [NodeExpired] if is_lost else []
    server.joined = [] if is_lost else [first]
    await eventually(lambda: server.events)
    beats = len(server.beats)
    await eventually(lambda: len(server.beats) > beats + 1)
    await node.stop()
    (event,) = server.events
    assert event.pop("failed_seconds") >= 0.0
    assert datetime.fromisoformat(event.pop("since")) < NOON
    assert event == {
        "tenant": "default", "node": "host-a:1", "node_id": str(first), "lease_lost": is_lost,
        "alerted": False,
    }  # fmt: skip


async def test_a_heartbeat_that_fails_once_publishes_nothing(server: Server) -> None:
    server.on_beat = [lambda _: StoreUnavailable("away")]
    renewals = Renewals()
    node = Node(server.open, name="node", roles=["worker"], observer=renewals, ttl_seconds=3.0)
    await node.start()
    await eventually(lambda: "recovered" in renewals.told)
    await node.stop()
    assert (renewals.told, server.events) == (["failed: away", "recovered"], [])


async def test_an_identity_that_never_joined_is_not_told_as_a_lost_lease(server: Server) -> None:
    renewals = Renewals()
    node = make(server, renewals)
    first = node.id
    await node.start()
    server.on_join = [StoreUnavailable("away")] * 5
    server.on_beat = [NodeExpired]
    await eventually(lambda: len(server.joined) == 2 and node.id in server.beats)
    await node.stop()
    assert [note for note in renewals.told if note.startswith("lost")] == [f"lost: {first}"]


async def test_a_subscriber_gets_the_event_of_failing_renewals(
    home: Home, own_time: OwnTime
) -> None:
    store = await home.open()
    await store.queues.put(DEFAULT, "alerts", QueueSettings())
    await store.subscriptions.put(DEFAULT, "node.*", "alerts")
    renewals, is_away = Renewals(), True

    async def open_store() -> Store:
        opened = await home.open()
        beat = opened.nodes.heartbeat

        async def heartbeat(*given: Any) -> Any:
            if is_away:
                raise StoreUnavailable("away")
            return await beat(*given)

        setattr(opened.nodes, "heartbeat", heartbeat)  # noqa: B010
        return opened

    node = Node(open_store, name="a", roles=["worker"], observer=renewals, ttl_seconds=1.5)
    try:
        await node.start()
        await eventually(lambda: renewals.told)
        own_time.seconds = 1.2
        await eventually(lambda: len(renewals.told) > 1)
        is_away = False
        (event,) = await eventually(lambda: store.messages.peek(DEFAULT, "alerts", 10))
    finally:
        await node.stop()
        await store.close()
    assert (event.type, event.source) == ("node.renewal_failing", "tickwork")
    assert json.loads(event.body)["node"] == "a"


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
@pytest.mark.parametrize("fault", ["refuse", "blackhole"])
async def test_a_node_cut_off_from_its_database_says_so_before_its_lease_is_lost(
    home: Home, own_time: OwnTime, fault: str
) -> None:
    """Also if the connection is open and nothing answers."""
    renewals = Renewals()
    async with PostgresProxy(home.url) as proxy:
        node = Node(
            lambda: PostgresStore.open(proxy.url),
            name="node",
            roles=["worker"],
            observer=renewals,
            ttl_seconds=1.5,
        )
        await node.start()
        setattr(proxy, fault, True)
        if fault == "refuse":
            proxy.cut()
        await eventually(lambda: renewals.told)
        own_time.seconds += 1.2
        await eventually(lambda: len(renewals.told) > 1)
        assert [note.split(":")[0] for note in renewals.told] == ["failed", "failing"]
        assert 0.0 < renewals.left_seconds[1] <= 0.5
        setattr(proxy, fault, False)
        await eventually(lambda: "recovered" in renewals.told)
        await node.stop()
