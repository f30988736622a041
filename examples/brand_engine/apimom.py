"""API Mom: the service that has the keys of all outside APIs. Here it plays them itself.

The other services call it when they need an answer now (`outside.py`). It is an app of its own, of
HTTP handlers only: `tickwork run examples.brand_engine.apimom:router --roles http`.
"""

from __future__ import annotations

import os
from collections import Counter
from hashlib import sha256

from tickwork import HttpRequest, HttpResponse, Tickwork

router = Tickwork(
    os.environ.get("TICKWORK_DATABASE", "sqlite:///brand_engine.db"), name="apimom-router"
)

down = {part for part in os.environ.get("BRAND_ENGINE_DOWN", "").split(",") if part}
"""Outside services that do not answer: `brave`, `ai`, `images`, `sites`, `social`, `analytics`."""

calls: Counter[str] = Counter()
"""How often each outside service was called."""

images: set[str] = set()
"""The licensed images."""


@router.http("GET", "/brave/search", key=None)
async def search(request: HttpRequest) -> object:
    """Return what Brave Search finds."""
    facts = [f"{request.query['q']}: fact {number}" for number in (1, 2, 3)]
    return _answer("brave", facts)


@router.http("POST", "/ai/texts", key=None)
async def generate(request: HttpRequest) -> object:
    """Return what the language model writes."""
    return _answer("ai", f"<p>{request.json(str)}</p>")


@router.http("PUT", "/images/{content_id}", key=None)
async def license_image(request: HttpRequest) -> object:
    """Buy the right to use an image. Buying it again for the same content costs nothing."""
    image = f"image-{request.params['content_id']}"
    if "images" not in down:
        images.add(image)
    return _answer("images", image)


@router.http("DELETE", "/images/{content_id}", key=None)
async def return_image(request: HttpRequest) -> object:
    """Give the right back, if it was bought."""
    if "images" not in down:
        images.discard(f"image-{request.params['content_id']}")
    return _answer("images", None)


@router.http("PUT", "/sites/{brand}/{content_id}", key=None)
async def put_page(request: HttpRequest) -> object:
    """Put a page on the brand's site and return its address."""
    brand, content_id = request.params["brand"], request.params["content_id"]
    return _answer("sites", f"https://{brand}.example.com/blog/{content_id}")


@router.http("PUT", "/social/{brand}/{content_id}", key=None)
async def put_post(request: HttpRequest) -> object:
    """Post, and return the address of the post. The same content is posted once."""
    brand, content_id = request.params["brand"], request.params["content_id"]
    return _answer("social", f"https://x.example.com/{brand}/status/{_number(content_id)}")


@router.http("GET", "/analytics/views", key=None)
async def views(request: HttpRequest) -> object:
    """Return how often a page was viewed."""
    return _answer("analytics", _number(request.query["url"]) % 1_000)


def _answer(service: str, value: object) -> object:
    calls[service] += 1
    if service in down:
        return HttpResponse(status=503, body=f"{service} does not answer".encode())
    return value


def _number(text: str) -> int:
    return int(sha256(text.encode()).hexdigest()[:6], 16)
