"""`python -m examples.brand_engine.run` runs all services and shows one cycle of a brand."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from examples.brand_engine.agents import BrandAgent
from examples.brand_engine.app import app
from examples.brand_engine.desk import drafts, request_research, review

BRAND = "llc-tax"
KEYWORDS = ["llc taxes", "s-corp vs llc", "llc operating agreement"]
POLL_SECONDS = 0.1
WAIT_SECONDS_MAX = 60.0


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(WAIT_SECONDS_MAX):
        while not await is_so():  # noqa: ASYNC110  what is awaited is in the database
            await asyncio.sleep(POLL_SECONDS)


async def summary() -> dict[str, Any]:
    """Return what the brand has."""
    found: dict[str, Any] = await app.entity(BrandAgent, BRAND).summary()
    return found


async def show_cycle() -> None:
    """Research three keywords, approve two of the drafts, reject one, and show what became of
    them."""
    before = await summary()
    cycle = await request_research(BRAND, KEYWORDS)
    print(f"{cycle}: research of {', '.join(KEYWORDS)}")

    def change(seen: dict[str, Any], name: str) -> int:
        number: int = seen.get(name, 0) - before.get(name, 0)
        return number

    async def all_researched() -> bool:
        return change(await summary(), "researched") == len(KEYWORDS)

    await until(all_researched)
    waiting = await drafts(BRAND)
    print(f"{len(waiting)} {'draft waits' if len(waiting) == 1 else 'drafts wait'} for a review")
    for keyword, content_id in waiting.items():
        approved = keyword != KEYWORDS[-1]
        await review(content_id, approved=approved, comment="too short")
        print(f"{content_id}: {keyword}: {'approved' if approved else 'rejected'}")

    async def all_ended() -> bool:
        seen = await summary()
        ended = change(seen, "published") + change(seen, "archived")
        return change(seen, "posted") == change(seen, "published") and ended == len(waiting)

    await until(all_ended)
    seen = await summary()
    for keyword, status in seen["content"].items():
        print(f"{keyword}: {status}")
    for url in seen["pages"].values():
        print(url)


async def main() -> None:
    """Run workers and scheduler in this process while the cycle is shown."""
    try:
        async with app.running():
            await show_cycle()
    finally:
        await app.close()


if __name__ == "__main__":
    asyncio.run(main())
