"""Pages-Plus, the mouth: puts articles on the sites of the brands."""

from __future__ import annotations

from examples.brand_engine import outside
from examples.brand_engine.article import Article
from examples.brand_engine.messages import (
    PAGES_PLUS,
    Content,
    ContentPublished,
    app,
    brand_events,
)
from tickwork import Message


@app.on("publish-commands", type="content.publish")
async def publish(message: Message[Content]) -> None:
    """Publish an article as it is stored now."""
    brand, content_id = message.body.brand, message.body.content_id
    article = await app.entity(Article, content_id).get()
    url = await outside.put_page(brand, content_id, article["html"])
    published = ContentPublished(brand, content_id, url)
    await brand_events.send(published, type="content.published", source=PAGES_PLUS)
