"""Calls services over HTTP, over connections that are kept.

Contract: `call` ends within the timeout of the request. It follows no redirects, uses no proxy of
the environment, and refuses an answer that is too large. Whatever keeps the service from answering
is `ServiceUnavailable`; every answer, also a 500, is returned.
"""

from __future__ import annotations

import asyncio

import aiohttp
from yarl import URL

from tickwork.channel.guard import Guard
from tickwork.channel.webhook import CONNECT_SECONDS, explained
from tickwork.core.http.call import ServiceCall
from tickwork.core.http.message import ANSWER_BYTES_MAX, HttpResponse
from tickwork.errors import InvalidInput, ServiceUnavailable

CONNECTIONS_MAX = 1_000
KEEPALIVE_SECONDS = 30.0
USER_AGENT = "Tickwork"


class RemoteService:
    """A service at a URL. Open in one event loop; `close` it there."""

    def __init__(self, name: str, url: str, guard: Guard) -> None:
        """Raises `InvalidInput` for a URL that may not be reached."""
        guard.check_url(url, field=f"service {name}")
        self._name = name
        self._url = url.rstrip("/")
        self._guard = guard
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Closes the connections that were kept."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def call(self, call: ServiceCall) -> HttpResponse:
        """Sends a request and returns the answer."""
        try:
            async with asyncio.timeout(call.timeout_seconds):
                return await self._send(call)
        except TimeoutError:
            fault = f"did not answer within {call.timeout_seconds:g} seconds"
            raise ServiceUnavailable(self._name, fault) from None
        except aiohttp.ClientError as error:
            raise ServiceUnavailable(self._name, explained(error)[1]) from None
        except InvalidInput:
            raise
        except (OSError, ValueError) as error:
            raise ServiceUnavailable(self._name, explained(error)[1]) from None

    async def _send(self, call: ServiceCall) -> HttpResponse:
        async with self._opened().request(
            call.method,
            URL(f"{self._url}{call.target}", encoded=True),
            data=call.body or None,
            headers={"User-Agent": USER_AGENT, **call.headers},
            allow_redirects=False,
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > ANSWER_BYTES_MAX:
                    response.close()
                    fault = f"answered with more than {ANSWER_BYTES_MAX} bytes; ask for less"
                    raise ServiceUnavailable(self._name, fault)
            headers = {name.lower(): value for name, value in response.headers.items()}
            return HttpResponse(
                status=response.status, headers=headers, body=bytes(body), service=self._name
            )

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._guard.connector(
                    limit=CONNECTIONS_MAX, keepalive_timeout=KEEPALIVE_SECONDS
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
                trust_env=False,
            )
        return self._session
