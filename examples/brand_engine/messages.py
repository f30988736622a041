"""The app, its queues, and the messages that the services send each other.

A message carries ids, not articles: the receiver reads the latest state. Its id for deduplication,
type, source, time and correlation are fields of every message, so no envelope is needed. The
settings of the queues are in `tickwork.toml`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from tickwork import Tickwork

app = Tickwork(
    os.environ.get("TICKWORK_DATABASE", "sqlite:///brand_engine.db"), name="brand-engine"
)

sm_commands = app.queue("sm-commands")
gatherfeed_commands = app.queue("gatherfeed-commands")
publish_commands = app.queue("publish-commands")
social_commands = app.queue("social-commands")
brand_events = app.queue("brand-events")
DEAD_LETTER_QUEUES = ("sm-commands-dlq", "gatherfeed-commands-dlq", "brand-events-dlq")
for queue in DEAD_LETTER_QUEUES:
    app.queue(queue)

SCALABLE_MEDIA, GATHERFEED = "scalable-media", "gatherfeed"
PAGES_PLUS, SOCIAL_GOOD = "pages-plus", "social-good"


@dataclass(frozen=True)
class BrandResearch:
    """`brand.research`: research these keywords for a brand."""

    brand: str
    keywords: list[str]
    is_urgent: bool = True


@dataclass(frozen=True)
class ResearchRequested:
    """`research.requested`: research one keyword."""

    brand: str
    keyword: str


@dataclass(frozen=True)
class ResearchCompleted:
    """`research.completed`: what is known about a keyword is stored."""

    brand: str
    keyword: str
    research_id: str


@dataclass(frozen=True)
class Content:
    """`content.generated`, `content.archived`; as commands `content.publish`, `social.create`."""

    brand: str
    content_id: str
    keyword: str


@dataclass(frozen=True)
class ContentPublished:
    """`content.published`: an article is on the brand's site."""

    brand: str
    content_id: str
    url: str


@dataclass(frozen=True)
class SocialPosted:
    """`social.posted`: a post links to an article."""

    brand: str
    content_id: str
    platform: str
    post_url: str


@dataclass(frozen=True)
class AnalyticsRequested:
    """`analytics.requested`: count the views of a brand's pages."""

    brand: str
    urls: list[str]


@dataclass(frozen=True)
class AnalyticsCompleted:
    """`analytics.completed`: how often the pages of a brand were viewed up to a day."""

    brand: str
    day: str
    views: int
