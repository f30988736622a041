"""Both clients against a server process, also one that is killed before it answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.api.test_server import key_of, started
from tests.kit.process import Child, Children
from tests.kit.proxy import Filter, HangUp, PassAll, TcpProxy
from tickwork import Client, NotFound, SyncClient
from tickwork.errors import ServiceUnavailable, Unauthorized


class KillOnAnswer(PassAll):
    """Kills the server when its first answer is on the way, and drops the answer."""

    def __init__(self) -> None:
        self.server: Child | None = None
        self.was_killed = asyncio.Event()

    async def to_client(self, data: bytes) -> bytes:
        if self.server is not None:
            self.server.kill9()
            self.server = None
            self.was_killed.set()
            raise HangUp
        return data


class FilteredProxy(TcpProxy):
    """A proxy before a server whose connections all pass one filter."""

    def __init__(self, url: str, through: Filter) -> None:
        super().__init__("127.0.0.1", port_of(url))
        self._through = through

    def _filter(self, to_client: asyncio.StreamWriter) -> Filter:  # noqa: ARG002
        return self._through


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


async def test_a_killed_server_stores_a_repeated_request_once(
    children: Children, tmp_path: Path
) -> None:
    server, url = await started(children, tmp_path)
    key, filter_ = await key_of(server), KillOnAnswer()
    proxy = FilteredProxy(url, filter_)
    async with proxy, Client(f"http://{proxy.host}:{proxy.port}", key=key) as client:
        await client.queues.put("emails")
        filter_.server = server
        sending = asyncio.create_task(client.queue("emails").send({"to": "ada"}))
        await filter_.was_killed.wait()
        proxy.refuse = True
        _, again = await started(children, tmp_path)
        proxy.redirect("127.0.0.1", port_of(again))
        proxy.refuse = False
        sent = await sending
        assert [message.id async for message in client.messages.list("emails")] == [sent]


async def test_both_clients_talk_to_a_server(children: Children, tmp_path: Path) -> None:
    server, url = await started(children, tmp_path)
    key = await key_of(server)
    await asyncio.to_thread(without_asyncio, url, key)
    async with Client(url, key=key) as client:
        assert (await client.readiness()).status == "ready"
        assert [message.id async for message in client.messages.list("emails", limit=2)]
        pulled = await client.queue("emails").pull(wait_seconds=1.0)
        leases = [message.lease_id for message in pulled.messages]
        assert (await client.queue("emails").ack(leases)).ack_count == len(leases) == 3
        stream = client.stream()
        asking = asyncio.ensure_future(anext(stream))
        for _ in range(50):
            await client.queues.pause("emails")
            done, _ = await asyncio.wait([asking], timeout=0.1)
            if done:
                break
        assert (await asking).type == "queue.pause"
        await stream.aclose()
        cut = client.stream()
        opened = asyncio.ensure_future(anext(cut))
        for _ in range(50):
            await client.queues.resume("emails")
            if (await asyncio.wait([opened], timeout=0.1))[0]:
                break
        assert (await opened).type == "queue.resume"
        server.kill9()
        with pytest.raises(ServiceUnavailable):
            [event async for event in cut]
    server, url = await started(children, tmp_path)
    async with Client(url, key="tw_wrong_key") as stranger:
        with pytest.raises(Unauthorized):
            await stranger.queues.list()
    server.terminate()
    await server.succeeded()
    async with Client(url, key=key, retry_seconds=0.2) as late:
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            await late.health()
        with pytest.raises(ServiceUnavailable, match="cannot be reached"):
            await anext(late.stream())
    with SyncClient(url, key=key) as late_too, pytest.raises(ServiceUnavailable):
        next(late_too.stream())


def without_asyncio(url: str, key: str) -> None:
    with SyncClient(url, key=key) as client:
        assert client.health().status == "ok"
        client.queues.put("emails")
        sent = client.queue("emails").send_batch([1, 2, 3])
        assert [message.id for message in client.messages.list("emails")] == [*sent]
        with pytest.raises(NotFound, match="there is no queue nobody"):
            client.queues.get("nobody")
        assert "tickwork" in client.metrics()
