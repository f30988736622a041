"""Fixtures: the example on each store."""

from collections.abc import AsyncIterator

import pytest

from tests.examples.streaky_kit import Streaky
from tests.kit.process import Children
from tests.stores.home import Home


@pytest.fixture
async def streaky(
    request: pytest.FixtureRequest, home: Home, children: Children
) -> AsyncIterator[Streaky]:
    """Streaky on an empty database. Its settings may come from an indirect parameter."""
    store = await home.open()
    made = Streaky(children, home, store, **getattr(request, "param", {}))
    yield made
    await made.close()
    await store.close()
