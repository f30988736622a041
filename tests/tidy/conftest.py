"""Forgets the trees of the source after the tests of this folder: a million objects, which every
garbage collection of a later test would visit."""

from collections.abc import Iterator

import pytest

from tests.tidy import laws, test_tidy


@pytest.fixture(scope="package", autouse=True)
def trees() -> Iterator[None]:
    """The trees that the laws share."""
    yield
    for cached in (laws.nodes_of, laws.code_lines, test_tidy.parse, test_tidy.read):
        cached.cache_clear()
