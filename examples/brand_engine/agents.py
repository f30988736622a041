"""The agents: one per brand, and the coordinator. They decide; consumers of queues do the work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from examples.brand_engine.content import ContentParams, content
from examples.brand_engine.messages import (
    SCALABLE_MEDIA,
    AnalyticsRequested,
    Content,
    ResearchRequested,
    app,
    gatherfeed_commands,
    publish_commands,
    sm_commands,
    social_commands,
)
from tickwork import Entity, read

SEARCHES_PER_SECOND = 5
"""Searches per second that Brave permits."""

LATER_SECONDS = 3_600
"""Seconds by which research that is not urgent is put off."""

DRAFTS_MAX = 5
"""Number of drafts of a brand that may wait for a review."""

ALARM_AFTER = timedelta(days=1)


@app.entities.register
class BrandAgent(Entity):
    """The agent of one brand. Its key is the brand's name.

    Its storage: `count/…` numbers, `content/KEYWORD` the status of an article, `waiting/KEYWORD`
    research for which no draft was started yet, `url/ID` published pages, `views/DAY`.
    """

    async def request_research(self, keywords: list[str], *, is_urgent: bool = True) -> None:
        """Send one command per keyword, so that each is retried by itself."""
        await app.entity(Coordinator, "all").send.add_brand(self.key)
        for index, keyword in enumerate(keywords):
            await gatherfeed_commands.send(
                ResearchRequested(self.key, keyword),
                type="research.requested",
                source=SCALABLE_MEDIA,
                delay_seconds=index // SEARCHES_PER_SECOND + (0 if is_urgent else LATER_SECONDS),
            )
        await self._count("pending_research", len(keywords))

    async def on_research_completed(self, keyword: str) -> None:
        """Start the article, unless there is one or too many drafts wait for a review."""
        await self._count("pending_research", -1)
        await self._count("researched", 1)
        if await self.storage.get(f"content/{keyword}", "archived") != "archived":
            return
        await self.storage.put(f"waiting/{keyword}", self.now.isoformat())
        await self._start_waiting()
        await self._ensure_alarm()

    async def on_content_generated(self, content_id: str, keyword: str) -> None:
        """Have an approved article published and posted."""
        about = Content(self.key, content_id, keyword)
        await publish_commands.send(about, type="content.publish", source=SCALABLE_MEDIA)
        await social_commands.send(about, type="social.create", source=SCALABLE_MEDIA)
        await self._end_draft(keyword, "generated")

    async def on_content_archived(self, keyword: str) -> None:
        """Forget an article that was not approved. The keyword may be tried again."""
        await self._end_draft(keyword, "archived")

    async def on_content_published(self, content_id: str, url: str) -> None:
        """Count a page, and look at its views from now on."""
        await self._count("published", 1)
        await self.storage.put(f"url/{content_id}", url)
        await self._ensure_alarm()

    async def on_social_posted(self, content_id: str, post_url: str) -> None:
        """Count a post."""
        await self._count("posted", 1)
        await self.storage.put(f"post/{content_id}", post_url)

    async def on_analytics_completed(self, day: str, views: int) -> None:
        """Keep the views of a day."""
        await self.storage.put(f"views/{day}", views)

    async def run_audit(self) -> None:
        """Look at everything once a week, whatever became of the alarm."""
        await self._count("audits", 1)
        await self._ensure_alarm()

    async def alarm(self, _info: object) -> None:
        """Once a day: start what waits, and ask for the views of the pages."""
        await self._start_waiting()
        urls = await self.storage.list("url/")
        if urls:
            asked = AnalyticsRequested(self.key, [*urls.values()])
            await sm_commands.send(asked, type="analytics.requested", source=SCALABLE_MEDIA)
        if urls or await self.storage.list("waiting/", limit=1):
            await self.set_alarm(self.now + ALARM_AFTER)

    @read
    async def summary(self) -> dict[str, Any]:
        """Return what the brand has."""
        return {
            "content": _without_prefix(await self.storage.list("content/")),
            "pages": _without_prefix(await self.storage.list("url/")),
            "views": _without_prefix(await self.storage.list("views/")),
            "waiting": [*_without_prefix(await self.storage.list("waiting/"))],
            **_without_prefix(await self.storage.list("count/")),
        }

    async def _start_waiting(self) -> None:
        """Start articles while there is room for drafts."""
        room = DRAFTS_MAX - await self.storage.get("count/drafts", 0)
        waiting = _without_prefix(await self.storage.list("waiting/"))
        for keyword in [*waiting][: max(room, 0)]:
            number = await self._count("runs", 1)
            params = ContentParams(self.key, keyword, f"{self.key}-c{number:03}")
            # The number is kept only if this call commits. If it runs again, it finds the run.
            await app.workflows.start(
                content, params, id=params.content_id, on_conflict="use_existing"
            )
            await self._count("drafts", 1)
            await self.storage.put(f"content/{keyword}", "draft")
            await self.storage.delete(f"waiting/{keyword}")

    async def _end_draft(self, keyword: str, status: str) -> None:
        await self._count("drafts", -1)
        await self._count(status, 1)
        await self.storage.put(f"content/{keyword}", status)
        await self._start_waiting()

    async def _count(self, name: str, change: int) -> int:
        number: int = max(await self.storage.get(f"count/{name}", 0) + change, 0)
        await self.storage.put(f"count/{name}", number)
        return number

    async def _ensure_alarm(self) -> None:
        if await self.get_alarm() is None:
            await self.set_alarm(self.now + ALARM_AFTER)


@app.entities.register
class Coordinator(Entity):
    """Knows the brands, and what went wrong. There is one, with the key `all`."""

    async def add_brand(self, brand: str) -> None:
        """Note a brand."""
        await self.storage.put(f"brand/{brand}", {"since": self.now.isoformat()})

    async def alert(self, text: str) -> None:
        """Keep an alert for the operator."""
        number: int = await self.storage.get("alerts", 0) + 1
        await self.storage.put({"alerts": number, f"alert/{number:06}": text})

    @read
    async def brands(self) -> list[str]:
        """Return the names of all brands."""
        return [*_without_prefix(await self.storage.list("brand/"))]

    @read
    async def alerts(self) -> list[str]:
        """Return all alerts, oldest first."""
        return [*(await self.storage.list("alert/")).values()]


def _without_prefix(entries: dict[str, Any]) -> dict[str, Any]:
    return {name.partition("/")[2]: value for name, value in entries.items()}
