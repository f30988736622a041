"""GatherFeed, the eyes: researches one keyword per message and announces what it found.

It does not know who asked. `tickwork run examples.brand_engine.gatherfeed:app` runs it alone.
"""

from __future__ import annotations

from examples.brand_engine.messages import (
    GATHERFEED,
    ResearchCompleted,
    ResearchRequested,
    app,
    brand_events,
)
from examples.brand_engine.research import Research
from tickwork import Message


@app.on("gatherfeed-commands", type="research.requested")
async def research(message: Message[ResearchRequested]) -> None:
    """Research a keyword, or find that it was researched this week."""
    asked = message.body
    research_id = await app.entity(Research, f"{asked.brand}/{asked.keyword}").ensure(asked.keyword)
    done = ResearchCompleted(asked.brand, asked.keyword, research_id)
    await brand_events.send(done, type="research.completed", source=GATHERFEED)
