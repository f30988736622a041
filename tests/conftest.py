"""Fixtures for every test; what they do is in tests/kit and tests/stores."""

import gc

from hypothesis import settings

from tests.kit.fixtures import (
    children,
    durable_postgres,
    known_types,
    postgres_server,
    postgres_url,
)
from tests.kit.soak import examples, is_soak, pytest_collection_modifyitems
from tests.stores.fixtures import (
    clock,
    home,
    homes,
    migrated_files,
    migrations,
    pools,
    sqlite_homes,
    store,
)

__all__ = [
    "children",
    "clock",
    "durable_postgres",
    "home",
    "homes",
    "known_types",
    "migrated_files",
    "migrations",
    "pools",
    "postgres_server",
    "postgres_url",
    "pytest_collection_modifyitems",
    "sqlite_homes",
    "store",
]

EXAMPLES = 100
"""Number of examples of a randomised test in `make soak`, if the test itself has no other."""

# Other processes may take the core for a second: how long an example takes says nothing.
# `make test` draws the same examples each time, so it fails only for what was changed.
settings.register_profile(
    "tickwork",
    max_examples=examples(EXAMPLES),
    deadline=None,
    derandomize=not is_soak(),
    database=None,
)
settings.load_profile("tickwork")


def pytest_collection_finish() -> None:
    """The collected tests, a million objects, stay to the end: no garbage collection visits them
    again. One takes a second otherwise."""
    gc.collect()
    gc.freeze()
