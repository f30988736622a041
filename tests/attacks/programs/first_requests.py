"""Prints how long the first request that needs rarely used code holds the loop of a new server."""

from __future__ import annotations

import asyncio
import sys
from base64 import b64encode

from prometheus_client import CollectorRegistry

from tests.attacks.loop_holds import loop_holds
from tests.kit.api import bearer, in_process, new_key
from tickwork.wiring import Settings, open_store
from tickwork.wiring.server import build_api

KEY = b64encode(bytes(32)).decode()


async def main(database: str) -> None:
    """Registers an endpoint that nobody serves, and tests it."""
    settings = Settings(database=database, secret_key=KEY, allow_targets=("127.0.0.1",))
    store = await open_store(settings)
    token = await new_key(store)
    await store.close()
    api = build_api(settings, registry=CollectorRegistry())
    assert "aiohttp" not in sys.modules
    async with in_process(api, **bearer(token)) as client, loop_holds() as holds:
        await client.get("/v1/queues")
        body = {"name": "crm", "url": "https://127.0.0.1:1/", "types": ["*"]}
        made, seconds = await holds.during(client.post("/v1/endpoints", json=body))
        assert made.status_code == 201, made.text
        sys.stdout.write(f"create {seconds}\n")
        path = f"/v1/endpoints/{made.json()['id']}/test"
        tested, seconds = await holds.during(client.post(path))
        assert tested.status_code == 200, tested.text
        assert "aiohttp" in sys.modules
        sys.stdout.write(f"test {seconds}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
