"""The guard: no spelling of a forbidden address, and no name that leads to one, opens a socket."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, suppress
from ipaddress import IPv4Address, ip_address
from typing import Any

import aiohttp
import pytest
from yarl import URL

from tests.channel.forbidden import PUBLIC, forbidden_ipv4, forbidden_ipv6, forbidden_urls
from tests.channel.receiver import receiver
from tests.kit.waiting import eventually
from tickwork.channel.guard import LOOKUPS_OF_DOMAIN_MAX, Guard, Refused, is_public
from tickwork.channel.webhook import WebhookChannel
from tickwork.core.delivery.outcome import Delivery, ErrorKind
from tickwork.core.delivery.request import WebhookRequest
from tickwork.errors import InvalidInput

URLS = forbidden_urls()
PRIVATE, OPEN = "10.0.0.7", "93.184.216.34"
NOT_URLS = (
    "", "https://", "https:///in", "https:127.0.0.1/", "https:/127.0.0.1/", "//127.0.0.1/",
    "https:example.com",
    "127.0.0.1", "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://x/",
    "HTTP://example.com", "javascript:1", "unix:///run/x", "https://example.com:0/", "https://[::1",
    "https://example.com:22/", "https://example.com:25/", "https://example.com:99999/",
    "https://example.com:x/", "https://a@example.com/", "https://@example.com/", "https://:@x.org/",
    "https://a..example.com/", "https://.example.com/", "https://-a.example.com/", "https://é.com/",
    "https://example.com/\r\nHost: x", "https://example.com/\0", "https://exa mple.com/",
    "https://example.com%2eevil.org/", "https://8.8.8.8%2fx/", "https://[v1.x]/", "https://[]/",
    f"https://example.com/{'x' * 2048}", "https://example.com\\@127.0.0.1/",
    "https://" + "a." * 130 + "com/", "https://" + "a" * 64 + ".com/", "https://1.2.3.4.5/",
)  # fmt: skip


class CountedSocket(socket.socket):
    """A socket that counts how many were made."""

    made = 0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        type(self).made += 1
        super().__init__(*arguments, **options)


@pytest.fixture
async def sockets(monkeypatch: pytest.MonkeyPatch) -> type[CountedSocket]:
    """Counts every socket that this process makes from now on; the event loop has its own."""
    monkeypatch.setattr(CountedSocket, "made", 0)
    monkeypatch.setattr(socket, "socket", CountedSocket)
    return CountedSocket


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """What names resolve to: an answer for each lookup; the last one stays. Other names are read
    by the system as spellings of addresses, and are never looked up outside."""
    answers: dict[str, list[list[str]]] = {}
    system = socket.getaddrinfo

    def lookup(host: str, port: Any, *_: Any) -> list[tuple[Any, ...]]:
        if host not in answers:
            return [*system(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)]
        kept = answers[host]
        found = kept.pop(0) if len(kept) > 1 else kept[0]
        return [address for one in found for address in system(one, port, type=socket.SOCK_STREAM)]

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    return answers


@pytest.fixture
async def channel(names: dict[str, list[list[str]]]) -> AsyncIterator[WebhookChannel]:
    """A channel without exceptions to the rules."""
    assert names == {}
    made = WebhookChannel(Guard())
    yield made
    await made.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A socket on loopback that listens and answers nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as made:
        made.setblocking(False)
        yield made


def was_called(listener: socket.socket) -> bool:
    """Whether somebody connected to a listener."""
    with suppress(BlockingIOError):
        listener.accept()[0].close()
        return True
    return False


def is_read_as_public(url: str) -> bool:
    """Whether the system reads the host of a URL as a public address: 010.0.0.1 is 8.0.0.1."""
    with suppress(OSError, UnicodeError):
        read = socket.inet_aton(url.removeprefix("https://").partition("/")[0].partition(":")[0])
        return is_public(IPv4Address(read))
    return False


def to(url: str) -> WebhookRequest:
    return WebhookRequest(url=url, headers={}, body=b"{}", timeout_seconds=20.0)


def is_refused(result: Delivery) -> bool:
    return not result.is_delivered and result.kind is ErrorKind.REFUSED


def test_there_are_more_than_500_spellings() -> None:
    assert len(URLS) > 2_000


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_not_refused(address: str) -> None:
    assert is_public(ip_address(address))
    Guard().check_address(address)
    Guard().check_url(f"https://[{address}]/" if ":" in address else f"https://{address}:8443/")


def test_every_forbidden_address_is_refused_when_the_socket_is_made() -> None:
    guard = Guard()
    reached = []
    for address in [*forbidden_ipv4(), *forbidden_ipv6()]:
        with suppress(Refused):
            guard.check_address(str(address))
            reached.append(address)
    assert reached == []


@pytest.mark.parametrize("url", NOT_URLS)
def test_what_is_not_the_url_of_a_public_host_is_refused(url: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Guard().check_url(url, field="target.url")
    assert [error.field for error in refused.value.errors] == ["target.url"]


def test_every_spelling_is_refused_before_it_is_stored() -> None:
    guard = Guard()
    accepted = []
    for url in URLS:
        with suppress(InvalidInput):
            guard.check_url(url)
            accepted.append(url)
    assert accepted == []


async def test_no_spelling_opens_a_socket_of_a_webhook(
    channel: WebhookChannel, sockets: type[CountedSocket]
) -> None:
    results = {url: await channel.deliver(to(url)) for url in [*URLS, *NOT_URLS]}
    assert [url for url, result in results.items() if not is_refused(result)] == []
    assert sockets.made == 0


@pytest.mark.usefixtures("names")
async def test_no_spelling_opens_a_socket_of_the_connector_alone(
    sockets: type[CountedSocket],
) -> None:
    """The second wall holds without the first one: no URL is checked here."""
    reached: list[str] = []
    async with aiohttp.ClientSession(connector=Guard().connector()) as session:
        for url in (candidate for candidate in URLS if not is_read_as_public(candidate)):
            with suppress(aiohttp.ClientError, ValueError):
                await session.get(URL(url, encoded=True))
            if sockets.made != len(reached):
                reached.append(url)
    assert reached == []


async def test_a_listener_on_loopback_is_not_called(
    channel: WebhookChannel, names: dict[str, list[list[str]]], listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    names["localhost"] = names["evil.example"] = [["127.0.0.1"]]
    for host in ("127.0.0.1", "localhost", "evil.example", "[::ffff:127.0.0.1]", "0", "0x7f.1"):
        result = await channel.deliver(to(f"https://{host}:{port}/"))
        assert is_refused(result), host
    assert not was_called(listener)


@pytest.mark.parametrize(
    "found",
    [
        [PRIVATE],
        ["169.254.169.254"],
        ["::1"],
        ["::ffff:10.0.0.1"],
        ["64:ff9b::7f00:1"],
        [OPEN, PRIVATE],
        [PRIVATE, OPEN],
        ["2606:4700:4700::1111", "fd00::1"],
        [OPEN, "8.8.8.8", "fe80::1"],
    ],
)
async def test_a_name_with_one_forbidden_address_is_refused_as_a_whole(
    channel: WebhookChannel,
    names: dict[str, list[list[str]]],
    sockets: type[CountedSocket],
    found: list[str],
) -> None:
    names["evil.example"] = [found]
    result = await channel.deliver(to("https://evil.example/"))
    assert is_refused(result)
    assert "evil.example resolves to" in str(result.error)
    assert sockets.made == 0


async def test_a_name_that_was_public_when_it_was_checked_is_refused_when_it_is_not(
    channel: WebhookChannel, names: dict[str, list[list[str]]], sockets: type[CountedSocket]
) -> None:
    names["evil.example"] = [[OPEN], [PRIVATE]]
    assert await Guard().resolve("evil.example", 443)
    assert is_refused(await channel.deliver(to("https://evil.example/")))
    assert sockets.made == 0


async def test_a_connection_goes_to_an_address_that_was_checked(
    names: dict[str, list[list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that flips after its lookup is not looked up again for the same connection."""
    names["evil.example"] = [[OPEN], [PRIVATE]]
    called: list[object] = []

    async def connect(_: object, __: object, address: object) -> None:
        called.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(type(asyncio.get_running_loop()), "sock_connect", connect)
    channel = WebhookChannel(Guard())
    result = await channel.deliver(to("https://evil.example/"))
    await channel.close()
    assert (result.kind, {*called}) == (ErrorKind.CONNECT, {(OPEN, 443)})


async def test_a_name_that_is_not_resolved_fails_closed(
    channel: WebhookChannel, sockets: type[CountedSocket]
) -> None:
    result = await channel.deliver(to("https://nowhere.example/"))
    assert (result.is_delivered, result.kind, result.is_permanent) == (False, ErrorKind.DNS, False)
    assert sockets.made == 0


async def test_a_name_without_addresses_fails_closed(
    channel: WebhookChannel, names: dict[str, list[list[str]]], sockets: type[CountedSocket]
) -> None:
    names["empty.example"] = [[]]
    result = await channel.deliver(to("https://empty.example/"))
    assert (result.is_delivered, result.kind) == (False, ErrorKind.DNS)
    assert sockets.made == 0


class NameServer:
    """Answers for `good.example`; it hangs for all other names until it is released."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.released = threading.Event()
        system = socket.getaddrinfo

        def lookup(host: str, port: Any, *_: Any) -> list[tuple[Any, ...]]:
            self.asked.append(host)
            if host != "good.example":
                self.released.wait(60.0)
                raise socket.gaierror(socket.EAI_AGAIN, "no answer")
            return [*system("127.0.0.1", port, type=socket.SOCK_STREAM)]

        monkeypatch.setattr(socket, "getaddrinfo", lookup)


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameServer]:
    made = NameServer(monkeypatch)
    yield made
    made.released.set()


async def test_name_servers_that_hang_hold_up_nothing_else(name_server: NameServer) -> None:
    async with receiver() as server:
        port = server.url.rpartition(":")[2]
        channel = WebhookChannel(Guard(["good.example"]))
        hosts = [f"bad{number}.example" for number in range(40)]
        hanging = [
            asyncio.create_task(channel.deliver(to(f"https://{host}/")))
            for host in hosts
            for _ in range(5)
        ]
        async with asyncio.timeout(15.0):
            await eventually(lambda: {*name_server.asked} == {*hosts})
            assert await asyncio.to_thread(lambda: 1) == 1
            result = await channel.deliver(to(f"http://good.example:{port}/"))
        assert result.is_delivered
        assert not any(delivery.done() for delivery in hanging)
        assert len(name_server.asked) == len(hosts) + 1  # One lookup of each name.
        name_server.released.set()
        assert {(await delivery).kind for delivery in hanging} == {ErrorKind.DNS}
        await channel.close()


async def test_a_domain_whose_name_server_hangs_takes_few_threads(name_server: NameServer) -> None:
    async with receiver() as server:
        port = server.url.rpartition(":")[2]
        channel = WebhookChannel(Guard(["good.example"]))
        hanging = [
            asyncio.create_task(channel.deliver(to(f"https://n{number}.bad.example/")))
            for number in range(300)
        ]
        async with asyncio.timeout(15.0):
            await eventually(lambda: len(name_server.asked) == LOOKUPS_OF_DOMAIN_MAX)
            result = await channel.deliver(to(f"http://good.example:{port}/"))
        assert result.is_delivered
        assert len(name_server.asked) == LOOKUPS_OF_DOMAIN_MAX + 1
        name_server.released.set()
        assert {(await delivery).kind for delivery in hanging} == {ErrorKind.DNS}
        await channel.close()


async def test_a_lookup_that_takes_too_long_fails_closed(
    name_server: NameServer, monkeypatch: pytest.MonkeyPatch, sockets: type[CountedSocket]
) -> None:
    monkeypatch.setattr("tickwork.channel.guard.LOOKUP_SECONDS", 0.2)
    channel = WebhookChannel(Guard())
    for _ in range(2):
        result = await channel.deliver(to("https://bad.example/"))
        assert (result.kind, result.is_permanent) == (ErrorKind.DNS, False)
        assert "no answer of a name server within 0.2 s" in str(result.error)
    await channel.close()
    assert (name_server.asked, sockets.made) == (["bad.example"], 0)


async def test_an_allowed_name_is_reached_whatever_it_resolves_to(
    names: dict[str, list[list[str]]],
) -> None:
    names["inside.example"] = names["other.example"] = [[PRIVATE]]
    guard = Guard(["Inside.Example."])
    guard.check_url("http://inside.example:80/")
    guard.check_url("https://INSIDE.example.:22/")
    assert await guard.resolve("inside.example", 80)
    with pytest.raises(Refused):
        await guard.resolve("other.example", 443)
    for url in ("http://other.example/", f"https://{PRIVATE}/", "http://x.inside.example/"):
        with pytest.raises(InvalidInput):
            guard.check_url(url)


async def test_an_allowed_network_is_reached_by_address_and_by_name(
    names: dict[str, list[list[str]]],
) -> None:
    names["inside.example"] = [[PRIVATE]]
    guard = Guard([" 10.0.0.0/24 ", "fd00::/8", ""])
    guard.check_url(f"http://{PRIVATE}:80/")
    guard.check_url("http://[fd00::1]/")
    guard.check_url("https://inside.example/")
    assert await guard.resolve("inside.example", 443)
    for url in (
        "http://10.0.1.1/",
        "https://127.0.0.1/",
        "http://inside.example/",
        "https://[::1]",
    ):
        with pytest.raises(InvalidInput):
            guard.check_url(url)
    with pytest.raises(Refused):
        guard.check_address("10.0.1.0")


async def test_an_allowed_name_does_not_open_its_address_to_others(
    names: dict[str, list[list[str]]], listener: socket.socket
) -> None:
    port = listener.getsockname()[1]
    names["inside.example"] = names["evil.example"] = [["127.0.0.1"]]
    channel = WebhookChannel(Guard(["inside.example"]))
    request = WebhookRequest(
        url=f"http://inside.example:{port}/", headers={}, body=b"", timeout_seconds=0.2
    )
    assert (await channel.deliver(request)).kind is ErrorKind.TIMEOUT
    assert was_called(listener)
    for host in ("127.0.0.1", "evil.example", "0x7f.1"):
        assert is_refused(await channel.deliver(to(f"https://{host}:{port}/")))
    await channel.close()
    assert not was_called(listener)


@pytest.mark.parametrize("allowed", ["10.0.0.0/33", "a/b", "https://x", "x:80", "a b", "-", "*"])
def test_what_is_neither_a_host_nor_a_network_cannot_be_allowed(allowed: str) -> None:
    with pytest.raises(InvalidInput, match="allow_targets: "):
        Guard([allowed])
