"""How many examples a randomised test runs: a third in `make test`, all in `make soak`.

Tests of hypothesis get the mark `randomised`, by which `make soak` selects them.
"""

import os

import pytest

SOAK = "TICKWORK_TEST_SOAK"
"""Name of the environment variable that `make soak` sets."""

SHORT_DIVISOR = 3


def examples(full: int) -> int:
    """The number of examples for this run, of so many in the full one."""
    return full if os.environ.get(SOAK) else max(1, full // SHORT_DIVISOR)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests whose number of examples differs, before marks select tests."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("randomised")
