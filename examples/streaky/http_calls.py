"""A POST to another service, and what its response means for the message.

| response | result |
|---|---|
| 2xx | success |
| 429, or any with `Retry-After` | snooze: run again when they say; costs no attempt |
| other 4xx | permanent failure: a wrong token stays wrong |
| 5xx, a broken connection, a timeout | retry with the queue's backoff |
"""

from __future__ import annotations

from typing import Any

from aiohttp import ClientResponse, ClientSession

from tickwork import Permanent, Snooze

SNOOZE_SECONDS = 30.0
"""Seconds to snooze if `Retry-After` is not a number of seconds."""

SNOOZE_SECONDS_MAX = 3_600.0


async def post(
    http: ClientSession, url: str, *, body: dict[str, Any], headers: dict[str, str]
) -> Any:
    """Return the decoded response, or raise what decides the message's outcome."""
    async with http.post(url, json=body, headers=headers) as response:
        if response.status == 429 or "Retry-After" in response.headers:
            raise Snooze(_retry_after_seconds(response))
        if 400 <= response.status < 500:
            text = await response.text()
            raise Permanent(f"{response.url.host} responded {response.status}: {text}")
        response.raise_for_status()
        return await response.json()


def _retry_after_seconds(response: ClientResponse) -> float:
    value = response.headers.get("Retry-After", "")
    # The header may also be a date; then use the default.
    seconds = float(value) if value.isdecimal() else SNOOZE_SECONDS
    return min(seconds, SNOOZE_SECONDS_MAX)
