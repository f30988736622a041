"""Scalable Media, the brain: one file with what it does on requests, messages and schedules.

Every event goes to the agent of its brand. An event type that nobody knows is logged.
"""

from __future__ import annotations

import csv
import logging
from typing import Any

from msgspec import Struct

from examples.brand_engine import desk, outside
from examples.brand_engine.agents import BrandAgent, Coordinator
from examples.brand_engine.article import Article
from examples.brand_engine.messages import (
    DEAD_LETTER_QUEUES,
    SCALABLE_MEDIA,
    AnalyticsCompleted,
    AnalyticsRequested,
    BrandResearch,
    Content,
    ContentPublished,
    ResearchCompleted,
    SocialPosted,
    app,
    brand_events,
)
from tickwork import Firing, HttpRequest, Message, MessageBatch

log = logging.getLogger("brand_engine")


# Requests


class Research(Struct, forbid_unknown_fields=True):
    """Keywords to research."""

    keywords: list[str]


class Review(Struct, forbid_unknown_fields=True):
    """What the editor says of a draft."""

    approved: bool
    comment: str = ""


@app.http("POST", "/v1/brands/{brand}/research", key="send")
async def post_research(request: HttpRequest) -> object:
    """Start a cycle."""
    asked = request.json(Research)
    return {"cycle": await desk.request_research(request.params["brand"], asked.keywords)}


@app.http("GET", "/v1/brands/{brand}", key="read")
async def get_brand(request: HttpRequest) -> object:
    """Return what a brand has, and the drafts that wait."""
    brand = request.params["brand"]
    summary = await app.entity(BrandAgent, brand).summary()
    return {**summary, "waiting_for_review": await desk.drafts(brand)}


@app.http("POST", "/v1/drafts/{content_id}/review", key="manage")
async def post_review(request: HttpRequest) -> None:
    """Approve or reject a draft."""
    said = request.json(Review)
    await desk.review(request.params["content_id"], approved=said.approved, comment=said.comment)


# Commands


@app.on("sm-commands", type="brand.research")
async def research(message: Message[BrandResearch]) -> None:
    """Let the agent of a brand research keywords."""
    asked = message.body
    await app.entity(BrandAgent, asked.brand).request_research(
        asked.keywords, is_urgent=asked.is_urgent
    )


@app.on("sm-commands", type="keywords.import")
async def import_keywords(message: Message[str]) -> None:
    """Research the keywords of a CSV text with the columns brand and keyword, without hurry."""
    keywords: dict[str, list[str]] = {}
    for brand, keyword in csv.reader(message.body.splitlines()):
        keywords.setdefault(brand, []).append(keyword)
    for brand, brand_keywords in keywords.items():
        await app.entity(BrandAgent, brand).request_research(brand_keywords, is_urgent=False)


@app.on("sm-commands", type="analytics.requested")
async def count_views(message: Message[AnalyticsRequested]) -> None:
    """Count the views of a brand's pages, for its agent."""
    views = sum([await outside.views(url) for url in message.body.urls])
    counted = AnalyticsCompleted(message.body.brand, f"{app.now():%Y-%m-%d}", views)
    await brand_events.send(counted, type="analytics.completed", source=SCALABLE_MEDIA)


# Events


@app.on("brand-events", type="research.completed")
async def research_completed(message: Message[ResearchCompleted]) -> None:
    await app.entity(BrandAgent, message.body.brand).on_research_completed(message.body.keyword)


@app.on("brand-events", type="content.generated")
async def content_generated(message: Message[Content]) -> None:
    event = message.body
    await app.entity(BrandAgent, event.brand).on_content_generated(event.content_id, event.keyword)


@app.on("brand-events", type="content.archived")
async def content_archived(message: Message[Content]) -> None:
    await app.entity(BrandAgent, message.body.brand).on_content_archived(message.body.keyword)


@app.on("brand-events", type="content.published")
async def content_published(message: Message[ContentPublished]) -> None:
    event = message.body
    await app.entity(Article, event.content_id).publish(event.url)
    await app.entity(BrandAgent, event.brand).on_content_published(event.content_id, event.url)


@app.on("brand-events", type="social.posted")
async def social_posted(message: Message[SocialPosted]) -> None:
    event = message.body
    await app.entity(BrandAgent, event.brand).on_social_posted(event.content_id, event.post_url)


@app.on("brand-events", type="analytics.completed")
async def analytics_completed(message: Message[AnalyticsCompleted]) -> None:
    event = message.body
    await app.entity(BrandAgent, event.brand).on_analytics_completed(event.day, event.views)


@app.on("brand-events")
async def unknown_event(message: Message[Any]) -> None:
    """Log an event of a type that has no handler. Retrying would not help."""
    log.warning("unknown event %s from %s", message.type, message.source)


# Once a week, and what failed


@app.schedule(cron_expr="0 6 * * SUN")
async def weekly_audit(_firing: Firing[Any]) -> None:
    """Let every agent look at its brand."""
    for brand in await app.entity(Coordinator, "all").brands():
        await app.entity(BrandAgent, brand).send.run_audit()


async def report_dead(batch: MessageBatch[Any]) -> None:
    """Report dead letters to the coordinator. They stay in their queue until they are replayed."""
    for message in batch:
        died = message.died
        assert died is not None
        error = (died.error or died.reason).splitlines()[-1]
        text = f"{died.queue}: {message.type} from {message.source}: {error}"
        # A batch that is handled again has to name its calls, so that each is made once.
        await app.entity(Coordinator, "all", idempotency_key=message.event_id).alert(text)


for dead_letters in DEAD_LETTER_QUEUES:
    app.consumer(dead_letters, max_concurrency=1)(report_dead)
