"""A node whose event loop is blocked gives up its shards and keeps its claims."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from tests.conformance.acts import make_queue, send
from tests.conformance.schedule_acts import join_scheduler
from tests.kit.waiting import eventually, eventually_blocking
from tests.stores.home import Home
from tickwork.clock import monotonic
from tickwork.core.model import DEFAULT, SYSTEM, ClaimRequest
from tickwork.core.schedule.model import SHARDS
from tickwork.errors import NodeExpired, StoreUnavailable
from tickwork.service import node as nodes
from tickwork.service.node import Node
from tickwork.service.observe import Observer
from tickwork.service.scheduler.leadership import Leadership
from tickwork.store.contract import Store

TTL_SECONDS = 0.3
SOON_SECONDS = 30.0
"""A bound, not a measure."""

BOTH = ("scheduler", "worker")


class Server:
    """Knows the roles of each identity, as the nodes' rows do; `away` so many times, `broken`
    once."""

    def __init__(self) -> None:
        self.roles: dict[UUID, tuple[str, ...]] = {}
        self.gave_up: list[UUID] = []
        self.away = 0
        self.broken = False
        self.is_over = False
        self.on_come_back: Callable[[], None] = lambda: None

    async def open(self) -> Store:
        store: Any = SimpleNamespace(nodes=self, shards=self, close=self.close)
        return cast(Store, store)

    async def close(self) -> None: ...

    async def join(self, _: object, node_id: UUID, *, roles: list[str], **__: object) -> None:
        self.roles[node_id] = tuple(roles)

    async def heartbeat(self, _: object, node_id: UUID, *__: object) -> None:
        if self.is_over:
            self.is_over = False
            raise NodeExpired(node_id)

    async def leave(self, *_: object) -> int:
        return 0

    async def give_up(self, _: object, node_id: UUID) -> int:
        self.gave_up.append(node_id)
        self._fail()
        self.roles[node_id] = tuple(
            role for role in self.roles[node_id] if role != nodes.SCHEDULER_ROLE
        )
        return 0

    async def come_back(self, _: object, node_id: UUID) -> None:
        self._fail()
        if self.broken:
            self.broken = False
            raise RuntimeError("nobody thought of it")
        self.roles[node_id] = BOTH
        self.on_come_back()

    def _fail(self) -> None:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    """One that is tried again soon."""
    monkeypatch.setattr(nodes, "_RETRY_SECONDS", 0.01)
    return Server()


class Errors(Observer):
    """Records the activities whose errors a node reports."""

    def __init__(self) -> None:
        self.activities: list[str] = []

    def error_occurred(self, activity: str, error: Exception) -> None:  # noqa: ARG002
        self.activities.append(activity)


@pytest.fixture
def errors() -> Errors:
    """The errors that `node` reports."""
    return Errors()


@pytest.fixture
async def node(server: Server, errors: Errors) -> AsyncIterator[Node]:
    """A node that joined."""
    made = Node(server.open, name="node", roles=BOTH, observer=errors, ttl_seconds=TTL_SECONDS)
    await made.start()
    yield made
    await made.stop()


def block(condition: Callable[[], bool]) -> None:
    """Keeps the event loop from turning until something is so."""
    assert asyncio.get_running_loop().is_running()
    eventually_blocking(condition, timeout_seconds=SOON_SECONDS)


def elsewhere(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Does something in a loop of its own, while ours stands still."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(work())).result()


async def test_who_stands_still_gives_up_the_role_and_has_it_again(
    server: Server, node: Node
) -> None:
    first = node.id
    block(lambda: server.roles[first] == ("worker",))
    await eventually(lambda: server.roles[first] == BOTH)
    assert (node.id, node.term) == (first, 1)
    assert server.gave_up == [first]


async def test_a_database_that_is_away_is_asked_until_it_is_done(
    server: Server, node: Node
) -> None:
    server.away = 3
    block(lambda: server.roles[node.id] == ("worker",))
    assert len(server.gave_up) == 4
    server.away = 3
    await eventually(lambda: server.roles[node.id] == BOTH)


async def test_what_nobody_thought_of_is_tried_again_when_the_loop_turns(
    server: Server, node: Node, errors: Errors
) -> None:
    block(lambda: server.roles[node.id] == ("worker",))
    server.broken = True
    await eventually(lambda: errors.activities)
    await eventually(lambda: server.roles[node.id] == BOTH)
    assert errors.activities == ["watch"]


async def test_a_new_identity_of_a_loop_that_stands_still_has_not_the_role(
    server: Server, node: Node
) -> None:
    first = node.id
    block(lambda: server.roles[first] == ("worker",))
    seen: list[tuple[str, ...]] = []

    def is_another() -> bool:
        seen.extend(roles for id_, roles in server.roles.items() if id_ != first)
        return bool(seen)

    server.is_over = True
    block(is_another)
    assert seen[0] == ("worker",)
    await eventually(lambda: server.roles[node.id] == BOTH)
    assert node.id != first


async def test_a_role_that_is_dropped_meanwhile_does_not_come_back(
    server: Server, node: Node
) -> None:
    server.on_come_back = lambda: node.drop_role(nodes.SCHEDULER_ROLE)
    block(lambda: server.roles[node.id] == ("worker",))
    await eventually(lambda: len(server.gave_up) == 2)
    await eventually(lambda: server.roles[node.id] == ("worker",))


async def test_who_leads_nothing_is_not_asked(server: Server) -> None:
    node = Node(server.open, name="node", roles=["worker"], ttl_seconds=TTL_SECONDS)
    await node.start()
    began = monotonic()
    block(lambda: monotonic() - began > 2 * TTL_SECONDS)
    await node.stop()
    assert (server.gave_up, node.term) == ([], 0)


async def test_others_lead_what_a_loop_that_stands_still_led(home: Home) -> None:
    """With real leases: the node lives on, and keeps what it claimed; what it led it does not, nor
    does it believe so when its loop turns again."""
    live = await home.open()
    await make_queue(live)
    await send(live)
    node = Node(home.open, name="blocked", roles=BOTH, ttl_seconds=1.0)
    leadership = Leadership(
        live,
        lambda: node.id,
        is_trusted=lambda: monotonic() < node.trusted_until,
        term=lambda: node.term,
    )
    await node.start()
    first = node.id
    await leadership.hold()
    request = ClaimRequest(queue="work", holder=first, limit=1)
    (claimed,) = await live.messages.claim(DEFAULT, request)
    assert len(leadership.grants) == SHARDS

    async def takes_over() -> UUID:
        other = await home.open()
        heir = await join_scheduler(other)

        async def leads_all() -> bool:
            return len(await other.shards.hold(SYSTEM, heir)) == SHARDS

        await eventually(leads_all, timeout_seconds=SOON_SECONDS, what="others to lead")
        await other.close()
        return heir

    heir: UUID = elsewhere(takes_over)
    assert leadership.grants == (), "before anybody told it"
    assert node.id == first, "it lives"
    assert monotonic() < node.trusted_until

    async def has_its_half() -> bool:
        await leadership.hold()
        await live.shards.hold(SYSTEM, heir)
        return len(leadership.grants) == SHARDS // 2

    await eventually(has_its_half, timeout_seconds=SOON_SECONDS, what="its share")
    held = await live.messages.get(DEFAULT, "work", claimed.id)
    assert (held.holder, held.claim, node.id) == (first, claimed.claim, first)
    await node.stop()
    await live.close()
