"""What `make soak` runs beyond `make test`.

- Of a randomised test `make test` runs a third of the examples, the same ones each time;
  `make soak` draws others each time. Tests of hypothesis get the mark `randomised`, by which
  `make soak` selects them.
- A law of code above the stores that takes long, or of what is refused before a store is asked,
  runs on one store in `make test`, and on the others in `make soak`:
  `@pytest.mark.one_store("sqlite")`.
"""

import os

import pytest

SOAK = "TESTS_SOAK"
"""Name of the environment variable that `make soak` sets."""

SHORT_DIVISOR = 3

STORE_FIXTURES = ("home", "database")
"""Fixtures whose parameter is the kind of a store."""


def is_soak() -> bool:
    """Whether this is `make soak`."""
    return bool(os.environ.get(SOAK))


def examples(full: int) -> int:
    """The number of examples for this run, of so many in the full one."""
    return full if is_soak() else max(1, full // SHORT_DIVISOR)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests that differ in `make soak`, before marks select tests."""
    for item in items:
        if not isinstance(item, pytest.Function):
            continue  # A file: its tests come later.
        if getattr(item.obj, "is_hypothesis_test", False):
            item.add_marker("randomised")
        one_store = item.get_closest_marker("one_store")
        if one_store is not None and _kind(item) != one_store.args[0]:
            item.add_marker("soak")


def _kind(item: pytest.Function) -> str:
    """The kind of store that a test runs on."""
    kinds = [
        item.callspec.params[fixture]
        for fixture in STORE_FIXTURES
        if fixture in item.callspec.params
    ]
    assert len(kinds) == 1, f"{item.nodeid} does not run on each store"
    return str(kinds[0])
