"""Every verb that changes something stores a record of it for the audit log."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

OPS = Path(__file__).resolve().parents[2] / "src" / "tickwork" / "ops"

CHANGES = frozenset(
    {
        "put", "create", "create_bulk", "delete", "pause", "resume", "purge", "update", "change",
        "rotate", "revoke", "edit", "replay", "discard", "enable", "disable", "resend", "cancel",
        "grant", "replace", "settle_unclaimed",
    }
)  # fmt: skip
"""Methods of a store that change more than messages on their way."""

UNRECORDED = {
    "ensure_hidden_queue": "a queue of Tickwork itself",
    "ensure_workflow": "the mark of a pinned version, which its app declares",
    "set_alerts": "subscriptions of the hidden queue of alerts; the target is recorded",
    "_signing": "the first secret is made when it is needed",
    "_put_secrets": "part of the change of an endpoint, which is recorded",
    "create_endpoint": "takes the secrets back if the endpoint was refused",
    "_create": "a key; `create_key` records it, and the first key is printed",
    "change_times": "follows from the change of a calendar, which is recorded",
    "_do": "a batch of an operation, whose start is recorded",
    "_send_chunk": "a part of `replay`, which is recorded",
    "create_batch": "messages",
    "store_made": "messages",
    "make_for_caller": "messages, in a caller's transaction",
    "send_event": "an event on its way to a run",
    "send_event_or_start": "an event on its way to a run",
    "create_from_objects": "messages",
    "_withdraw": "takes back a batch that could not be filled",
}


def unrecorded(tree: ast.AST, function: str = "", is_inside: bool = False) -> Iterator[str]:
    """The functions that change something outside `recorded(…)`."""
    for node in ast.iter_child_nodes(tree):
        name, inside = function, is_inside
        if isinstance(node, ast.AsyncFunctionDef):
            name = node.name
        if isinstance(node, ast.AsyncWith):
            said = [ast.unparse(item.context_expr) for item in node.items]
            inside = inside or any("recorded(" in text.partition(" ")[0] for text in said)
        if isinstance(node, ast.Call) and not inside and _changes_store(node.func):
            yield name
        yield from unrecorded(node, name, inside)


def _changes_store(function: ast.expr) -> bool:
    if not isinstance(function, ast.Attribute) or function.attr not in CHANGES:
        return False
    owner = ast.unparse(function.value)
    return owner.startswith(("store.", "context.store.", "self._store."))


def test_every_change_in_ops_is_recorded() -> None:
    found = {
        name
        for path in OPS.rglob("*.py")
        for name in unrecorded(ast.parse(path.read_text("utf-8")))
    }
    assert found - UNRECORDED.keys() == set(), "put the change inside `async with recorded(…)`"
    assert UNRECORDED.keys() - found == set(), "these need no exception"


@pytest.mark.parametrize(
    ("code", "is_found"),
    [
        ("async def verb(store): await store.queues.pause(1)", True),
        ("async def verb(context): await context.store.queues.pause(1)", True),
        ("async def verb(store):\n async with recorded(store): await store.queues.pause(1)", False),
        ("async def verb(store): await store.queues.list(1)", False),
    ],
)
def test_a_change_without_a_record_is_found(code: str, is_found: bool) -> None:
    assert [*unrecorded(ast.parse(code))] == (["verb"] if is_found else [])
