"""Every way out of an installation, as `deliveries` and `server` build it from the settings of its
operator: no spelling of a forbidden address makes a socket, a connection or a lookup.

The targets are stored without the check of whoever stores them, as if a version that allowed more
had done it. What delivers has to refuse them by itself.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import cycle
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec
import pytest
from aiohttp import web
from litestar.testing import AsyncTestClient
from prometheus_client import CollectorRegistry

from tests.channel.forbidden import forbidden_urls, hosts_of_ipv4, hosts_of_ipv6
from tests.channel.opened_sockets import Opened, watched_sockets
from tests.channel.receiver import KEY_OF_SECRETS, receiver
from tests.conformance.acts import claim, join
from tests.core.messages import NOON
from tests.kit.api import bearer, new_key
from tests.kit.contexts import acting
from tickwork.app.declarations import Consumer
from tickwork.app.message import ClaimedBatch, ClaimedMessage
from tickwork.core.delivery.alert import ALERTS_QUEUE, WAYS, AlertTarget, encode_alert_target
from tickwork.core.delivery.endpoint import (
    ENDPOINTS_QUEUE,
    Endpoint,
    EndpointSettings,
    secrets_owner,
)
from tickwork.core.delivery.request import EmailRequest
from tickwork.core.delivery.signature import new_secret
from tickwork.core.delivery.target import (
    CALLBACK,
    CHANNELS_MAX,
    CHATS,
    DELIVERIES_QUEUE,
    ChannelsTarget,
    ChatTarget,
    EndpointTarget,
    Envelope,
    OutsideTarget,
    WebhookTarget,
)
from tickwork.core.http.call import service_call
from tickwork.core.message.outcome import Delivered, Succeeded
from tickwork.core.message.system_events import MESSAGE_DEAD
from tickwork.core.model import DEFAULT, SYSTEM, NewMessage, QueueSettings, Scope, Tenant
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork, engine_of
from tickwork.ops import endpoints
from tickwork.ops.alerts import FIELD, OWNER
from tickwork.settings import Settings
from tickwork.store.contract import Store
from tickwork.store.ids import new_id
from tickwork.wiring import open_store
from tickwork.wiring.deliveries import (
    OpenDeliveries,
    email_sink,
    open_deliveries,
    remote_service,
    secret_box,
)
from tickwork.wiring.server import build_api

ALLOWED, DELIVERED = "localhost", "delivered"
SPELLINGS_MIN = 500


def spellings() -> list[str]:
    """Every spelling of the addresses that matter most, and some of all others."""
    hosts = [
        *(host for name in ("127.0.0.1", "169.254.169.254", "10.0.0.7")
          for host in hosts_of_ipv4(IPv4Address(name))),
        *(host for name in ("::1", "::ffff:169.254.169.254", "fd00:ec2::254")
          for host in hosts_of_ipv6(IPv6Address(name))),
    ]  # fmt: skip
    urls, others = [f"https://{host}/in" for host in hosts], forbidden_urls()
    random.Random(7).shuffle(others)
    return [*dict.fromkeys([*urls, *others])][: SPELLINGS_MIN + 1]


FORBIDDEN = spellings()


class World:
    """An installation whose operator allows one address, with its store and its worker's parts."""

    def __init__(
        self, settings: Settings, store: Store, outside: OpenDeliveries, node: UUID
    ) -> None:
        self.settings, self.store, self._outside, self._node = settings, store, outside, node
        self.box, self._names = secret_box(settings), dict[str, str]()

    async def deliver(
        self, queue: str, bodies: Sequence[bytes], tenants: Sequence[str] = ()
    ) -> list[str]:
        """Sends messages to a hidden queue and lets its consumer have them."""
        made = [NewMessage(id=new_id(), body=body, type=MESSAGE_DEAD) for body in bodies]
        if not tenants:
            await self.store.messages.send_bulk(DEFAULT, queue, made)
        send, pairs = self.store.messages.send, zip(tenants, made, strict=False)
        await asyncio.gather(*(send(Scope(tenant), queue, message) for tenant, message in pairs))
        consumer = next(
            candidate for candidate in self._outside.consumers if candidate.queue.name == queue
        )
        return await self.handle(consumer, SYSTEM)

    async def handle(self, consumer: Consumer, scope: Scope) -> list[str]:
        """What becomes of all messages of a queue, in the order in which they were sent."""
        queue = consumer.queue.name
        claimed = await claim(self.store, self._node, queue=queue, scope=scope)
        options: Any = {"compose": None, "monotonic": lambda: 0.0, "deadline": 60.0}
        messages = [
            ClaimedMessage(stored_message, msgspec.json.decode(stored_message.body), **options)
            for stored_message in sorted(claimed, key=lambda stored_message: stored_message.id)
        ]
        handler = consumer.handler_for(None)
        assert handler is not None
        given = [ClaimedBatch(queue, messages)] if handler.is_batch else messages
        await asyncio.gather(*(handler.function(argument) for argument in given))
        return [shown(message.outcome) for message in messages]

    async def endpoints(self, urls: Sequence[str]) -> list[str]:
        """The endpoints of some URLs, by name."""
        new = [url for url in urls if url not in self._names]
        self._names |= {url: f"endpoint-{len(self._names) + at}" for at, url in enumerate(new)}
        await asyncio.gather(*(self._create_endpoint(self._names[url], url) for url in new))
        return [self._names[url] for url in urls]

    async def tenants(self, number: int) -> list[str]:
        """New tenants."""
        names = [f"tenant-{new_id().hex}" for _ in range(number)]
        put = self.store.tenants.put
        await asyncio.gather(*(put(SYSTEM, Tenant(id=name)) for name in names))
        return names

    async def _create_endpoint(self, name: str, url: str) -> None:
        """As `create_endpoint`, which would refuse the URL."""
        made = Endpoint(
            id=new_id(),
            tenant="default",
            name=name,
            settings=EndpointSettings(url=url, types=(type_of(url),)),
            created_at=NOON,
            updated_at=NOON,
        )
        await self.store.endpoints.create(DEFAULT, made)
        owner = secrets_owner(made.id)
        sealed = self.box.encrypt(new_secret(b"s" * 32), "default", owner, "signing")
        await self.store.secrets.rotate(DEFAULT, owner, "signing", sealed, keep_seconds=0.0)

    async def push(self) -> list[str]:
        """What becomes of the messages of all queues that push."""
        found = await self._outside.find()
        handled = [self.handle(consumer.consumer, consumer.scope) for consumer in found.consumers]
        return [outcome for one in await asyncio.gather(*handled) for outcome in one]


def type_of(url: str) -> str:
    """The events that the endpoint with a URL gets."""
    return "order.paid" if url in FORBIDDEN else "order.tried"


def shown(outcome: Any) -> str:
    """A delivery, or what was wrong with it."""
    if isinstance(outcome, Delivered):
        if outcome.channels:
            return "\n".join(channel.detail or channel.status for channel in outcome.channels)
        outcome = outcome.outcome
    return DELIVERED if isinstance(outcome, Succeeded) else getattr(outcome, "error", str(outcome))


def connected_ports(opened: Sequence[Opened]) -> set[int | None]:
    return {opening.port for opening in opened if opening.event == "socket.connect"}


Sink = Callable[[World, Sequence[str]], Awaitable[list[str]]]
"""Delivers to some URLs, and returns what became of each."""


def of_schedule(target_of: Callable[[str], OutsideTarget]) -> Sink:
    async def deliver(world: World, urls: Sequence[str]) -> list[str]:
        bodies = [msgspec.json.encode(Envelope(target_of(url), {})) for url in urls]
        return await world.deliver(DELIVERIES_QUEUE, bodies)

    return deliver


def of_chat(service: str) -> Sink:
    return of_schedule(lambda url: ChatTarget(service, url, "x", "7"))


async def of_channels(world: World, urls: Sequence[str]) -> list[str]:
    """Several at once."""
    parts = [urls[at : at + CHANNELS_MAX] for at in range(0, len(urls), CHANNELS_MAX)]
    targets = [ChannelsTarget(tuple(map(WebhookTarget, part))) for part in parts]
    bodies = [msgspec.json.encode(Envelope(target, {})) for target in targets]
    results = await world.deliver(DELIVERIES_QUEUE, bodies)
    return [part for one in results for part in one.split("\n")]


async def of_slot_to_endpoint(world: World, urls: Sequence[str]) -> list[str]:
    names = await world.endpoints(urls)
    bodies = [msgspec.json.encode(Envelope(EndpointTarget(name), {})) for name in names]
    return await world.deliver(DELIVERIES_QUEUE, bodies)


async def of_event(world: World, urls: Sequence[str]) -> list[str]:
    await world.endpoints(urls)
    event = NewMessage(id=new_id(), body=b"{}", type=type_of(urls[0]))
    await world.store.endpoints.publish(DEFAULT, event, None)
    return await world.deliver(ENDPOINTS_QUEUE, [])


async def of_push(world: World, urls: Sequence[str]) -> list[str]:
    async def send(name: str) -> None:
        queue = f"push-to-{name}"
        await world.store.queues.put(DEFAULT, queue, QueueSettings(push_to=name))
        await world.store.messages.send(DEFAULT, queue, NewMessage(id=new_id(), body=b"{}"))

    await asyncio.gather(*map(send, await world.endpoints(urls)))
    return await world.push()


async def of_alert(world: World, urls: Sequence[str]) -> list[str]:
    """Alerts of many tenants, over one way or another: a tenant gets one alert."""
    tenants = await world.tenants(len(urls))
    for tenant, url, way in zip(tenants, urls, cycle(WAYS[1:]), strict=False):
        target = encode_alert_target(AlertTarget(way, url=url))
        sealed = world.box.encrypt(target, tenant, OWNER, FIELD)
        await world.store.secrets.rotate(Scope(tenant), OWNER, FIELD, sealed, keep_seconds=0)
    return await world.deliver(ALERTS_QUEUE, [b"{}"] * len(urls), tenants)


async def of_test(world: World, urls: Sequence[str]) -> list[str]:
    """What `app.endpoints.test` and the command do."""
    sink = engine_of(Tickwork(world.settings.database)).webhook_sink()
    context = acting(world.store, DEFAULT, box=world.box, sink=sink)
    names = await world.endpoints(urls)
    results = [await endpoints.test_endpoint(context, name) for name in names]
    return [result.error or DELIVERED for result in results]


async def of_service(world: World, urls: Sequence[str]) -> list[str]:
    """A service of tickwork.toml: its URL is refused when it is bound."""
    results = []
    for url in urls:
        try:
            service = remote_service(world.settings, "shop", url, is_in_code=False)
        except InvalidInput as error:
            results.append(str(error).replace("service shop: ", "url: "))
            continue
        answer = await service.call(A_CALL)
        await service.close()
        results.append(DELIVERED if answer.status == 200 else str(answer.status))
    return results


A_CALL = service_call(
    "GET", "/v1", query=None, json=None, body=None, headers={}, own_headers={},
    timeout_seconds=20.0, correlation_id="1", call_id="2",
)  # fmt: skip
SINKS: dict[str, Sink] = {
    "webhook of a schedule": of_schedule(WebhookTarget),
    "callback of a schedule": of_schedule(lambda url: WebhookTarget(url, completion=CALLBACK)),
    "several channels": of_channels,
    **{chat: of_chat(chat) for chat in CHATS},
    "slot to an endpoint": of_slot_to_endpoint,
    "event to an endpoint": of_event,
    "push of a queue": of_push,
    "alert": of_alert,
    "endpoints test": of_test,
    "service": of_service,
}


@pytest.fixture
async def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    """On SQLite: a database on a server would be reached over sockets, too."""
    monkeypatch.setenv("TICKWORK_ALLOW_TARGETS", ALLOWED)
    monkeypatch.setenv("TICKWORK_SECRET_KEY", KEY_OF_SECRETS)
    settings = Settings(
        database=f"sqlite:///{tmp_path}/tickwork.db",
        allow_targets=(ALLOWED,),
        secret_key=KEY_OF_SECRETS,
        public_url="https://tickwork.example.com",
        host_concurrency=10_000,
        host_rate_per_second=100_000.0,
    )
    store = await open_store(settings, is_temporary=True)
    outside = await open_deliveries(store, settings)
    assert outside is not None
    yield World(settings, store, outside, await join(store, ttl_seconds=600.0))
    await outside.channels.close()
    await store.close()


def test_more_than_500_spellings_of_forbidden_addresses_are_tested() -> None:
    assert len(FORBIDDEN) > SPELLINGS_MIN


async def test_no_spelling_opens_a_socket_of_any_sink_as_it_is_wired(world: World) -> None:
    async with receiver() as server:
        good = server.url.replace("127.0.0.1", ALLOWED) + "/in"
        for name, sink in SINKS.items():
            with watched_sockets() as opened:
                assert (name, await sink(world, [good])) == (name, [DELIVERED])
            assert (name, len(server.requests)) == (name, 1)
            assert connected_ports(opened) <= {urlsplit(good).port}
            server.requests.clear()
    for name, sink in SINKS.items():
        with watched_sockets() as opened:
            results = zip(FORBIDDEN, await sink(world, FORBIDDEN), strict=True)
        assert (name, opened) == (name, [])
        assert (name, [result for result in results if not result[1].startswith("url: ")]) == (
            name,
            [],
        )


async def test_no_sink_follows_a_redirect(world: World) -> None:
    """An answer names another address; nothing is opened but the connection to the receiver."""
    async with receiver() as server:
        good = server.url.replace("127.0.0.1", ALLOWED) + "/in"
        elsewhere = {"Location": "http://169.254.169.254/latest"}
        server.answer = lambda: web.Response(status=307, headers=elsewhere)
        for name, sink in SINKS.items():
            with watched_sockets() as opened:
                (result,) = await sink(world, [good])
            assert (name, "307" in result) == (name, True)
            assert (name, connected_ports(opened)) in [(name, set()), (name, {urlsplit(good).port})]
        assert len(server.requests) == len(SINKS)


async def test_no_spelling_opens_a_socket_of_endpoints_test_over_http(world: World) -> None:
    """It takes the address of one endpoint after the other: a request takes its time."""
    hosts = dict.fromkeys(hosts_of_ipv4(IPv4Address("169.254.169.254")))
    application = build_api(world.settings, registry=CollectorRegistry())
    key, urls = await new_key(world.store), [f"https://{host}/in" for host in hosts]
    errors = []
    async with AsyncTestClient(application) as client:
        for name in await world.endpoints(urls):
            with watched_sockets() as opened:
                answer = await client.post(f"/v1/endpoints/{name}/test", headers=bearer(key))
            assert opened == []
            errors.append(answer.json()["error"])
    assert [error for error in errors if not error.startswith("url: ")] == []


async def test_the_address_of_an_email_provider_is_the_operators_alone() -> None:
    """Each spelling is refused when the sink is built, or is the plain address that was set."""
    given: Any = {"email_provider": "http", "email_key": "key-0123456789", "email_from": "a@b.c"}
    accepted = []
    with watched_sockets() as opened:
        for url in FORBIDDEN:
            with suppress(InvalidInput):
                assert email_sink(Settings(email_url=url, **given)) is not None
                accepted.append(urlsplit(url).hostname)
    assert opened == []
    assert len(accepted) < len(FORBIDDEN) - SPELLINGS_MIN // 2
    for host in accepted:
        ip_address(str(host))


async def test_an_email_provider_is_not_followed_elsewhere() -> None:
    async with receiver() as server:
        elsewhere = {"Location": "http://169.254.169.254/latest"}
        server.answer = lambda: web.Response(status=307, headers=elsewhere)
        given: Any = {"email_provider": "http", "email_key": "key-0123456789"}
        sink = email_sink(Settings(email_url=server.url, email_from="a@example.com", **given))
        assert sink is not None
        email = EmailRequest(
            sender="a@example.com", to=["b@example.com"], subject="x", text="x",
            message_id="<1@example.com>", sent_at=NOON,
        )  # fmt: skip
        with watched_sockets() as opened:
            result = await sink.deliver(email)
        await sink.close()
    assert (result.is_delivered, result.code, len(server.requests)) == (False, 307, 1)
    assert connected_ports(opened) == {urlsplit(server.url).port}
