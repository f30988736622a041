"""Webhooks over real connections: what arrives, and receivers that misbehave.

Every delivery here has to end by itself: `bounded` fails a test that hangs.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.channel.receiver import (
    Behaviour,
    Receiver,
    bad_receivers,
    certificate_context,
    keeps_latency,
    receiver,
    wire,
)
from tests.kit.soak import examples
from tests.kit.waiting import delay, eventually
from tickwork.channel.guard import Guard
from tickwork.channel.webhook import ANSWER_BYTES_MAX, WebhookChannel, explained
from tickwork.core.delivery.outcome import EXCERPT_CHARACTERS_MAX, Delivery, ErrorKind
from tickwork.core.delivery.request import WebhookRequest

SHORT, GENEROUS = 0.3, 30.0
"""Seconds of a timeout that a test waits for, and of one that it never reaches."""

BEGIN = 1.0
"""Seconds until an answer must begin."""

HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
async def server() -> AsyncIterator[Receiver]:
    async with receiver() as made:
        yield made


@pytest.fixture
async def channel() -> AsyncIterator[WebhookChannel]:
    made = WebhookChannel(Guard(["127.0.0.1/32"]))
    yield made
    await made.close()


def to(url: str, timeout_seconds: float = GENEROUS, **fields: Any) -> WebhookRequest:
    values: dict[str, Any] = {"headers": {}, "body": b"{}", **fields}
    return WebhookRequest(url=url, timeout_seconds=timeout_seconds, **values)


async def bounded(channel: WebhookChannel, request: WebhookRequest) -> Delivery:
    async with asyncio.timeout(GENEROUS):
        return await channel.deliver(request)


def kept(channel: WebhookChannel) -> list[Any]:
    """The connections that a channel keeps for its next requests."""
    assert channel._session is not None
    connector: Any = channel._session.connector
    return [protocol for conn in connector._conns.values() for protocol, _ in conn]


async def from_wire(
    channel: WebhookChannel, behaviour: Behaviour, timeout_seconds: float = GENEROUS
) -> Delivery:
    async with wire(behaviour) as url:
        return await bounded(channel, to(url, timeout_seconds))


def sends(*parts: bytes) -> Behaviour:
    """A receiver that sends some bytes and closes."""

    async def behaviour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.writelines(parts)
        await writer.drain()
        writer.close()

    return behaviour


async def test_the_request_arrives_as_it_was_built(
    channel: WebhookChannel, server: Receiver
) -> None:
    server.answer = lambda: web.Response(status=202, text="thanks")
    headers = {"webhook-id": "msg_1", "content-type": "text/x", "X-Latin": "ä", "user-agent": "me"}
    request = to(f"{server.url}/in?a=%2F&b", method="PUT", headers=headers, body=b"\0body")
    result = await bounded(channel, request)
    assert (result.is_delivered, result.code, result.excerpt) == (True, 202, "thanks")
    assert 0.0 < result.took_seconds < GENEROUS
    (got, body) = server.requests[0]
    assert (got.method, got.raw_path, body) == ("PUT", "/in?a=%2F&b", b"\0body")
    assert got.headers.getall("content-type") == ["text/x"]
    assert got.headers.getall("user-agent") == ["me"]
    assert got.headers["webhook-id"] == "msg_1"
    assert "Accept-Encoding" not in got.headers


async def test_a_path_is_sent_as_it_was_given(channel: WebhookChannel, server: Receiver) -> None:
    paths = ["/", "/a%2Fb", "/a/../b", "/%7Euser", "/a+b?c=%20+%2F", "/?x=1&x=2", "/%00%ff", "/?"]
    for path in ("", *paths, "/#fragment"):
        assert (await bounded(channel, to(f"{server.url}{path}"))).is_delivered
    sent = [request.raw_path for request, _ in server.requests]
    assert sent == ["/", *paths[:-1], "/", "/"]


@pytest.mark.parametrize("status", [400, 401, 404, 410, 429, 500, 503])
async def test_a_failing_answer_keeps_its_status_and_text(
    channel: WebhookChannel, server: Receiver, status: int
) -> None:
    server.answer = lambda: web.Response(
        status=status, text="no, token=abc", headers={"retry-after": "9"}
    )
    result = await bounded(channel, to(server.url, permanent_statuses=frozenset({404})))
    assert (result.kind, result.code, result.excerpt) == (ErrorKind.HTTP, status, "no, ***")
    assert result.retry_after_seconds == 9.0
    assert (result.is_permanent, result.is_gone) == (status == 404, status == 410)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(
    channel: WebhookChannel, server: Receiver, status: int
) -> None:
    places = iter(("http://169.254.169.254/", f"{server.url}/other", "//10.0.0.1", "not a url"))
    server.answer = lambda: web.Response(status=status, headers={"Location": next(places)})
    for _ in range(4):
        result = await bounded(channel, to(server.url))
        assert (result.kind, result.code) == (ErrorKind.HTTP, status)
    assert [request.path for request, _ in server.requests] == ["/"] * 4


async def test_a_proxy_of_the_environment_is_not_used(
    channel: WebhookChannel, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert (await bounded(channel, to(server.url))).is_delivered


async def test_cookies_of_one_answer_are_not_sent_with_the_next_request(
    channel: WebhookChannel, server: Receiver
) -> None:
    server.answer = lambda: web.Response(headers={"Set-Cookie": "session=1"})
    for _ in range(2):
        await bounded(channel, to(server.url))
    assert ["Cookie" in request.headers for request, _ in server.requests] == [False, False]


async def test_connections_are_reused(channel: WebhookChannel, server: Receiver) -> None:
    server.answer = lambda: web.Response(status=500, text="x" * 1_000)
    for _ in range(20):
        await bounded(channel, to(server.url))
    assert len(server.connections) == 1


async def test_a_receiver_that_never_answers_times_out(channel: WebhookChannel) -> None:
    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    result = await from_wire(channel, silent, SHORT)
    assert (result.is_delivered, result.kind) == (False, ErrorKind.TIMEOUT)
    assert result.error == "no answer began within 0.3 s"
    assert result.took_seconds >= SHORT


async def test_an_answer_has_its_own_time_to_begin(
    channel: WebhookChannel, server: Receiver
) -> None:
    """Once it has begun, it may take the whole timeout."""

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 2\r\n\r\no")
        await delay(BEGIN + SHORT)
        writer.write(b"k")

    async with wire(slow) as url:
        silent, whole, late = await asyncio.gather(
            bounded(channel, to(f"{server.url}/hang", first_byte_seconds=BEGIN)),
            bounded(channel, to(url, first_byte_seconds=BEGIN)),
            bounded(channel, to(url, BEGIN, first_byte_seconds=BEGIN)),
        )
    assert (silent.kind, silent.error) == (ErrorKind.TIMEOUT, "no answer began within 1 s")
    assert BEGIN <= silent.took_seconds < GENEROUS
    assert (whole.is_delivered, whole.excerpt) == (True, "ok")
    assert (late.kind, late.error) == (
        ErrorKind.TIMEOUT,
        "the answer was not complete within 1 s",
    )


async def test_an_answer_may_take_the_whole_timeout(
    channel: WebhookChannel, server: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No other timeout ends the wait for it: aiohttp knows one for the time between two reads."""
    timeouts: list[Any] = []
    request = aiohttp.ClientSession.request

    def watched(session: aiohttp.ClientSession, *words: Any, timeout: Any, **more: Any) -> Any:
        timeouts.append(timeout)
        return request(session, *words, timeout=timeout, **more)

    monkeypatch.setattr(aiohttp.ClientSession, "request", watched)
    assert (await bounded(channel, to(server.url, timeout_seconds=300.0))).is_delivered
    assert [(request_timeout.total, request_timeout.sock_read) for request_timeout in timeouts] == [
        (None, None)
    ]


@pytest.mark.soak
async def test_an_answer_after_40_seconds_succeeds_within_a_timeout_of_300(
    channel: WebhookChannel,
) -> None:
    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await delay(40.0)
        writer.write(HEAD + b"Content-Length: 2\r\n\r\nok")

    async with wire(slow) as url:
        result = await channel.deliver(to(url, timeout_seconds=300.0))
    assert (result.is_delivered, result.excerpt) == (True, "ok")


@pytest.mark.parametrize("start", [b"", HEAD, HEAD + b"Content-Length: 1000\r\n\r\n"])
async def test_a_receiver_that_sends_one_byte_at_a_time_times_out(
    channel: WebhookChannel, start: bytes
) -> None:
    async def drip(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        for byte in (b"" if start else HEAD) + b"X-A: " + b"a" * 100_000:
            writer.write(bytes([byte]))
            await writer.drain()
            await delay(0.01)

    result = await from_wire(channel, drip, SHORT)
    assert (result.is_delivered, result.kind) == (False, ErrorKind.TIMEOUT)
    if not start.endswith(b"\r\n\r\n"):
        assert result.error == "no answer began within 0.3 s"


@pytest.mark.parametrize(
    "head",
    [
        HEAD + b"\r\n",
        HEAD + b"Content-Length: 99999999999\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nfffffff\r\n",
    ],
)
async def test_an_endless_body_is_cut_and_costs_its_connection(
    channel: WebhookChannel, head: bytes
) -> None:
    sent = 0
    is_cut = asyncio.Event()

    async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(head)
        try:
            while True:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536
        finally:
            is_cut.set()

    async with wire(endless) as url:
        result = await bounded(channel, to(url))
        assert (result.is_delivered, result.code) == (True, 200)
        assert result.excerpt == "x" * EXCERPT_CHARACTERS_MAX
        async with asyncio.timeout(GENEROUS):
            await is_cut.wait()
    assert sent < 100_000_000


async def test_a_long_answer_does_not_spoil_the_next_one(
    channel: WebhookChannel, server: Receiver
) -> None:
    server.answer = lambda: web.Response(text="a" * (ANSWER_BYTES_MAX * 20))
    assert (await bounded(channel, to(server.url))).is_delivered
    server.answer = lambda: web.Response(text="short")
    assert (await bounded(channel, to(server.url))).excerpt == "short"


@pytest.mark.parametrize("encoding", ["gzip", "GZIP", "deflate", "br", "gzip, gzip", "zstd", "x"])
async def test_a_compressed_answer_is_not_unpacked(
    channel: WebhookChannel, server: Receiver, encoding: str
) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    server.answer = lambda: web.Response(body=bomb, headers={"Content-Encoding": encoding})
    result = await bounded(channel, to(server.url))
    assert (result.is_delivered, result.excerpt) == (True, None)


@pytest.mark.parametrize(
    "parts",
    [
        (),
        (b"HTTP/1.1 20",),
        (HEAD, b"Content-Len"),
        (HEAD, b"Content-Length: 100\r\n\r\nhalf"),
        (HEAD, b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"),
        (HEAD, b"Transfer-Encoding: chunked\r\n\r\nzz\r\nab"),
        (b"SSH-2.0-OpenSSH_9.6\r\n",),
        (b"\0" * 1_000,),
        (b"HTTP/9.9 abc\r\n\r\n",),
        (HEAD, b"Content-Length: -1\r\n\r\n"),
        (HEAD, b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef"),
        (HEAD, b"X-Long: ", b"a" * 100_000, b"\r\n\r\n"),
        (HEAD, b"X-A: 1\r\n" * 20_000, b"\r\n"),
        (b"HTTP/1.1 503 \xff\xfe\r\nRetry-After: \xff\r\nContent-Length: 0\r\nX: \0\r\n\r\n",),
        (HEAD, b"token=Q0FGRUJBQkU\r\n\r\n"),
    ],
)
async def test_a_broken_answer_is_a_failed_connection(
    channel: WebhookChannel, parts: tuple[bytes, ...]
) -> None:
    result = await from_wire(channel, sends(*parts))
    assert (result.is_delivered, result.kind, result.code) == (False, ErrorKind.CONNECT, None)
    assert result.error
    assert len(result.error) <= EXCERPT_CHARACTERS_MAX
    assert not {"\0", "\ud800"} & {*result.error}
    assert "Q0FG" not in result.error


async def test_a_reset_in_mid_answer_is_a_failed_connection(channel: WebhookChannel) -> None:
    async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        await writer.drain()
        writer.transport.abort()

    result = await from_wire(channel, reset)
    assert (result.is_delivered, result.kind) == (False, ErrorKind.CONNECT)


async def test_a_connection_that_was_closed_while_it_was_kept_is_no_failure(
    channel: WebhookChannel, server: Receiver
) -> None:
    await bounded(channel, to(server.url))
    transport = server.requests[0][0].transport
    assert transport is not None
    transport.close()
    await eventually(lambda: not any(connection.is_connected() for connection in kept(channel)))
    assert (await bounded(channel, to(server.url))).is_delivered


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_a_request_is_sent_once_when_a_kept_connection_breaks(
    channel: WebhookChannel, method: str
) -> None:
    requests: list[bytes] = []

    async def answer_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(2)
        requests.append(b"first")
        writer.write(HEAD + b"Content-Length: 2\r\n\r\nok")
        await writer.drain()
        requests.append(await reader.readuntil(b"\r\n\r\n{}"))
        writer.transport.abort()

    async with wire(answer_one) as url:
        assert (await bounded(channel, to(url, method=method))).is_delivered
        result = await bounded(channel, to(url, method=method))
    assert (result.is_delivered, result.kind) == (False, ErrorKind.CONNECT)
    assert len(requests) == 2


async def test_a_port_that_nobody_listens_on_is_a_failed_connection(
    channel: WebhookChannel,
) -> None:
    async with receiver() as gone:
        url = gone.url
    result = await bounded(channel, to(url))
    assert (result.is_delivered, result.kind) == (False, ErrorKind.CONNECT)
    assert "the connection failed" in str(result.error)


@pytest.mark.parametrize("days", [1, -1])
async def test_a_certificate_that_nobody_vouches_for_is_refused(
    channel: WebhookChannel, tmp_path: Path, days: int
) -> None:
    async with receiver(certificate_context(tmp_path, days=days)[0]) as server:
        result = await bounded(channel, to(server.url))
    assert (result.is_delivered, result.kind) == (False, ErrorKind.TLS)
    assert "certificate" in str(result.error).lower()
    assert server.requests == []


@pytest.mark.parametrize(
    ("days", "host", "kind"),
    [(1, "127.0.0.1", None), (-1, "127.0.0.1", ErrorKind.TLS), (1, "127.0.0.2", ErrorKind.TLS)],
)
async def test_a_trusted_certificate_has_to_be_current_and_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int, host: str, kind: ErrorKind | None
) -> None:
    context, pem = certificate_context(tmp_path, days=days, host=host)
    guard = Guard(["127.0.0.1"])
    connector = guard.connector
    trusting = ssl.create_default_context(cafile=pem)
    monkeypatch.setattr(guard, "connector", lambda **more: connector(ssl=trusting, **more))
    channel = WebhookChannel(guard)
    async with receiver(context) as server:
        result = await bounded(channel, to(server.url))
        await channel.close()
    assert (result.is_delivered, result.kind) == (kind is None, kind)


async def test_plain_http_where_tls_is_asked_for_is_a_tls_failure(
    channel: WebhookChannel, server: Receiver
) -> None:
    result = await bounded(channel, to(server.url.replace("http:", "https:")))
    assert (result.is_delivered, result.kind) == (False, ErrorKind.TLS)


async def latencies(channel: WebhookChannel, url: str, number: int = 100) -> list[float]:
    """Seconds that deliveries took, ten at a time."""
    seconds: list[float] = []
    for _ in range(number // 10):
        results = await asyncio.gather(*(bounded(channel, to(url)) for _ in range(10)))
        assert all(result.is_delivered for result in results)
        seconds += [result.took_seconds for result in results]
    return seconds


async def test_bad_receivers_do_not_delay_others(server: Receiver) -> None:
    channel = WebhookChannel(Guard(["127.0.0.0/8"]))

    async def again_and_again(url: str) -> None:
        while True:
            await channel.deliver(to(url, 300.0))

    async with bad_receivers() as bad, receiver() as silent:
        alone = await latencies(channel, server.url)
        hanging = [
            asyncio.create_task(channel.deliver(to(f"{silent.url}/hang", 300.0)))
            for _ in range(200)
        ]
        pressing = [asyncio.create_task(again_and_again(url)) for url in bad for _ in range(5)]
        await eventually(lambda: len(silent.requests) == len(hanging))
        beside = await latencies(channel, server.url)
        assert keeps_latency(alone, beside), (alone, beside)
        assert not any(task.done() for task in (*hanging, *pressing))
        silent.ended.set()
        assert all(delivery.is_delivered for delivery in await asyncio.gather(*hanging))
        for task in pressing:
            task.cancel()
        await asyncio.wait(pressing)
    await channel.close()


async def test_a_cancelled_delivery_stops_at_once(
    channel: WebhookChannel, server: Receiver
) -> None:
    task = asyncio.create_task(channel.deliver(to(f"{server.url}/hang")))
    await eventually(lambda: server.requests)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_closed_channel_opens_again_for_the_next_delivery(
    channel: WebhookChannel, server: Receiver
) -> None:
    for _ in range(2):
        assert (await bounded(channel, to(server.url))).is_delivered
        await channel.close()


async def test_closing_fails_what_is_under_way_and_raises_nothing(
    channel: WebhookChannel, server: Receiver
) -> None:
    task = asyncio.create_task(channel.deliver(to(f"{server.url}/hang")))
    await eventually(lambda: server.requests)
    await channel.close()
    async with asyncio.timeout(GENEROUS):
        assert not (await task).is_delivered


_HOSTS = st.sampled_from(
    ["127.0.0.1:1", "127.0.0.1", "[::1]", "0", "xn--a", "xn--", "a" * 70, "localhost:1", "%", ""]
)
_PATHS = st.text(st.sampled_from("/?#%&=@:[]\\ \r\n\0é\ud800ａ.a0;"), max_size=9)
_STARTS = st.sampled_from(["http://", "https://", "HTTP://", "ws://", "//", ""])
_URLS = st.tuples(_STARTS, _HOSTS, _PATHS).map("".join)


@given(
    url=_URLS | st.text(max_size=20),
    name=st.text("aZ-:\r\n\0 é\ud800", max_size=4),
    value=st.text("a \t\r\n\0é\ud800日", max_size=4),
    method=st.sampled_from(["POST", "GET", "DELETE", "", "A B", "é"]),
)
@settings(max_examples=examples(150))
def test_no_url_header_or_method_makes_a_delivery_raise(
    url: str, name: str, value: str, method: str
) -> None:
    async def deliver() -> Delivery:
        channel = WebhookChannel(Guard(["127.0.0.1", "::1", "a", "localhost", "0.0.0.0/8"]))
        try:
            return await bounded(channel, to(url, headers={name: value}, method=method))
        finally:
            await channel.close()

    result = asyncio.run(deliver())
    assert not result.is_delivered
    assert result.kind is not None
    assert result.error


async def test_an_answer_does_not_show_the_secrets_of_its_request(
    channel: WebhookChannel, server: Receiver
) -> None:
    repeated = "Basic c2VjcmV0OnNlY3JldA=="
    server.answer = lambda: web.Response(
        status=400, text="x" * 990 + server.requests[-1][0].headers["X-Shop"]
    )
    request = to(server.url, headers={"X-Shop": repeated}, secrets=frozenset({repeated, "x"}))
    result = await bounded(channel, request)
    assert result.excerpt == "x" * 990 + "***"


async def test_an_error_does_not_show_the_url(channel: WebhookChannel) -> None:
    async with wire(sends(b"HTTP/1.1 nonsense\r\n\r\n")) as url:
        result = await bounded(channel, to(f"{url}services/T0/secret?of=mine"))
    assert result.kind is ErrorKind.CONNECT
    assert "secret" not in str(result.error)
    timed_out = aiohttp.ConnectionTimeoutError("Connection timeout to host https://a.b/secret")
    kind, error = explained(timed_out)
    assert (kind, error) == (ErrorKind.TIMEOUT, "no connection within 10 s")
