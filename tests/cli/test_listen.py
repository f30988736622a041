"""`tickwork listen` as a process, which gets the webhooks of a real worker."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator

import aiohttp
import pytest
from aiohttp import web
from standardwebhooks import Webhook

from tests.channel.receiver import allow_local_deliveries, receiver
from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork import FiringRecord, Tickwork
from tickwork.core.delivery.signature import new_secret

PAST = "2026-01-01T00:00:00Z"
OTHER_SECRET = new_secret(b"o" * 32)
INTERRUPTED_SECONDS_MAX = 10.0

pytestmark = pytest.mark.one_store("sqlite")


@pytest.fixture
async def app(home: Home, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Tickwork]:
    """An app whose worker delivers to this machine, while the test runs."""
    allow_local_deliveries(monkeypatch)
    app = Tickwork(home.url)
    async with app.running(drain_seconds=0.0):
        yield app


async def listening(children: Children, home: Home, *words: str) -> tuple[Child, str]:
    """A process that listens, and its URL."""
    child = children.spawn("tickwork", "listen", "--port", "0", "--database", home.url, *words)
    line = await child.line("listening on")
    return child, line.split()[2].rstrip(";")


async def fired(app: Tickwork, url: str) -> FiringRecord:
    """Delivers one webhook to a URL, and returns what became of it."""
    made = await app.schedules.create(
        once_at=PAST, target_url=url, payload={"order": 7}, retry={"max_attempts": 1}
    )

    async def ended() -> list[FiringRecord]:
        return [firing for firing in await app.schedules.firings(made.id) if firing.finished_at]

    (found,) = await eventually(ended, what="the end of the firing")
    return found


async def interrupted(child: Child) -> None:
    """Ctrl-C ends it without a word."""
    os.kill(child.pid, signal.SIGINT)
    await child.succeeded(INTERRUPTED_SECONDS_MAX)
    assert child.stderr() == ""


async def test_a_webhook_of_a_worker_is_verified_and_printed(
    app: Tickwork, home: Home, children: Children
) -> None:
    listener, url = await listening(children, home)
    firing = await fired(app, f"{url}/orders")
    assert (firing.status, firing.result_code) == ("succeeded", 200)
    shown = listener.lines()[1:]
    assert shown[0] == "POST /orders  signed"
    assert "  Tickwork-Attempt: 1" in shown
    assert shown[-1] == '  {"order":7}'
    await interrupted(listener)  # While the worker keeps its connection.


async def test_a_wrong_signature_is_refused(app: Tickwork, home: Home, children: Children) -> None:
    listener, url = await listening(children, home, "--secret", OTHER_SECRET)
    async with receiver() as server:
        forwarder, forwarding = await listening(
            children, home, "--secret", OTHER_SECRET, "--forward", server.url
        )
        for child, address in ((listener, url), (forwarder, forwarding)):
            firing = await fired(app, f"{address}/orders")
            assert (firing.status, firing.result_code) == ("dead", 401)
            assert child.lines()[1].startswith("POST /orders  NOT VALID: ")
            async with (
                aiohttp.ClientSession() as session,
                session.post(address, data=b"{}") as answer,
            ):
                assert answer.status == 401
            await child.line("POST /  NOT SIGNED")
            await interrupted(child)
    assert server.requests == []


async def test_a_webhook_is_forwarded_as_it_came_and_the_answer_goes_back(
    app: Tickwork, home: Home, children: Children
) -> None:
    async with receiver() as server:
        target = f"{server.url}/own?a=1"
        listener, url = await listening(children, home, "--forward", target)
        server.answer = lambda: web.Response(status=418, text="teapot")
        firing = await fired(app, f"{url}/orders")
        request, body = server.requests[0]
        assert (firing.result_code, firing.excerpt) == (418, "teapot")
        assert (request.method, request.path_qs, json.loads(body)) == (
            "POST", "/own?a=1", {"order": 7},
        )  # fmt: skip
        Webhook(await app.webhooks.secret()).verify(body, {**request.headers})
        names = ("Content-Type", "Idempotency-Key", "Tickwork-Slot", "Tickwork-Attempt")
        assert [name for name in names if name not in request.headers] == []
        assert f"  {target} answered 418" in listener.lines()

        places = {"Location": f"{server.url}/elsewhere"}
        server.answer = lambda: web.Response(status=307, headers=places)
        assert (await fired(app, url)).result_code == 307
        assert len(server.requests) == 2
    assert (await fired(app, url)).result_code == 502  # Nobody answers any more.
    assert f"  {target} did not answer" in listener.lines()
    await interrupted(listener)


async def test_ctrl_c_does_not_wait_for_who_is_forwarded_to(
    app: Tickwork, home: Home, children: Children
) -> None:
    async with receiver() as server:
        listener, url = await listening(children, home, "--forward", f"{server.url}/hang")
        await app.schedules.create(once_at=PAST, target_url=url)
        await eventually(lambda: server.requests, what="the forwarded webhook")
        await interrupted(listener)
