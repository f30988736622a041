"""SQL from files: one statement a file, named as the method that runs it."""

from __future__ import annotations

from importlib.resources import files
from types import SimpleNamespace

from tickwork.core.model import FORMAT_VERSION, Message

MESSAGE_COLUMNS = ", ".join(f"m.{name}" for name in Message.__struct_fields__)
"""A stored message, in the order of its value: a row is read as `Message(*row)`."""

SCHEDULE_COLUMNS = ", ".join(
    f"s.{name}"
    for name in (
        "tenant", "id", "name", "status", "version", "next_slot", "due_at", "look_at", "last_slot",
        "fired", "runs", "last_status", "last_error", "error_count", "idempotency_key",
        "fingerprint", "created_at", "updated_at", "changed_at", "rule", "queue", "body", "type",
        "content_type", "priority", "overlap", "on_dead", "retry", "expires_after_seconds",
        "metadata", "shift",
    )
)  # fmt: skip
"""A stored schedule: how it stands, and then its definition."""


def load(package: str) -> SimpleNamespace:
    """The statements of a store's `sql` folder as attributes.

    `/*columns*/` are a message's, `/*schedule*/` a schedule's, `/*format*/` is the newest format
    this code knows.
    """
    return SimpleNamespace(
        **{
            entry.name.removesuffix(".sql"): entry.read_text("utf-8")
            .replace("/*columns*/", MESSAGE_COLUMNS)
            .replace("/*schedule*/", SCHEDULE_COLUMNS)
            .replace("/*format*/", str(FORMAT_VERSION))
            for entry in files(package).joinpath("sql").iterdir()
            if entry.name.endswith(".sql")
        }
    )
