"""Fixtures for every test; what they do is in tests/kit and tests/stores."""

from tests.kit.fixtures import (
    children,
    durable_postgres,
    known_types,
    postgres_server,
    postgres_url,
)
from tests.kit.soak import pytest_collection_modifyitems
from tests.stores.fixtures import clock, home, homes, store

__all__ = [
    "children",
    "clock",
    "durable_postgres",
    "home",
    "homes",
    "known_types",
    "postgres_server",
    "postgres_url",
    "pytest_collection_modifyitems",
    "store",
]
