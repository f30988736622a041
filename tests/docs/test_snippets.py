"""Every page's snippets run, from top to bottom, on a fresh SQLite file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import Block, Reader, blocks

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = (
    "first-consumer",
    "testing",
    "exactly-once",
    "queues",
    "dead-letters",
    "batches",
    "operating",
    "order-and-fairness",
    "topology",
    "schedules",
    "missed-ticks",
    "dst",
)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_does_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert any(block.language in ("python", "console") for block in blocks(page))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TICKWORK_DATABASE", raising=False)
    with asyncio.Runner() as runner:
        Reader(f"docs/{name}.md", tmp_path, runner).follow(page)


def test_every_page_with_snippets_is_read() -> None:
    with_python = {
        path.stem for path in DOCS.glob("*.md") if "```python" in path.read_text(encoding="utf-8")
    }
    assert with_python <= set(PAGES)


def read(tmp_path: Path, page: str) -> None:
    with asyncio.Runner() as runner:
        Reader("page", tmp_path, runner).follow(page)


def test_blocks_share_a_namespace_and_may_await(tmp_path: Path) -> None:
    page = (
        "```python\nimport asyncio\nn = 1\n```\n```python\nawait asyncio.sleep(0)\nprint(n)\n```\n"
    )
    read(tmp_path, page + "```text\n1\n```\n")


def test_a_block_with_a_name_is_a_file_until_the_page_ends(tmp_path: Path) -> None:
    read(tmp_path, "```python\n# waves.py\nn = 7\n```\n```python\nimport waves\n```\n")
    assert "waves" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        read(tmp_path / "elsewhere", "```python\nimport waves\n```\n")


@pytest.mark.parametrize(
    "page",
    [
        "```python\nprint(1)\n```\n```text\n2\n```\n",
        "```python\nprint(1)\nprint(2)\n```\n```text\n…\n```\n",
        "```console\n$ tickwork --version\ntickwork 0.0.0-none\n```\n",
        "```console\n$ rm -rf nothing\n```\n",
        "```console\n$ tickwork run nowhere:app\ntickwork: handling nothing\n```\n",
        "```ruby\nputs 1\n```\n",
    ],
)
def test_a_page_that_is_wrong_is_told(tmp_path: Path, page: str) -> None:
    with pytest.raises(AssertionError):
        read(tmp_path, page)


def test_a_block_knows_its_line() -> None:
    assert [*blocks("a\n\n```python\nb\n```\n")] == [Block("python", "b\n", 4)]
