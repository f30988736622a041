"""`tickwork workflows`."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
import pytest

from tests.cli.kit import Desk
from tests.kit.waiting import eventually
from tickwork.ops.workflows import ensure_workflow
from tickwork.store.contract import Store

APP = """
from tickwork import Step, Tickwork

app = Tickwork({url!r})

@app.workflow()
async def content(step: Step, params: str) -> str:
    first = await step.do("fetch", str.upper, params)
    return await step.do("{second}", str.lower, first)
"""

WAITING = """
from tickwork import Step, Tickwork

app = Tickwork({url!r})

@app.workflow()
async def content(step: Step, params: str) -> None:
    await step.do("{first}", str.upper, params)
    await step.sleep("rest", 86_400)
"""


async def declare(store: Store) -> None:
    await ensure_workflow(store, "content")


def test_a_run_is_started_shown_and_controlled(desk: Desk) -> None:
    desk.store(declare)
    assert desk.answer("workflows", "list") == "there are no runs\n"
    params = '{"keyword": "tax"}'
    started = desk.answer("workflows", "start", "content", "--id", "a", "--params", params)
    assert started == "a\n"
    assert desk.answer("workflows", "send", "a", "approved", "[1]") == ("a has the event\n")
    (event,) = desk.json("workflows", "events", "a")
    assert (event["type"], event["data"], event["consumed_by"]) == ("approved", [1], None)
    assert desk.answer("workflows", "pause", "a") == "a is paused\n"
    (listed,) = desk.json("workflows", "list", "--workflow", "content")
    assert (listed["id"], listed["status"], listed["params"]) == ("a", "paused", {"keyword": "tax"})
    assert desk.json("workflows", "resume", "a")["status"] == "running"
    shown = desk.answer("workflows", "show", "a")
    assert "workflow" in shown
    assert "it has recorded no steps" in shown
    assert desk.answer("workflows", "cancel", "a", "--yes") == "a is being cancelled\n"
    assert desk.json("workflows", "terminate", "a", "--yes")["status"] == "terminated"
    said = desk.answer("workflows", "restart", "a", "--yes").splitlines()
    assert (said[0], said[-1]) == ("run again: what its code calls", "a starts again")
    plan = msgspec.json.decode(desk.answer("workflows", "restart", "a", "--dry-run", "--json"))
    assert plan == {"runs": [], "repeats": [], "keeps": []}
    assert desk.json("workflows", "terminate", "a", "--yes")["restart"] is None
    assert desk.json("workflows", "restart", "a", "--yes")["restart"] == plan
    refused = desk.run("workflows", "accept", "a")
    assert refused.stderr == "tickwork: run a has not diverged; there is nothing to accept\n"
    assert "a    content" in desk.answer("workflows", "list")


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["start"], 2, "WORKFLOW is missing"),
        (["start", "unknown"], 1, "there is no workflow unknown; an app declares it"),
        (["start", "content", "--params", "{"], 2, "--params: is not JSON"),
        (["start", "content", "--on-conflict", "x"], 2, "--on-conflict: must be one of error"),
        (["list", "--status", "x"], 2, "--status: must be one of running"),
        (["show", "nobody"], 1, "there is no run nobody"),
        (["restart", "nobody"], 1, "there is no run nobody"),
        (["accept", "nobody"], 1, "there is no run nobody"),
        (["replay"], 2, "--app is missing"),
    ],
)
def test_bad_input_names_the_option(desk: Desk, words: list[str], code: int, says: str) -> None:
    desk.store(declare)
    refused = desk.run("workflows", *words)
    assert (refused.exit_code, says in refused.stderr) == (code, True), refused.stderr


def test_replay_reports_what_the_code_does_not_call(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(desk.folder)
    monkeypatch.syspath_prepend(desk.folder)
    for name, second in (("first_shop", "write"), ("second_shop", "rewrite")):
        (desk.folder / f"{name}.py").write_text(APP.format(url=desk.url, second=second))

    async def run() -> None:
        from first_shop import app, content  # type: ignore[import-not-found]

        async with app.running():
            handle = await app.workflows.start(content, "Tax", id="a")
            assert await handle.result(timeout_seconds=10) == "tax"
        await app.close()

    desk.store(declare)
    asyncio.run(run())
    runner = desk._runner
    from tickwork.cli import app as cli

    same = runner.invoke(cli, ["workflows", "replay", "--app", "first_shop:app"])
    assert (same.exit_code, "none" in same.stdout) == (0, True), same.output
    other = runner.invoke(cli, ["workflows", "replay", "--app", "second_shop:app"])
    assert other.exit_code == 1
    assert "recorded, but not asked for by this code: write (do str.lower)" in other.stdout
    # Runs that have ended do not stop a deploy.
    assert runner.invoke(cli, ["workflows", "check", "--app", "second_shop:app"]).exit_code == 0
    for name in ("first_shop", "second_shop"):
        sys.modules.pop(name, None)


def test_runs_of_a_database_are_replayed_with_the_code_of_an_app(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CI has the new code, whose own database is not the one with the runs."""
    monkeypatch.chdir(desk.folder)
    monkeypatch.syspath_prepend(desk.folder)
    for name, url, first in (
        ("old_shop", desk.url, "fetch"),
        ("same_shop", "sqlite:///own.db", "fetch"),
        ("other_shop", "sqlite:///own.db", "load"),
    ):
        (desk.folder / f"{name}.py").write_text(WAITING.format(url=url, first=first))

    async def run() -> None:
        from old_shop import app, content  # type: ignore[import-not-found]

        async with app.running():
            await app.workflows.start(content, "Tax", id="a")
            await eventually(lambda: has_slept(app))
        await app.close()

    async def has_slept(app: Any) -> bool:
        view = await app.workflows.get("a").status()
        return any(step.key == "rest" for step in view.steps)

    desk.store(declare)
    asyncio.run(run())
    same = desk.run("workflows", "check", "--app", "same_shop:app")
    assert (same.exit_code, "none" in same.stdout) == (0, True), same.output
    for words in (["check"], ["replay"], ["replay", "a"]):
        other = desk.run("workflows", *words, "--app", "other_shop:app")
        assert (other.exit_code, "fetch (do str.upper)" in other.stdout) == (1, True), other.output
    assert not (desk.folder / "own.db").exists()
    for name in ("old_shop", "same_shop", "other_shop"):
        sys.modules.pop(name, None)
