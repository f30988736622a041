"""The documentation site: every page has a place in it, and its reference covers the whole code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

import tickwork
from docs.site.build import ROOT, SITE, add_diagrams, collect, from_others
from docs.site.reference import all_errors, metrics, openapi, reference_pages
from tickwork.cli import app
from tickwork.settings import Settings

NAVIGATION = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference_pages()


@pytest.fixture(scope="module")
def listed() -> list[str]:
    return re.findall(r": (\S+\.md)$", NAVIGATION, re.MULTILINE)


def test_every_page_is_in_the_navigation_of_mkdocs_yml_once(listed: list[str]) -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), ROOT / "examples" / "README.md"]
    expected = {str(page.relative_to(ROOT)) for page in pages}
    generated = {page for page in listed if "/reference/" in page or page.endswith("adr/README.md")}
    assert sorted(listed) == sorted(expected | generated)


def test_the_navigation_names_only_pages_that_exist(tmp_path: Path, listed: list[str]) -> None:
    collect(tmp_path / "source")
    assert [page for page in listed if not (tmp_path / "source" / page).exists()] == []


def test_every_route_is_in_the_reference(pages: dict[str, str]) -> None:
    operations = [
        f"### `{method.upper()} {path}`"
        for path, item in openapi()["paths"].items()
        for method in item
    ]
    assert len(operations) > 100
    assert [operation for operation in operations if operation not in pages["http"]] == []


def test_every_command_is_in_the_reference(pages: dict[str, str]) -> None:
    def commands(words: str, command: Any) -> list[str]:
        children = getattr(command, "commands", {})
        return [words] + [
            inner for name in children for inner in commands(f"{words} {name}", children[name])
        ]

    _, *found = commands("tickwork", app)
    assert [command for command in found if f"# `{command}`\n" not in pages["command-line"]] == []


def test_every_public_name_setting_error_and_metric_is_in_the_reference(
    pages: dict[str, str],
) -> None:
    names = [name for name in tickwork.__all__ if not name.startswith("__")]
    assert [name for name in names if f"### `{name}`\n" not in pages["python"]] == []
    settings = [field for field in Settings.__struct_fields__ if field != "jwt"]
    assert [setting for setting in settings if f"| `{setting}` |" not in pages["settings"]] == []
    assert [error for error in all_errors() if f"`{error.code}`" not in pages["errors"]] == []
    assert len(metrics()) > 20
    assert "tickwork_messages_total" in pages["metrics"]


def test_what_a_page_loads_from_another_host_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<a href="https://example.com">a link</a><img src="here.png"><script src="b.js">'
        '<link rel="stylesheet" href="https://fonts.example.com/a"><script src=//cdn.example.com/b>'
    )
    (tmp_path / "a.css").write_text("a { background: url(//x.example.com/c) } b { width: url(d) }")
    (tmp_path / "a.js").write_text('load("https://unpkg.com/mermaid@11/dist/mermaid.min.js")')
    assert from_others(tmp_path) == [
        "a.html: https://fonts.example.com/a",
        "a.html: //cdn.example.com/b",
        "a.css: //x.example.com/c",
        "a.js: https://unpkg.com/mermaid@11/dist/mermaid.min.js",
    ]


def test_diagrams_are_text_where_the_script_is_not(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("```mermaid\nflowchart LR\n```\n")
    script = tmp_path / "mermaid.js"
    script.write_text("draw()")
    add_diagrams(tmp_path, script)
    assert (tmp_path / "javascripts" / "mermaid.min.js").read_text() == "draw()"
    assert page.read_text().startswith("```mermaid")
    add_diagrams(tmp_path, None)
    assert page.read_text().startswith("```text")


@pytest.mark.soak
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_others() -> None:
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S607
    assert done.returncode == 0, done.stdout + done.stderr
    assert from_others(SITE) == []
