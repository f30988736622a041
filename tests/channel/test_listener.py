"""`tickwork listen`: what a developer reads about a webhook, and what its sender is answered."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp

from tickwork.channel.listener import Listener
from tickwork.clock import now
from tickwork.core.delivery.signature import new_secret, secret_key, signature_headers

BODY = b'{"hello": "world"}'


async def test_a_webhook_is_shown_with_what_is_wrong_with_its_signature() -> None:
    own, other, shown = new_secret(b"a" * 32), new_secret(b"b" * 32), list[str]()
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(Listener([own], shown.append).serve(0, port.set_result))
    url = f"http://127.0.0.1:{await port}/in"
    statuses = []
    async with aiohttp.ClientSession() as session:
        for secret in (own, other, None):
            headers = {}
            if secret is not None:
                headers = dict(signature_headers([secret_key(secret)], "1", now(), BODY))
            async with session.post(url, data=BODY, headers=headers) as answer:
                statuses.append(answer.status)
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    assert statuses == [200, 401, 401]
    first, second, third = (line for line in shown if line.startswith("POST"))
    assert first == "POST /in  signed"
    assert second.startswith("POST /in  NOT VALID: it is signed with another secret")
    assert third == "POST /in  NOT SIGNED"
    assert f"  {BODY.decode()}" in shown
