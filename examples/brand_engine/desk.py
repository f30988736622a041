"""What people do: ask for research, and review drafts."""

from __future__ import annotations

from examples.brand_engine.content import content
from examples.brand_engine.messages import BrandResearch, app, sm_commands


async def request_research(brand: str, keywords: list[str], *, is_urgent: bool = True) -> str:
    """Send the command that starts a cycle, and return the correlation id of all that follows."""
    cycle = f"brand-cycle-{brand}-{app.now():%Y-%m-%d}"
    command = BrandResearch(brand, keywords, is_urgent)
    await sm_commands.send(command, type="brand.research", source="desk", correlation_id=cycle)
    return cycle


async def drafts(brand: str) -> dict[str, str]:
    """Return the content ids of the drafts that wait for a review, by keyword."""
    runs = await app.workflows.list(content, status="running")
    return {run.params["keyword"]: run.id for run in runs if run.params["brand"] == brand}


async def review(content_id: str, *, approved: bool, comment: str = "") -> None:
    """Approve or reject a draft. A second review of the same draft is not counted."""
    event = {"approved": approved, "comment": comment}
    await app.workflows.get(content_id).send_event("content.reviewed", event, id="review")
