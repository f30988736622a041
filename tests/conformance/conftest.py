"""Here every test runs on the model too, so that it is held to the laws it stands for."""

from collections.abc import AsyncIterator

import pytest

from tests.stores.home import KINDS, Home
from tests.stores.opening import Homes


@pytest.fixture(params=["model", *KINDS])
async def home(request: pytest.FixtureRequest, homes: Homes) -> AsyncIterator[Home]:
    """An empty database of each kind, and empty tables of the model."""
    async with homes.take(request.param) as taken:
        yield taken
