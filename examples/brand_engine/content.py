"""The workflow from research to an approved article.

Each step is recorded: after a crash the run continues behind the last one. If nobody approves, the
steps that have an effect outside are undone in reverse order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from examples.brand_engine import outside
from examples.brand_engine.article import Article
from examples.brand_engine.messages import SCALABLE_MEDIA, Content, app, brand_events
from examples.brand_engine.research import Research
from tickwork import Permanent, Step

REVIEW_SECONDS = 7 * 86_400
"""Seconds that an editor has to review a draft."""


@dataclass(frozen=True)
class ContentParams:
    """One article to write."""

    brand: str
    keyword: str
    content_id: str
    template: str = "blog"


@app.workflow(version="1")
async def content(step: Step, params: ContentParams) -> str:
    """Write an article, have it reviewed, and announce it."""
    brand, keyword = params.brand, params.keyword
    content_id = params.content_id
    facts = await step.do("fetch-research", fetch_research, brand, keyword)
    title, html = await step.gather(
        step.do("write-title", outside.generate, f"a title about {keyword} for {brand}"),
        step.do("write-article", outside.generate, f"a {params.template} about {', '.join(facts)}"),
    )
    image = await step.do(
        "license-image", outside.license_image, content_id, compensate=outside.return_image
    )
    draft = {"title": title, "html": html, "image": image}
    await step.do(
        "store-content", store_draft, brand, content_id, keyword, draft, compensate=archive_draft
    )
    review = await step.wait_for_event(
        "review", type="content.reviewed", timeout_seconds=REVIEW_SECONDS
    )
    if not review["approved"]:
        raise Permanent(f"rejected: {review['comment']}")
    await step.do("emit-event", announce, "content.generated", Content(brand, content_id, keyword))
    return content_id


async def fetch_research(brand: str, keyword: str) -> list[str]:
    """Read the research of a keyword."""
    facts: list[str] = await app.entity(Research, f"{brand}/{keyword}").facts()
    return facts


async def store_draft(_brand: str, content_id: str, _keyword: str, draft: dict[str, Any]) -> None:
    """Store the draft that the editor reads."""
    await app.entity(Article, content_id).store(draft)


async def announce(event: str, about: Content) -> None:
    """Send an event about an article. It commits with the record of its step."""
    await brand_events.send(about, type=event, source=SCALABLE_MEDIA)


async def archive_draft(
    _output: None, brand: str, content_id: str, keyword: str, _draft: dict[str, Any]
) -> None:
    """Undo `store-content`, and announce it."""
    await app.entity(Article, content_id).archive()
    await announce("content.archived", Content(brand, content_id, keyword))
