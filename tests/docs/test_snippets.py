"""The snippets of every page run from top to bottom, on an empty SQLite file."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import Block, PageRunner, awaits, blocks, typing_fault
from tests.kit import fork_server
from tests.kit.process import fork_handler_process
from tickwork.service.isolation import process_handle
from tickwork.settings import Settings

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (
    "first-consumer",
    "testing",
    "entities",
    "exactly-once",
    "queues",
    "queue-settings",
    "subscriptions",
    "limits",
    "dead-letters",
    "history",
    "batches",
    "operating",
    "logs-and-metrics",
    "system-events",
    "order-and-fairness",
    "topology",
    "types",
    "schedules",
    "change-schedules",
    "calendars",
    "missed-ticks",
    "dst",
    "webhooks",
    "verify-webhooks",
    "endpoints",
    "email-and-chat",
    "delivery-failures",
    "results",
    "security",
    "access",
    "tenants",
    "cluster",
    "workflows",
    "workflow-runs",
    "compensation",
    "services",
    "which",
    "tuning",
    "naming",
    "message-evolution",
    "backup",
    "client",
    "django",
    "web-frameworks",
    "forecast",
    "capacity",
)

WALKS = ("first-hour", "what-to-look-at", "leader-or-disk", "own-transaction")
"""Pages that other tests follow: with two terminals (`terminals`), or on PostgreSQL."""


@pytest.mark.parametrize("name", PAGES)
def test_the_snippets_of_a_page_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert any(block.language in ("python", "console") for block in blocks(page))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TICKWORK_DATABASE", raising=False)
    if fork_server.is_possible():
        monkeypatch.setattr(process_handle, "start_process", fork_handler_process)
    with asyncio.Runner() as runner:
        PageRunner(f"docs/{name}.md", tmp_path, runner).run(page)


def test_every_page_with_snippets_is_run() -> None:
    with_python = {
        path.stem for path in DOCS.glob("*.md") if "```python" in path.read_text(encoding="utf-8")
    }
    assert with_python <= {*PAGES, *WALKS}


ALL_PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]


def python_blocks(page: Path) -> list[Block]:
    found = blocks(page.read_text(encoding="utf-8"))
    return [block for block in found if block.language == "python"]


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_a_page_says_how_to_run_snippets_that_await(page: Path) -> None:
    awaiting = [block for block in python_blocks(page) if awaits(block.text)]
    assert not awaiting or "`python -m asyncio`" in page.read_text(encoding="utf-8")
    faults = {block.line: typing_fault(block.text) for block in awaiting}
    assert {line: fault for line, fault in faults.items() if fault} == {}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.stem)
def test_the_apps_of_all_pages_use_the_database_of_the_command_line(page: Path) -> None:
    apps = re.findall(r"Tickwork\(\s*[\"'](.*?)[\"']", page.read_text(encoding="utf-8"))
    assert {*apps} <= {Settings().database}


def test_a_snippet_that_cannot_be_pasted_is_found() -> None:
    assert typing_fault("async with a:\n    pass\nprint(1)\n") is not None
    assert typing_fault("async with a:\n    pass\n\nprint(1)\n") is None


def run_page(tmp_path: Path, page: str) -> None:
    with asyncio.Runner() as runner:
        PageRunner("page", tmp_path, runner).run(page)


def test_blocks_share_a_namespace_and_may_await(tmp_path: Path) -> None:
    page = (
        "```python\nimport asyncio\nn = 1\n```\n```python\nawait asyncio.sleep(0)\nprint(n)\n```\n"
    )
    run_page(tmp_path, page + "```text\n1\n```\n")


def test_a_named_block_is_importable_until_the_page_ends(tmp_path: Path) -> None:
    run_page(tmp_path, "```python\n# waves.py\nn = 7\n```\n```python\nimport waves\n```\n")
    assert "waves" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        run_page(tmp_path / "elsewhere", "```python\nimport waves\n```\n")


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)\n```\n```text\n2\n```\n",
        "```python\nprint(1)\nprint(2)\n```\n```text\n1…\n```\n",
        "```python\nprint(1)\nprint(2)\n```\n```text\n…\n3\n```\n",
        "```console\n$ tickwork --version\ntickwork 0.0.0-none\n```\n",
        "```console\n$ rm -rf nothing\n```\n",
        "```console\n$ tickwork run nowhere:app\ntickwork: handling nothing\n```\n",
        "```ruby\nputs 1\n```\n",
    ],
)
def test_a_wrong_page_fails(tmp_path: Path, page: str) -> None:
    with pytest.raises(AssertionError):
        run_page(tmp_path, page)


def test_a_block_has_its_line_number() -> None:
    assert [*blocks("a\n\n```python\nb\n```\n")] == [Block("python", "b\n", 4)]
