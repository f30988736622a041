"""SQL from files: one statement a file, named as the method that runs it."""

from __future__ import annotations

from importlib.resources import files
from types import SimpleNamespace

from tickwork.core.model import FORMAT_VERSION, Message

MESSAGE_COLUMNS = ", ".join(f"m.{name}" for name in Message.__struct_fields__)
"""A stored message, in the order of its value: a row is read as `Message(*row)`."""


def load(package: str) -> SimpleNamespace:
    """The statements of a store's `sql` folder as attributes.

    `/*columns*/` are a message's, `/*format*/` is the newest format this code knows.
    """
    return SimpleNamespace(
        **{
            entry.name.removesuffix(".sql"): entry.read_text("utf-8")
            .replace("/*columns*/", MESSAGE_COLUMNS)
            .replace("/*format*/", str(FORMAT_VERSION))
            for entry in files(package).joinpath("sql").iterdir()
            if entry.name.endswith(".sql")
        }
    )
