"""Here every test also runs on the model, so that the model obeys the same laws."""

from collections.abc import AsyncIterator

import pytest

from tests.stores.home import KINDS, Home
from tests.stores.open_homes import Homes


@pytest.fixture(params=["model", *KINDS])
async def home(request: pytest.FixtureRequest, homes: Homes) -> AsyncIterator[Home]:
    """An empty database of each kind, and an empty model."""
    async with homes.take(request.param) as taken:
        yield taken
