"""A server that is killed under load has lost nothing that it answered with 201."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import httpx

from tests.faults.open_store import opened
from tests.kit.api import bearer, new_key
from tests.kit.process import Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.core.answers.ids import parse_public_id
from tickwork.core.model import DEFAULT, QueueSettings
from tickwork.core.schedule.model import ScheduleSelection

QUEUE, ALL = "orders", 1_000
CLIENTS = 8
CREATED_MIN = 120
"""Number of answers after which the server is killed, while requests are on their way."""


class Load:
    """Clients that create messages and schedules, one request after the other."""

    def __init__(self, url: str, key: str) -> None:
        self._url, self._headers = url, bearer(key)
        self.messages: set[str] = set()
        self.schedules: set[str] = set()

    @property
    def created(self) -> int:
        return len(self.messages) + len(self.schedules)

    async def run(self, number: int) -> None:
        """Sends until the server is gone."""
        async with httpx.AsyncClient(
            base_url=self._url, headers=self._headers, trust_env=False, timeout=30.0
        ) as client:
            with suppress(httpx.HTTPError):
                for turn in range(1_000_000):
                    await self._create(client, f"{number}-{turn}", turn)

    async def _create(self, client: httpx.AsyncClient, name: str, turn: int) -> None:
        messages = f"/v1/queues/{QUEUE}/messages"
        if turn % 3 == 0:
            made = (await _created(client, messages, {"body": {"name": name}}))["id"]
            self.messages.add(made)
        elif turn % 3 == 1:
            batch = {"messages": [{"body": name} for _ in range(3)]}
            self.messages.update((await _created(client, f"{messages}/batch", batch))["ids"])
        else:
            schedule = {
                "name": name,
                "interval_seconds": 86_400,
                "target": {"type": "queue", "queue": QUEUE},
            }
            self.schedules.add((await _created(client, "/v1/schedules", schedule))["id"])


async def _created(client: httpx.AsyncClient, path: str, body: object) -> dict[str, str]:
    response = await client.post(path, json=body)
    assert response.status_code == 201, response.text
    found: dict[str, str] = response.json()
    return found


async def test_everything_answered_with_201_is_there_after_a_kill(
    home: Home, children: Children
) -> None:
    async with opened(home.url) as store:
        await store.queues.put(DEFAULT, QUEUE, QueueSettings())
        key = await new_key(store)
    server = children.spawn(
        "tickwork", "up", "--roles", "api", "--port", "0", "--database", home.url
    )
    load = Load((await server.line("listens on")).split()[-1], key)
    clients = [asyncio.create_task(load.run(number)) for number in range(CLIENTS)]
    await eventually(lambda: load.created >= CREATED_MIN or any(map(_is_over, clients)))
    server.kill9()
    await asyncio.gather(*clients)
    assert load.created >= CREATED_MIN
    assert load.schedules
    async with opened(home.url) as store:
        assert len(load.messages) <= ALL
        kept = {message.id for message in await store.messages.peek(DEFAULT, QUEUE, ALL)}
        assert {parse_public_id(message) for message in load.messages} <= kept
        known = await store.schedules.list(DEFAULT, ScheduleSelection(), ALL)
        assert {parse_public_id(schedule) for schedule in load.schedules} <= {
            schedule.id for schedule in known
        }


def _is_over(task: asyncio.Task[None]) -> bool:
    return task.done()
