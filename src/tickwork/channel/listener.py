"""A receiver of webhooks for a developer's machine: checks each signature and prints it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime

import aiohttp
from aiohttp import web

from tickwork.channel.ed25519 import PUBLIC_PREFIX, checker
from tickwork.clock import now
from tickwork.core.delivery.signature import Check, is_signed, secret_key
from tickwork.errors import FieldError, InvalidInput

BODY_BYTES_MAX = 1_000_000
SHOWN_CHARACTERS_MAX = 2_000
_FORWARD_SECONDS = 30.0
_STOP_SECONDS = 0.5
"""Seconds that webhooks under way may take after Ctrl-C."""

_OTHERWISE_SIGNED = (
    "it is signed with another secret, such as that of an endpoint: give it to --secret"
)
_SHOWN_HEADERS = ("Tickwork-Schedule", "Tickwork-Slot", "Tickwork-Attempt", "Idempotency-Key")


def _key(secret: str) -> bytes | Check:
    """The key of a secret, or of a public key."""
    return checker(secret) if secret.startswith(PUBLIC_PREFIX) else secret_key(secret)


class Listener:
    """Receives webhooks on the loopback address."""

    def __init__(
        self,
        secrets: Sequence[str],
        show: Callable[[str], None],
        *,
        forward: str | None = None,
        clock: Callable[[], datetime] = now,
    ) -> None:
        self._keys = [_key(secret) for secret in secrets]
        self._show = show
        self._forward = forward
        self._clock = clock

    async def serve(self, port: int, started: Callable[[int], None]) -> None:
        """Serves until it is cancelled; `started` gets the port."""
        application = web.Application(client_max_size=BODY_BYTES_MAX)
        application.router.add_route("*", "/{path:.*}", self._receive)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", port)
            try:
                await site.start()
            except (OSError, OverflowError) as error:
                raise InvalidInput([FieldError("--port", str(error))]) from None
            started(runner.addresses[0][1])
            await asyncio.Event().wait()
        finally:
            await runner.cleanup()

    async def _receive(self, request: web.Request) -> web.Response:
        body = await request.read()
        is_valid = is_signed(self._keys, request.headers, body, self._clock())
        said = "signed" if is_valid else "NOT SIGNED"
        if not is_valid and "webhook-signature" in request.headers:
            said = f"NOT VALID: {_OTHERWISE_SIGNED}"
        self._show(f"{request.method} {request.path}  {said}")
        for name in _SHOWN_HEADERS:
            if name in request.headers:
                self._show(f"  {name}: {request.headers[name]}")
        text = body.decode("utf-8", errors="replace")[:SHOWN_CHARACTERS_MAX]
        self._show(f"  {text}")
        if not is_valid:
            return web.Response(status=401, text="the signature is not valid")
        return await self._forwarded(request, body)

    async def _forwarded(self, request: web.Request, body: bytes) -> web.Response:
        if self._forward is None:
            return web.Response(status=200, text="ok")
        dropped = {"host", "content-length", "connection", "transfer-encoding"}
        headers = {
            name: value for name, value in request.headers.items() if name.lower() not in dropped
        }
        timeout = aiohttp.ClientTimeout(total=_FORWARD_SECONDS)
        with suppress(aiohttp.ClientError, TimeoutError, OSError):
            async with (
                aiohttp.ClientSession(timeout=timeout) as session,
                session.request(
                    request.method,
                    self._forward,
                    data=body,
                    headers=headers,
                    allow_redirects=False,  # The sender follows none.
                ) as answer,
            ):
                self._show(f"  {self._forward} answered {answer.status}")
                return web.Response(status=answer.status, body=await answer.read())
        self._show(f"  {self._forward} did not answer")
        return web.Response(status=502, text="the forward URL did not answer")
