"""Links, anchors and test paths in the Markdown pages point to things that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").rglob("*.md")]
)
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_TEST_PATH = re.compile(r"`(tests/[\w/]+(?:\.py)?)`")


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as GitHub derives them."""
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        for heading in _HEADING.findall(page)
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = []
    for target, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        path = page.parent / target if target else page
        if not path.exists() or (
            anchor and anchor not in anchors(path.read_text(encoding="utf-8"))
        ):
            broken.append(f"{target}#{anchor}")
    assert not broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_named_test_exists(page: Path) -> None:
    named = _TEST_PATH.findall(page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_module_that_the_architecture_names_exists() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    named = {module.replace("<db>", "sqlite") for module in re.findall(r"`([\w/<>]+\.py)`", page)}
    stored = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.py")]
    assert len(named) > 50
    assert [
        module for module in named if not any(path.endswith(f"/{module}") for path in stored)
    ] == []
