"""The pytest plugin: async tests with its fixture run, with and without other plugins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PLUGIN = "tickwork.testing.pytest_plugin"
TESTS = """
from tickwork import Tickwork

app = Tickwork()
orders = app.queue("orders")


@app.on("orders")
async def ship(message):
    if message.body["count"] == 0:
        raise ValueError("nothing to ship")


async def test_an_order_is_shipped(tickwork, tmp_path):
    async with tickwork(app, raise_errors=True) as h:
        await orders.send({"count": 1})
        await h.drain()
        assert tmp_path.exists()


async def test_an_order_of_nothing_fails(tickwork):
    async with tickwork(app, raise_errors=True) as h:
        await orders.send({"count": 0})
        await h.drain()


async def test_of_somebody_else():
    pass
"""


def run(folder: Path, *words: str) -> str:
    (folder / "test_orders.py").write_text(TESTS)
    own = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": PLUGIN}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rA", "-p", "no:cacheprovider", *words],
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout


def test_async_tests_with_the_fixture_run_and_others_are_left_to_other_plugins(
    tmp_path: Path,
) -> None:
    report = run(tmp_path)
    assert "PASSED test_orders.py::test_an_order_is_shipped" in report
    assert "FAILED test_orders.py::test_an_order_of_nothing_fails - ValueError: nothing" in report
    assert "FAILED test_orders.py::test_of_somebody_else" in report


def test_another_plugin_may_run_the_tests(tmp_path: Path) -> None:
    report = run(tmp_path, "-p", "pytest_asyncio.plugin", "--asyncio-mode=auto")
    assert "PASSED test_orders.py::test_an_order_is_shipped" in report
    assert "PASSED test_orders.py::test_of_somebody_else" in report


def test_the_option_chooses_the_database(tmp_path: Path) -> None:
    report = run(tmp_path, "--tickwork-database", "nowhere://x", "-k", "shipped")
    assert "FAILED test_orders.py::test_an_order_is_shipped" in report
    assert "database" in report
