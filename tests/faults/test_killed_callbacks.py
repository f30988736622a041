"""Workers that are killed around a 202: the attempt is repeated with a new token, or it waits, and
it is completed once."""

import signal

import msgspec
import pytest
from aiohttp import web

from tests.channel.receiver import Receiver, receiver
from tests.faults.open_store import opened
from tests.faults.programs import deliveries
from tests.kit.process import Arm, Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.delivery.target import DELIVERIES_QUEUE
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage
from tickwork.errors import Conflict
from tickwork.ops.schedules.complete import complete_firing
from tickwork.store.contract import Store
from tickwork.store.ids import new_id

WAIT_SECONDS = 60.0


def start(home: Home, children: Children, *arms: Arm) -> Child:
    environment = deliveries.ENVIRONMENT | {"TICKWORK_PUBLIC_URL": "http://127.0.0.1:1"}
    return children.spawn(deliveries.PROGRAM, home.url, arms=arms, env=environment)


async def send(store: Store, url: str) -> None:
    await store.queues.put(SYSTEM, DELIVERIES_QUEUE, deliveries.SETTINGS)
    target = {"type": "webhook", "url": url, "completion": "callback"}
    body = msgspec.json.encode({"target": target, "payload": 1})
    await store.messages.send(
        DEFAULT, DELIVERIES_QUEUE, NewMessage(id=new_id(), body=body, receiver="")
    )


def tokens(server: Receiver) -> list[str]:
    return [request.headers["Tickwork-Complete-Token"] for request, _ in server.requests]


async def is_waiting(store: Store) -> bool:
    return (await store.queues.counts(DEFAULT, DELIVERIES_QUEUE)).delayed == 1


@pytest.mark.parametrize(("point", "requests"), [("answered", 2), ("settling", 2), ("settled", 1)])
async def test_a_worker_killed_around_a_202_leaves_one_token_that_completes_once(
    home: Home, children: Children, point: str, requests: int
) -> None:
    async with opened(home.url) as store, receiver() as server:
        server.answer = lambda: web.Response(status=202)
        await send(store, server.url)
        dying = start(home, children, Arm(point, "kill"))
        assert await dying.wait(WAIT_SECONDS) == -signal.SIGKILL, dying.stderr()
        start(home, children)
        await eventually(
            lambda: len(server.requests) == requests,
            timeout_seconds=WAIT_SECONDS,
            what="the requests",
        )
        await eventually(lambda: is_waiting(store), timeout_seconds=WAIT_SECONDS, what="the wait")
        *stale, valid = tokens(server)
        for token in stale:
            with pytest.raises(Conflict):
                await complete_firing(store, token, {})
        assert (await complete_firing(store, valid, {})).attempt == 1
        with pytest.raises(Conflict):
            await complete_firing(store, valid, {})
        assert not await is_waiting(store)
        assert len(server.requests) == requests
