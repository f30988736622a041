"""The brand engine: ten days in virtual time on both stores, and the command of its README."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from examples.brand_engine import apimom
from examples.brand_engine.agents import DRAFTS_MAX, BrandAgent, Coordinator
from examples.brand_engine.app import app
from examples.brand_engine.article import Article
from examples.brand_engine.desk import drafts, request_research, review
from examples.brand_engine.messages import ResearchRequested, gatherfeed_commands, sm_commands
from tests.kit.process import Children
from tests.stores.home import Home
from tickwork import RunFailed
from tickwork.core.trace import TraceNode
from tickwork.testing import Harness, harness

TOPOLOGY = Path(__file__).parents[2] / "examples" / "brand_engine" / "tickwork.toml"
WEDNESDAY = datetime(2026, 3, 11, 10, tzinfo=UTC)
BRAND = "llc-tax"
KEYWORDS = ["llc taxes", "s-corp vs llc", "llc operating agreement"]
QUEUES = (
    "sm-commands",
    "gatherfeed-commands",
    "publish-commands",
    "social-commands",
    "brand-events",
)
FIFTEEN = {
    "research.requested": 3,
    "research.completed": 3,
    "content.generated": 3,
    "content.publish": 3,
    "social.create": 3,
}
"""The messages for three keywords, as counted where this system was described first."""


@pytest.fixture(autouse=True)
def outside() -> None:
    """Everything outside works, and knows nothing."""
    apimom.down.clear()
    apimom.calls.clear()
    apimom.images.clear()


@pytest.fixture
async def h(home: Home) -> AsyncIterator[Harness]:
    database = None if home.kind == "sqlite" else home.url
    async with harness(app, database=database, start=WEDNESDAY, topology=TOPOLOGY) as made:
        yield made


@pytest.fixture
async def local() -> AsyncIterator[Harness]:
    async with harness(app, start=WEDNESDAY, topology=TOPOLOGY) as made:
        yield made


async def sent(h: Harness) -> list[Any]:
    return [entry.message for queue in QUEUES for entry in await h.sent(queue)]


async def summary(brand: str = BRAND) -> dict[str, Any]:
    found: dict[str, Any] = await app.entity(BrandAgent, brand).summary()
    return found


async def draft_of(h: Harness, keyword: str) -> str:
    """Has a keyword researched, and returns the id of its draft."""
    await request_research(BRAND, [keyword])
    await h.drain()
    return (await drafts(BRAND))[keyword]


async def check_trace(cycle: str) -> None:
    """Everything of the cycle is in one tree below the command that began it: its messages, runs
    with their steps, and calls of entities."""
    found = await app.trace(cycle)
    (command,) = found.nodes
    assert (command.kind, command.state, command.type) == ("message", "done", "brand.research")
    nodes = [*below(command)]
    kinds = Counter(node.kind for node in nodes)
    messages = Counter(node.type for node in nodes if node.kind == "message" and node.type)
    assert not found.is_cut
    assert messages == {
        **FIFTEEN, "brand.research": 1, "content.published": 3, "social.posted": 3
    }  # fmt: skip
    assert {node.state for node in nodes if node.type is not None} == {"done"}
    assert [node.state for node in nodes if node.kind == "run"] == ["completed"] * 3
    assert kinds["step"] > kinds["run"]
    assert any(node.name == "tickwork.entities.BrandAgent" for node in nodes)


def below(node: TraceNode) -> Iterator[TraceNode]:
    yield node
    for child in node.children:
        yield from below(child)


@pytest.mark.one_store("sqlite")
async def test_ten_days_of_a_brand(h: Harness) -> None:
    # Wednesday: three keywords become drafts, then articles and posts.
    cycle = await request_research(BRAND, KEYWORDS)
    await h.drain()
    written = await drafts(BRAND)
    assert sorted(written) == sorted(KEYWORDS)
    for content_id in written.values():
        await review(content_id, approved=True)
        await review(content_id, approved=False)  # Too late.
    await h.drain()
    types = Counter(message.type for message in await sent(h))
    others = {"brand.research": 1, "content.published": 3, "social.posted": 3}
    assert types == {**FIFTEEN, **others}
    runs = await app.workflows.list()
    assert {run.correlation_id for run in (*await sent(h), *runs)} == {cycle}
    seen = await summary()
    assert (seen["published"], seen["posted"], seen["drafts"]) == (3, 3, 0)
    assert cycle == "brand-cycle-llc-tax-2026-03-11"
    await h.advance(hours=1)
    await check_trace(cycle)

    # Thursday: the alarm asks for the views. A keyword that has an article costs nothing.
    await h.advance(days=1)
    assert [*(await summary())["views"]] == ["2026-03-12"]
    asked = [message for message in await sent(h) if message.type == "analytics.requested"]
    assert [message.correlation_id for message in asked] == [cycle]
    await request_research(BRAND, KEYWORDS)
    await h.drain()
    assert apimom.calls["brave"] == 3
    assert await drafts(BRAND) == {}
    # An article is rejected: the image is given back, and the draft is archived.
    rejected = await draft_of(h, "llc annual fees by state")
    assert len(apimom.images) == 4
    await review(rejected, approved=False, comment="too short")
    await h.drain()
    with pytest.raises(RunFailed, match="rejected: too short"):
        await app.workflows.get(rejected).result()
    steps = [step.key for step in (await app.workflows.get(rejected).status()).steps]
    assert steps[-2:] == ["compensate store-content", "compensate license-image"]
    assert (await app.entity(Article, rejected).get())["status"] == "archived"
    assert len(apimom.images) == 3

    # Friday: the sites are down. The post goes out; the page comes with a replay.
    await h.advance(days=1)
    apimom.down.add("sites")
    late = await draft_of(h, "llc formation costs")
    await review(late, approved=True)
    await h.advance(hours=1)
    (letter,) = await h.dead("publish-commands")
    assert (letter.attempts, letter.body["content_id"]) == (4, late)
    assert ((await summary())["published"], (await summary())["posted"]) == (3, 4)
    apimom.down.clear()
    await app.dead_letters.replay("publish-commands")
    await h.drain()
    assert (await app.entity(Article, late).get())["status"] == "published"
    assert (await sent(h))[-1].correlation_id == "brand-cycle-llc-tax-2026-03-13"

    # Saturday: the search is down, and the coordinator is told.
    await h.advance(days=1)
    apimom.down.add("brave")
    await request_research(BRAND, ["llc tax deductions"])
    await h.advance(hours=1)
    (alert,) = await app.entity(Coordinator, "all").alerts()
    assert alert.startswith("gatherfeed-commands: research.requested from scalable-media: ")
    assert alert.endswith("service apimom answered 503: brave does not answer")
    apimom.down.clear()
    await app.dead_letters.replay("gatherfeed-commands")
    await h.drain()
    forgotten = (await drafts(BRAND))["llc tax deductions"]

    # Sunday at six: the audit. A week later the draft that nobody reviewed is archived.
    await h.advance(days=1)
    assert (await summary())["audits"] == 1
    await h.advance(days=6)
    with pytest.raises(RunFailed, match="review"):
        await app.workflows.get(forgotten).result()
    seen = await summary()
    assert [*seen["views"]] == [f"2026-03-{day}" for day in range(12, 22)]
    assert (seen["published"], seen["archived"], seen["drafts"]) == (4, 2, 0)
    assert len(apimom.images) == 4
    assert await h.dead("brand-events") == await h.dead("sm-commands") == []


async def test_at_most_five_drafts_of_a_brand_wait_for_a_review(local: Harness) -> None:
    """The keywords come as a text, without hurry."""
    h = local
    rows = "\n".join(f"budgets,keyword {number}" for number in range(7))
    await sm_commands.send(rows, type="keywords.import", content_type="text")
    await h.advance(minutes=59)
    assert apimom.calls["brave"] == 0
    await h.advance(minutes=2)
    first = await drafts("budgets")
    assert (len(first), len((await summary("budgets"))["waiting"])) == (DRAFTS_MAX, 2)
    for content_id in first.values():
        await review(content_id, approved=True)
    await h.drain()
    seen = await summary("budgets")
    assert (len(await drafts("budgets")), seen["waiting"], seen["published"]) == (2, [], 5)


async def test_a_cycle_over_http_needs_keys(local: Harness) -> None:
    h, path = local, f"/v1/brands/{BRAND}"
    key = await app.keys.create("desk", scopes=["read", "send", "manage"])
    headers = {"Authorization": f"Bearer {key.token}"}
    for method, url in (("POST", f"{path}/research"), ("GET", path)):
        assert (await h.http.call(method, url)).status == 401
    wrong = await h.http.post(f"{path}/research", {"keyword": "x"}, headers=headers)
    assert (wrong.status, wrong.json()["code"]) == (422, "invalid_input")
    started = await h.http.post(f"{path}/research", {"keywords": KEYWORDS[:1]}, headers=headers)
    assert started.json() == {"cycle": "brand-cycle-llc-tax-2026-03-11"}
    await h.drain()
    shown = (await h.http.get(path, headers=headers)).json()
    assert shown["waiting_for_review"] == {"llc taxes": "llc-tax-c001"}
    review_path = "/v1/drafts/{}/review"
    answer = {"approved": True}
    missing = await h.http.post(review_path.format("nobody"), answer, headers=headers)
    assert missing.status == 404
    reviewed = await h.http.post(review_path.format("llc-tax-c001"), answer, headers=headers)
    assert reviewed.status == 204
    await h.drain()
    assert (await h.http.get(path, headers=headers)).json()["published"] == 1


async def test_research_is_done_once_a_week_whatever_is_delivered_twice(local: Harness) -> None:
    h = local
    for days, event_id, searches, answers in (
        (0.0, "first", 1, 1),
        (0.0, "first", 1, 1),
        (6.9, "second", 1, 2),
        (0.2, "third", 2, 3),
    ):
        await h.outage(days=days)
        asked = ResearchRequested(BRAND, "llc taxes")
        await gatherfeed_commands.send(asked, type="research.requested", event_id=event_id)
        await h.drain()
        assert apimom.calls["brave"] == searches
        events = [message.type for message in await sent(h)]
        assert events.count("research.completed") == answers


async def test_the_command_of_the_readme_shows_a_cycle(tmp_path: Path, children: Children) -> None:
    database = f"sqlite:///{tmp_path / 'brand_engine.db'}"
    ran = children.spawn("examples.brand_engine.run", env={"TICKWORK_DATABASE": database})
    await ran.succeeded(60)
    assert "3 drafts wait for a review" in ran.lines()
    assert "llc operating agreement: archived" in ran.lines()
    assert sum(line.startswith("https://llc-tax.") for line in ran.lines()) == 2
