"""Reads which dead letters a caller means."""

from __future__ import annotations

from typing import Any

from tickwork.core.fields import Reader, read_id
from tickwork.core.message.dead_letter import DEAD_LETTERS_AT_ONCE_MAX, Selection
from tickwork.errors import InvalidInput

LETTERS_MAX = 1_000_000
"""Maximum number of dead letters of one replay or discard that has a limit."""


def read_selection(reader: Reader) -> tuple[Selection, int | None]:
    """The dead letters that a request selects, and the most of them that it means. Raises
    `InvalidInput`."""
    texts: dict[str, Any] = {
        name: reader.string(name) if reader.has(name) else None
        for name in ("reason", "fingerprint", "type")
    }
    is_typeless = reader.boolean("no_type") if reader.has("no_type") else False
    until = reader.instant("failed_before") if reader.has("failed_before") else None
    ids = reader.items("ids", "ids", DEAD_LETTERS_AT_ONCE_MAX) if reader.has("ids") else None
    limit = reader.integer("limit", 1, LETTERS_MAX) if reader.has("limit") else None
    if reader.faults:
        raise InvalidInput(reader.faults)
    chosen = None if ids is None else tuple(read_id("ids", text) for text in ids)
    which = Selection(ids=chosen, no_type=bool(is_typeless), failed_before=until, **texts)
    return which, limit
