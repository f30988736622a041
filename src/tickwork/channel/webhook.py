"""Delivers webhooks over HTTP.

Contract: `deliver` never raises, except when it is cancelled. It ends within the timeout of the
request, whatever the receiver does, and earlier if the answer does not begin within the request's
`first_byte_seconds`. It reads a bounded part of the answer. It follows no redirects and uses no
proxy of the environment. Connections to a host are kept open and reused.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime

import aiohttp
from aiohttp import hdrs
from msgspec import structs
from yarl import URL

from tickwork import spans
from tickwork.channel.guard import Guard, Refused
from tickwork.clock import monotonic, now
from tickwork.core.delivery.outcome import Delivery, ErrorKind, answered, failed
from tickwork.core.delivery.request import WebhookRequest
from tickwork.errors import InvalidInput

CONNECT_SECONDS = 10.0
"""Seconds that a connection may take. The answer may take the whole timeout of the request."""

ANSWER_BYTES_MAX = 16_384
"""Bytes of an answer that are read; the connection is closed if there are more."""

IN_FLIGHT_MAX = 10_000
KEEPALIVE_SECONDS = 30.0
USER_AGENT = "Tickwork"
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS)
_NO_SPAN = nullcontext()
_ADDRESS = re.compile(
    r"\(?'?(?:\d{1,3}(?:\.\d{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)'?[^)\s]*\)?"
)
"""An IP address in a text, with its port."""


class _Request(aiohttp.ClientRequest):
    """A request without `Accept-Encoding`: a small answer may be a very large text."""

    DEFAULT_HEADERS = {hdrs.ACCEPT: "*/*"}  # noqa: RUF012


class WebhookChannel:
    """Sends requests over connections that it keeps; the first request opens them."""

    def __init__(self, guard: Guard, *, clock: Callable[[], datetime] = now) -> None:
        self._guard = guard
        self._clock = clock
        self._deadlines = Deadlines()
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Closes the connections that were kept."""
        session, self._session = self._session, None
        self._deadlines = Deadlines()  # Its timers belong to the event loop, as connections do.
        if session is not None:
            await session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._guard.connector(
                    limit=IN_FLIGHT_MAX, keepalive_timeout=KEEPALIVE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                trust_env=False,
                request_class=_Request,
            )
            # The client would send a PUT or DELETE again by itself when a kept connection breaks,
            # also one that the receiver has read, and that is sent at most once.
            self._session._retry_connection = False  # noqa: SLF001
        return self._session

    async def deliver(self, request: WebhookRequest) -> Delivery:
        """Sends one request and returns what became of it."""
        started_at, response = monotonic(), None
        try:
            with self._deadlines.within(request.timeout_seconds), _span(request) as span:
                self._guard.check_url(request.url)
                response = await self._send(request)
                async with response:
                    result = await self._read(response, request)
                if span is not None:
                    span.set_attribute("http.response.status_code", response.status)
        except InvalidInput as error:
            result = failed(ErrorKind.REFUSED, str(error))
        except aiohttp.ClientError as error:
            result = failed(*explained(error), secrets=request.secrets)
        except TimeoutError:
            result = failed(ErrorKind.TIMEOUT, _too_late(request, has_begun=response is not None))
        except (OSError, ValueError) as error:
            result = failed(*explained(error), secrets=request.secrets)
        return structs.replace(result, took_seconds=monotonic() - started_at)

    async def _send(self, request: WebhookRequest) -> aiohttp.ClientResponse:
        """Sends a request, and returns its answer when that begins."""
        own = {"User-Agent": USER_AGENT}
        if (current := spans.traceparent()) is not None:
            own[spans.TRACEPARENT] = current
        sent = self._opened().request(
            request.method,
            URL(request.url, encoded=True),  # As it was given: `%2F` in a query stays.
            data=request.body,
            headers={**own, **request.headers},
            allow_redirects=False,
            timeout=_TIMEOUT,
        )
        if request.first_byte_seconds is None:
            return await sent
        with self._deadlines.within(request.first_byte_seconds):
            return await sent

    async def _read(self, response: aiohttp.ClientResponse, request: WebhookRequest) -> Delivery:
        return answered(
            response.status,
            response.headers,
            await _start_of(response),
            self._clock(),
            permanent_statuses=request.permanent_statuses,
            secrets=request.secrets,
        )


def _span(request: WebhookRequest) -> AbstractContextManager[spans.Span | None]:
    """The span of a request, if requests are traced."""
    if not spans.is_on():
        return _NO_SPAN
    host = URL(request.url, encoded=True).host
    where = {"http.request.method": request.method, "server.address": host or ""}
    return spans.span(request.method, "client", where)


def _too_late(request: WebhookRequest, *, has_begun: bool) -> str:
    """Which part of an exchange took too long."""
    if has_begun:
        return f"the answer was not complete within {request.timeout_seconds:g} s"
    seconds = request.first_byte_seconds or request.timeout_seconds
    return f"no answer began within {seconds:g} s"


async def _start_of(response: aiohttp.ClientResponse) -> str:
    """The first bytes of an answer. A longer or compressed one costs its connection."""
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        response.close()
        return ""
    content, read = response.content, bytearray()
    while not content.at_eof():
        read += await content.readany()
        if len(read) > ANSWER_BYTES_MAX:
            response.close()
            break
    return bytes(read[:ANSWER_BYTES_MAX]).decode("utf-8", errors="replace")


class Deadlines:
    """Timeouts as `asyncio.timeout` has them, with one timer for all blocks that may take equally
    long. To set and cancel a timer for each costs more than to sign a request."""

    def __init__(self) -> None:
        self._open: dict[float, dict[_Deadline, None]] = {}

    def within(self, seconds: float) -> _Deadline:
        """A block that is cancelled after so many seconds, and then raises `TimeoutError`."""
        return _Deadline(self, seconds)

    def add(self, deadline: _Deadline, seconds: float) -> dict[_Deadline, None]:
        """Watches a deadline until it is removed from what this returns."""
        waiting = self._open.get(seconds)
        if waiting is None:
            waiting = self._open[seconds] = {}
            asyncio.get_running_loop().call_at(deadline.at, self._expire, seconds)
        waiting[deadline] = None
        return waiting

    def _expire(self, seconds: float) -> None:
        loop, waiting = asyncio.get_running_loop(), self._open[seconds]
        while waiting:
            first = next(iter(waiting))  # They are in the order of their times.
            if first.at > loop.time():
                loop.call_at(first.at, self._expire, seconds)
                return
            del waiting[first]
            first.expire()
        del self._open[seconds]


class _Deadline:
    """One block."""

    __slots__ = ("_cancelling", "_deadlines", "_is_over", "_seconds", "_task", "_waiting", "at")

    def __init__(self, deadlines: Deadlines, seconds: float) -> None:
        self._deadlines = deadlines
        self._seconds = seconds
        self._is_over = False

    def __enter__(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task(loop)
        assert task is not None
        self._task, self._cancelling = task, task.cancelling()
        self.at = loop.time() + self._seconds
        self._waiting = self._deadlines.add(self, self._seconds)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: object
    ) -> None:
        self._waiting.pop(self, None)
        # If more cancellations are left than before, somebody else cancelled the task, too.
        is_alone = self._is_over and self._task.uncancel() <= self._cancelling
        if is_alone and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancels the block."""
        self._is_over = True
        self._task.cancel()


def explained(error: Exception) -> tuple[ErrorKind, str]:
    """Where the connection failed, and why, in words."""
    cause = error
    while not isinstance(cause, Refused | ssl.SSLError) and isinstance(
        inner := getattr(cause, "os_error", None) or cause.__cause__, Exception
    ):
        cause = inner
    if isinstance(cause, Refused):
        return ErrorKind.REFUSED, str(cause)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return ErrorKind.DNS, f"the name of the host was not resolved: {cause}"
    if isinstance(error, aiohttp.ClientSSLError) or isinstance(cause, ssl.SSLError):
        return ErrorKind.TLS, f"TLS failed: {cause}"
    # Some errors of aiohttp quote the URL, whose path or query may be a secret.
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ErrorKind.TIMEOUT, f"no connection within {CONNECT_SECONDS:g} s"
    if isinstance(error, aiohttp.ServerTimeoutError):
        return ErrorKind.TIMEOUT, "the receiver did not answer in time"
    if isinstance(error, aiohttp.ClientConnectorError):
        return ErrorKind.CONNECT, f"the connection failed: {_reason(cause)}"
    if isinstance(error, aiohttp.ClientResponseError):
        return ErrorKind.CONNECT, f"the answer is not HTTP: {error.message}"
    return ErrorKind.CONNECT, f"the connection broke: {_reason(error)}"


def _reason(error: Exception) -> str:
    """Why a connection failed, without the addresses that a name resolved to: a tenant reads it,
    and must not learn what is inside the network."""
    number = getattr(error, "errno", None)
    if isinstance(error, OSError) and number and number > 0:
        return os.strerror(number).lower()
    return _ADDRESS.sub("an address", str(error)) or type(error).__name__
