"""A console to measure: whether there is one, and a database for it."""

from __future__ import annotations

from tests.console import served
from tickwork.api.routes import console
from tickwork.wiring import Settings


def is_built() -> bool:
    """Whether this package contains the console."""
    return console.is_built()


def prepared(database: str) -> str:
    """Makes a database with a workflow, and returns a key with all scopes."""
    return served.prepared(Settings(database=database))
