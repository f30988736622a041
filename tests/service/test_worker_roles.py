"""A process does what its roles say, and starts nothing once its lease may have expired."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.message import Message
from tickwork.core.model import DEFAULT, SYSTEM, ClaimRequest, Counts
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork

LATE_SECONDS = 90.0


@pytest.fixture
async def app(home: Home) -> AsyncIterator[Tickwork]:
    """An app on a database of each kind."""
    app = Tickwork(home.url)
    yield app
    await app.close()


async def test_without_the_role_nothing_is_handled(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, seen = app.queue("work"), list[Any]()

    @app.on("work")
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)

    monkeypatch.setenv("TICKWORK_ROLES", "api")
    await work.send(1)
    async with app._engine.running() as worker:
        assert list(worker.consumers) == []
        store = await app._engine.open()
        (node,) = await store.nodes.list(SYSTEM)
        assert node.roles == ()
        assert await store.queues.counts(DEFAULT, "work") == Counts(ready=1)
    async with app.running(roles=["worker", "scheduler"]):
        store = await app._engine.open()
        (node,) = await store.nodes.list(SYSTEM)
        assert node.roles == ("scheduler", "worker")
        await eventually(lambda: seen, timeout_seconds=LATE_SECONDS)
    assert seen == [1]


async def test_a_role_that_is_none_is_refused_by_its_name(app: Tickwork) -> None:
    with pytest.raises(
        InvalidInput, match="roles: must be one of api, scheduler, worker, http, not 'boss'"
    ):
        async with app.running(roles=["boss"]):
            pass


@pytest.mark.parametrize(
    ("given", "roles"), [("worker", ("worker",)), ("worker, scheduler", ("scheduler", "worker"))]
)
async def test_roles_may_be_written_as_a_flag_is(
    app: Tickwork, given: str, roles: tuple[str, ...]
) -> None:
    app.queue("work")
    async with app.running(roles=given):
        (node,) = await (await app._engine.open()).nodes.list(SYSTEM)
        assert node.roles == roles
    with pytest.raises(
        InvalidInput, match="roles: must be one of api, scheduler, worker, http, not 'boss'"
    ):
        async with app.running(roles="boss"):
            pass


async def test_nothing_new_is_begun_while_the_lease_may_have_run_out(
    app: Tickwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two are claimed, of which one waits in hand for the only slot; then the trust ends."""
    work, seen, go_on = app.queue("work"), list[Any](), asyncio.Event()

    @app.on("work", max_concurrency=1)
    async def handle(message: Message[Any]) -> None:
        seen.append(message.body)
        if message.body == 1:
            await go_on.wait()

    await work.send_batch([1, 2])
    async with app._engine.running() as worker:
        consumer = worker.consumers[0]
        await eventually(lambda: seen, timeout_seconds=LATE_SECONDS)
        consumer._prefetch.add(await claimed(app, worker._node.id))
        monkeypatch.setattr(worker._node, "_renewed", lambda _: None)  # No heartbeat comes between.
        worker._node.trusted_until = float("-inf")
        go_on.set()
        await eventually(lambda: len(consumer.running) == 0 and consumer.settler.unsettled == 0)
        assert (seen, len(consumer._prefetch)) == ([1], 1)
        worker._node.trusted_until = float("inf")  # As when a heartbeat is answered.
        await eventually(lambda: seen == [1, 2], timeout_seconds=LATE_SECONDS)


async def claimed(app: Tickwork, holder: Any) -> Any:
    store = await app._engine.open()
    return await store.messages.claim(DEFAULT, ClaimRequest(queue="work", holder=holder))
