"""GitHub, Discord and Telegram as one local server, with configurable latency and faults.

`python -m examples.streaky.fake_services --port 8099 --github-seconds 1.5 --notify-seconds 1`

The number in a login defines its commits: `user-17` committed on each of the 17 % 7 days before
the requested day, and on that day itself if the number is even. A valid token starts with `good`.
`GET /seen` returns the requests received. `PUT /faults` with `{"failing": true}` makes every call
fail with 502, with `{"limited": 3}` the next three with 429.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

DAY = timedelta(days=1)
REPOSITORY = "a-repository-with-a-rather-long-name"
CONNECTION_BACKLOG_MAX = 4_096
"""Maximum number of connections waiting to be accepted."""


class FakeServices:
    """The three services and the requests they received."""

    def __init__(self, *, github_seconds: float, notify_seconds: float) -> None:
        self._github_seconds, self._notify_seconds = github_seconds, notify_seconds
        self._is_failing, self._limited = False, 0
        self._fetched: Counter[str] = Counter()
        self._notified: Counter[str] = Counter()
        self._texts: dict[str, str] = {}

    def application(self) -> web.Application:
        """Return the web application."""
        application = web.Application()
        application.add_routes(
            [
                web.post("/graphql", self.github),
                web.post("/api/webhooks/{id}/{token}", self.discord),
                web.post("/bot{token}/sendMessage", self.telegram),
                web.get("/seen", self.seen),
                web.put("/faults", self.faults),
            ]
        )
        return application

    async def github(self, request: web.Request) -> web.Response:
        """POST /graphql: return the contributions of one user."""
        variables = (await request.json())["variables"]
        self._fetched[variables["login"]] += 1
        await asyncio.sleep(self._github_seconds)
        if fault := self._fault():
            return fault
        if not request.headers.get("Authorization", "").startswith("Bearer good"):
            return web.json_response({"message": "Bad credentials"}, status=401)
        noon = datetime.fromisoformat(variables["to"]) - DAY
        nodes = [
            {"occurredAt": day.isoformat(), "commitCount": 1} for day in _days(variables, noon)
        ]
        found = {
            "repository": {"nameWithOwner": f"{variables['login']}/{REPOSITORY}"},
            "contributions": {"nodes": nodes},
        }
        collection = {"commitContributionsByRepository": [found]}
        return web.json_response({"data": {"user": {"contributionsCollection": collection}}})

    async def discord(self, request: web.Request) -> web.Response:
        """POST /api/webhooks/ID/TOKEN?wait=true"""
        text = (await request.json())["content"]
        number = await self._accept(request, text)
        if isinstance(number, web.Response):
            return number
        return web.json_response(
            {"id": str(number), "channel_id": request.match_info["id"], "content": text}
        )

    async def telegram(self, request: web.Request) -> web.Response:
        """POST /botTOKEN/sendMessage"""
        body = await request.json()
        number = await self._accept(request, body["text"])
        if isinstance(number, web.Response):
            return number
        message = {"message_id": number, "chat": {"id": body["chat_id"]}, "text": body["text"]}
        return web.json_response({"ok": True, "result": message})

    async def seen(self, _: web.Request) -> web.Response:
        """GET /seen: requests per user, notifications per key, and their texts."""
        seen = {"fetched": self._fetched, "notified": self._notified, "texts": self._texts}
        return web.json_response(seen)

    async def faults(self, request: web.Request) -> web.Response:
        """PUT /faults: set the faults of the following requests."""
        wanted = await request.json()
        self._is_failing = bool(wanted.get("failing", False))
        self._limited = int(wanted.get("limited", 0))
        return web.json_response(wanted)

    async def _accept(self, request: web.Request, text: str) -> int | web.Response:
        """Store a notification; the same key again is the same notification."""
        await asyncio.sleep(self._notify_seconds)
        if fault := self._fault():
            return fault
        key = request.headers["Idempotency-Key"]
        self._notified[key] += 1
        self._texts[key] = text
        return len(self._texts)

    def _fault(self) -> web.Response | None:
        if self._is_failing:
            return web.Response(status=502, text="Bad Gateway")
        if self._limited > 0:
            self._limited -= 1
            headers = {"Retry-After": "1"}
            return web.json_response({"message": "limited"}, status=429, headers=headers)
        return None


def _days(variables: dict[str, Any], noon: datetime) -> list[datetime]:
    number = int(re.sub(r"\D", "", variables["login"]) or 0)
    days = [noon - DAY * back for back in range(1, number % 7 + 1)]
    return [noon, *days] if number % 2 == 0 else days


def main() -> None:
    """Serve until stopped."""
    parser = argparse.ArgumentParser(prog="python -m examples.streaky.fake_services")
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--github-seconds", type=float, default=1.5)
    parser.add_argument("--notify-seconds", type=float, default=1.0)
    arguments = parser.parse_args()
    services = FakeServices(
        github_seconds=arguments.github_seconds, notify_seconds=arguments.notify_seconds
    )
    web.run_app(
        services.application(),
        host="127.0.0.1",
        port=arguments.port,
        backlog=CONNECTION_BACKLOG_MAX,
        access_log=None,
        print=lambda line: print(line, flush=True),
    )


if __name__ == "__main__":
    main()
