"""What happens to a call whose method a node does not have.

During a rolling deploy another node may have it. So the node puts the call back for a while, and
notes in the error of its message that it does not have the method. As soon as every live worker has
noted that, nobody has it, and the call is dead. A worker of another app never takes the call, and
never notes anything: then it is dead after ten minutes, as every message without a handler.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from uuid import UUID

from tickwork.core.message.outcome import UnhandledType

NODES_NOTED_MAX = 40
"""Number of nodes that an error names."""

_NODE_DIGITS = 12
_NODES = re.compile(r"no handler for .* on nodes? ([0-9a-f, ]+) \(release \d+ of \d+\)", re.DOTALL)


def missing_method(
    method: str,
    hint: str | None,
    *,
    last_error: str | None,
    node: UUID | None,
    workers: Collection[UUID],
) -> UnhandledType:
    """The outcome of a call whose `method` a node does not have, given the error of its message and
    the live workers."""
    named = f"the method {method}" if hint is None else f"the method {method} ({hint})"
    noted = _noted(last_error) | ({_digits(node)} if node is not None else set())
    if {_digits(worker) for worker in workers} <= noted:
        return UnhandledType(f"{named} on any live worker", is_nowhere=True)
    shown = sorted(noted)[:NODES_NOTED_MAX]
    return UnhandledType(f"{named} on node{'s' * (len(shown) > 1)} {', '.join(shown)}")


def _noted(last_error: str | None) -> set[str]:
    found = _NODES.fullmatch(last_error or "")
    return set() if found is None else set(found[1].split(", "))


def _digits(node: UUID) -> str:
    return node.hex[-_NODE_DIGITS:]
