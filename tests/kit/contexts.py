"""Contexts of verbs, for tests that call them directly."""

from collections.abc import Callable
from typing import Any

from tickwork.core.model import Scope
from tickwork.core.when import Limits
from tickwork.ops.context import Context, no_types
from tickwork.ops.outside import Box, CheckUrl, Outside
from tickwork.store.contract import Store


def acting(
    store: Store,
    scope: Scope,
    *,
    limits: Limits | None = None,
    box: Box | Callable[[], Box] | None = None,
    check_url: CheckUrl = lambda _: None,
    payload_of: Any = no_types,
    sink: Any = None,
) -> Context:
    """A context with these limits of schedules, key of secrets, types and sender of webhooks."""
    own: dict[str, Any] = {}
    if box is not None:
        get_box = box if callable(box) else lambda: box
        own |= {"secret_box": get_box, "secret_reader": get_box}
    if sink is not None:
        own["webhook_sink"] = lambda: sink
    return Context(
        store, scope, lambda: limits or Limits(), payload_of, outside=Outside(check_url, **own)
    )
