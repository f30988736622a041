"""Social-Good, the hands: posts about articles."""

from __future__ import annotations

from examples.brand_engine import outside
from examples.brand_engine.article import Article
from examples.brand_engine.messages import (
    SOCIAL_GOOD,
    Content,
    SocialPosted,
    app,
    brand_events,
)
from tickwork import Message


@app.on("social-commands", type="social.create")
async def post(message: Message[Content]) -> None:
    """Post the title of an article."""
    brand, content_id = message.body.brand, message.body.content_id
    article = await app.entity(Article, content_id).get()
    post_url = await outside.put_post(brand, content_id, article["title"])
    posted = SocialPosted(brand, content_id, "x", post_url)
    await brand_events.send(posted, type="social.posted", source=SOCIAL_GOOD)
