"""One door: facade, CLI and HTTP call the verbs in `ops`, never a method of a store."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.tidy.laws import Offence, nodes_of
from tests.tidy.test_tidy import ROOT, keep, parse
from tickwork.store.contract import Store

NOUNS = frozenset(name for name, value in vars(Store).items() if isinstance(value, property))
"""Attributes of a store that are protocols: `queues`, `messages`, `schedules`, and so on."""

OPENERS = frozenset({"open", "_open", "open_store", "_with_queues", "store_of"})
"""Names of functions that return a store."""

CALLS = (
    "store.queues.list(scope)",
    "self._store.messages.send(scope, message)",
    "(await self._open()).calendars.list(scope)",
    "(await app._engine.open()).stats.queue(scope, name)",
    "store_of(context).nodes.list(scope)",
    "act = store.queues.pause",
    "nodes = store.nodes",
)
NO_CALLS = (
    "list_queues(store, scope)",
    "app.queues.list()",
    "self.registry.queues.get(name)",
    "store.now()",
)


def store_calls(tree: ast.Module) -> Iterator[Offence]:
    """Uses of a store's nouns: `store.queues`, `(await self._open()).calendars`."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute) and node.attr in NOUNS and _is_store(node.value):
            yield Offence(node.lineno, f"goes past ops: {ast.unparse(node)}")


def _is_store(node: ast.expr) -> bool:
    if isinstance(node, ast.Await):
        node = node.value
    if isinstance(node, ast.Call):
        return _name(node.func) in OPENERS
    return _name(node).lstrip("_") == "store"


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def test_the_nouns_are_those_of_the_contract() -> None:
    assert {"queues", "messages", "dead_letters", "batches", "schedules", "nodes"} <= NOUNS


@pytest.mark.parametrize("source", CALLS)
def test_a_use_of_a_store_is_found(source: str) -> None:
    assert [*store_calls(ast.parse(source))]


@pytest.mark.parametrize("source", NO_CALLS)
def test_a_call_that_is_none_of_a_store_is_allowed(source: str) -> None:
    assert not [*store_calls(ast.parse(source))]


@pytest.mark.parametrize("package", ["api", "cli", "facade"])
def test_a_caller_of_ops_never_calls_a_store(package: str) -> None:
    files = sorted((ROOT / "src" / "tickwork" / package).rglob("*.py"))
    assert files
    keep(store_calls, parse, files)
