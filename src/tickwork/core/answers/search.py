"""What a search finds."""

from __future__ import annotations

from msgspec import Struct


class Finding(Struct, frozen=True, kw_only=True):
    """A thing of a kind. `id` names it among those of its kind: within `parent`, the workflow of a
    run or the type of an entity. `note` says what it does, or why it was found."""

    kind: str
    id: str
    name: str
    parent: str | None = None
    note: str | None = None


class Findings(Struct, frozen=True, kw_only=True):
    """What a search has found, by kind. `is_cut`: of some kind there may be more."""

    items: tuple[Finding, ...]
    is_cut: bool = False
