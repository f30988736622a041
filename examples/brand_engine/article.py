"""Articles: where the text is that messages name by its id."""

from __future__ import annotations

from typing import Any

from examples.brand_engine.messages import app
from tickwork import Entity, NotFound, read


@app.entities.register
class Article(Entity):
    """One article, by its content id: `draft`, then `published` or `archived`."""

    async def store(self, fields: dict[str, Any]) -> None:
        """Store a draft."""
        await self.storage.put("article", {**fields, "status": "draft", "url": None})

    async def publish(self, url: str) -> None:
        """Note where it is published."""
        await self.storage.put("article", {**await self.get(), "status": "published", "url": url})

    async def archive(self) -> None:
        """Take it out of use."""
        stored = await self.storage.get("article")
        if stored is not None:
            await self.storage.put("article", {**stored, "status": "archived"})

    @read
    async def get(self) -> dict[str, Any]:
        """Return the article."""
        stored: dict[str, Any] | None = await self.storage.get("article")
        if stored is None:
            raise NotFound("article", self.key)
        return stored
