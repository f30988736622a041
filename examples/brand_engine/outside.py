"""What the services get from outside, through API Mom.

It is called in this process, or over HTTP at `APIMOM_URL`; the code is the same. An error of the
outside service raises `ServiceFailed`, which is retried as any error is.
"""

from __future__ import annotations

import os

from examples.brand_engine.apimom import router
from examples.brand_engine.messages import app

apimom = app.service("apimom", os.environ.get("APIMOM_URL") or router)


async def search(keyword: str) -> list[str]:
    """Return facts about a keyword."""
    return (await apimom.get("/brave/search", query={"q": keyword})).check().json(list[str])


async def generate(prompt: str) -> str:
    """Return a text."""
    return (await apimom.post("/ai/texts", prompt)).check().json(str)


async def license_image(content_id: str) -> str:
    """Buy an image for an article."""
    return (await apimom.put(f"/images/{content_id}")).check().json(str)


async def return_image(_image: str | None, content_id: str) -> None:
    """Give the image of an article back; whether it was bought may be unknown."""
    (await apimom.delete(f"/images/{content_id}")).check()


async def put_page(brand: str, content_id: str, html: str) -> str:
    """Publish a page and return its address."""
    return (await apimom.put(f"/sites/{brand}/{content_id}", html)).check().json(str)


async def put_post(brand: str, content_id: str, text: str) -> str:
    """Post a text and return its address."""
    return (await apimom.put(f"/social/{brand}/{content_id}", text)).check().json(str)


async def views(url: str) -> int:
    """Return how often a page was viewed."""
    return (await apimom.get("/analytics/views", query={"url": url})).check().json(int)
