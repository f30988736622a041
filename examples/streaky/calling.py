"""A call to somebody else's API, and what the answer means for the unit that made it.

| answer | what follows |
|---|---|
| 2xx | it goes on |
| 429, or any with `Retry-After` | not now: comes back when they say, and no attempt is used up |
| other 4xx | never: no repetition will make a wrong token right |
| 5xx, a broken connection, no answer in time | again, after the queue's backoff |
"""

from __future__ import annotations

from typing import Any

from aiohttp import ClientResponse, ClientSession

from tickwork import Permanent, Snooze

SNOOZE_SECONDS = 30.0
SNOOZE_SECONDS_MAX = 3_600.0


async def post(
    http: ClientSession, url: str, *, body: dict[str, Any], headers: dict[str, str]
) -> Any:
    """The answer to a POST, or the exception that says how the unit ends."""
    async with http.post(url, json=body, headers=headers) as answer:
        if answer.status == 429 or "Retry-After" in answer.headers:
            raise Snooze(_later(answer))
        if 400 <= answer.status < 500:
            raise Permanent(f"{answer.url.host} says {answer.status}: {await answer.text()}")
        answer.raise_for_status()
        return await answer.json()


def _later(answer: ClientResponse) -> float:
    said = answer.headers.get("Retry-After", "")
    # It may also be a date; then a moment has to do.
    seconds = float(said) if said.isdecimal() else SNOOZE_SECONDS
    return min(seconds, SNOOZE_SECONDS_MAX)
