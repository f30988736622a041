"""Research: what GatherFeed found, by brand and keyword."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import NAMESPACE_URL, uuid5

from examples.brand_engine import outside
from examples.brand_engine.messages import app
from tickwork import Entity, read

FRESH = timedelta(days=7)
"""Time for which research is used again, since searching costs money."""


@app.entities.register
class Research(Entity):
    """What is known about one keyword of one brand. Its key is `brand/keyword`."""

    async def ensure(self, keyword: str) -> str:
        """Search if nothing fresh is stored, and return the id of the research."""
        stored = await self.storage.get("research")
        if stored is None or self.now - datetime.fromisoformat(stored["at"]) >= FRESH:
            at = self.now.isoformat()
            stored = {
                "id": f"r-{uuid5(NAMESPACE_URL, f'{self.key} {at}')}",
                "at": at,
                "facts": await outside.search(keyword),
            }
            await self.storage.put("research", stored)
        return str(stored["id"])

    @read
    async def facts(self) -> list[str]:
        """Return the facts that were found."""
        facts: list[str] = (await self.storage.get("research"))["facts"]
        return facts
