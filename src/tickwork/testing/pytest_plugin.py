"""The pytest plugin: the fixture `tickwork`.

```python
async def test_a_reminder_follows(tickwork):
    async with tickwork(app) as h:
        await h.advance(hours=1)
```

pytest loads it by itself where Tickwork is installed. An async test with this fixture needs no
other plugin; if pytest-asyncio or anyio runs it, this plugin leaves it to them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

FIXTURE = "tickwork"
OPTION = "--tickwork-database"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option for the database of all harnesses."""
    parser.getgroup("tickwork").addoption(
        OPTION,
        metavar="URL",
        help="PostgreSQL server for the fixture tickwork; each test gets a schema of its own."
        " Default: a temporary SQLite file.",
    )


@pytest.fixture(name=FIXTURE)
def tickwork_harness(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Opens an app on an empty store with a virtual clock: `async with tickwork(app) as h`.

    It takes the arguments of `tickwork.testing.harness`.
    """
    from tickwork.testing import harness

    return partial(harness, database=request.config.getoption(OPTION))


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs an async test that uses the fixture and that no other plugin runs."""
    test = pyfuncitem.obj
    if FIXTURE not in pyfuncitem.fixturenames or not inspect.iscoroutinefunction(test):
        return None
    asyncio.run(test(**{name: pyfuncitem.funcargs[name] for name in _parameters(test)}))
    return True


def _parameters(test: Callable[..., Any]) -> list[str]:
    return [*inspect.signature(test).parameters]
