"""Documentation and examples import only the public packages: `tickwork` and `tickwork.testing`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.snippets import blocks

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted((ROOT / "examples").rglob("*.py"))
PUBLIC = ("tickwork", "tickwork.testing")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported_modules(source: str) -> Iterator[str]:
    """Every module that the source imports, with the modules its `from` imports may name."""
    tree = compile(source, "snippet", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module


def internal_imports(source: str) -> list[str]:
    """The imports of Tickwork modules that are not public."""
    return [
        module
        for module in imported_modules(source)
        if module.split(".")[0] == "tickwork"
        and module not in PUBLIC
        and not module.startswith("tickwork.testing.")
    ]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_imports_only_public_packages(page: Path) -> None:
    snippets = [
        block.text
        for block in blocks(page.read_text(encoding="utf-8"))
        if block.language == "python"
    ]
    assert [module for snippet in snippets for module in internal_imports(snippet)] == []


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_an_example_imports_only_public_packages(module: Path) -> None:
    assert internal_imports(module.read_text(encoding="utf-8")) == []


def test_an_internal_import_is_found() -> None:
    source = "import tickwork.store\nfrom tickwork.core import when\nawait when()\n"
    assert internal_imports(source) == ["tickwork.store", "tickwork.core"]


def test_public_imports_are_accepted() -> None:
    source = "from tickwork import Tickwork\nfrom tickwork.testing import harness\nimport typing\n"
    assert internal_imports(source) == []
