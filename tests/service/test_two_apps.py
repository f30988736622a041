"""Several apps on one database: each has a name, and runs only its own functions."""

from __future__ import annotations

import os
import sys
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.kit.process import Child, Children
from tests.kit.waiting import eventually
from tests.stores.home import Home
from tickwork.app.firing import Firing
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork

FUNCTIONS = "tests.service.programs.functions"
RUNS = 2
LATE_SECONDS_MAX = 10.0
"""Far less than the 30 seconds after which a message without a handler is tried again."""


class Run(NamedTuple):
    app: str
    function: str
    slot: str
    late_seconds: float


def runs(child: Child) -> list[Run]:
    found = [line.split() for line in child.lines()]
    return [Run(app, function, slot, float(late)) for app, function, slot, late in found]


@pytest.mark.one_store("sqlite")
async def test_two_apps_run_only_their_own_functions_and_on_time(
    home: Home, children: Children
) -> None:
    apps = {name: children.spawn(FUNCTIONS, home.url, name) for name in ("shop", "billing")}

    def have_run() -> bool:
        counts = [Counter(run.function for run in runs(child)) for child in apps.values()]
        return all(len(count) == 2 and min(count.values()) >= RUNS for count in counts)

    await eventually(have_run)
    for name, child in apps.items():
        child.terminate()
        await child.succeeded()
        done = runs(child)
        assert {run.app for run in done} == {name}
        assert {run.function for run in done} == {"tick", f"only_{name}"}
        assert len({(run.function, run.slot) for run in done}) == len(done)
        assert max(run.late_seconds for run in done) < LATE_SECONDS_MAX
        assert "no longer declared" not in child.stderr()
        assert "no handler" not in child.stderr()


async def test_an_app_means_its_own_schedule_by_a_functions_name(home: Home) -> None:
    apps = [Tickwork(home.url, name=name) for name in ("shop", "billing")]

    async def nightly(_: Firing[Any]) -> None: ...

    for hour, app in enumerate(apps):
        app.schedule(daily_time={"hour": hour, "minute": 0})(nightly)
        async with app.running(roles="worker"):
            pass
    for hour, app in enumerate(apps):
        await app.schedules.pause("nightly")
        found = await app.schedules.get("nightly")
        assert found.target["queue"] == f"{app.name}.functions"
        assert found.daily_time is not None
        assert found.status == "paused"
        assert found.daily_time["hour"] == hour
        await app.close()


async def test_a_function_runs_in_the_queue_that_its_app_chooses(home: Home) -> None:
    app = Tickwork(home.url, name="shop")
    app.queue("reports", max_retries=1)

    @app.schedule(cron_expr="@daily", queue="reports", name="daily")
    async def daily(_: Firing[Any]) -> None: ...

    @app.schedule(cron_expr="@hourly", queue="new")
    async def hourly(_: Firing[Any]) -> None: ...

    assert app._engine.registry.queues.keys() == {"reports", "new"}
    async with app.running(roles="worker"):
        assert (await app.schedules.get("daily")).target["queue"] == "reports"
    with pytest.raises(InvalidInput, match="queue"):
        app.schedule(cron_expr="@daily", queue="")(daily)


def test_an_app_is_named_after_the_module_that_creates_it() -> None:
    class Shop(Tickwork):
        def __init__(self) -> None:
            super().__init__()

    assert Tickwork().name == Shop().name == __name__
    assert Tickwork(name="shop").name == "shop"
    for bad in ("", "x" * 111, 7):
        with pytest.raises(InvalidInput, match="name"):
            Tickwork(name=bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("way", ["script", "module", "isolated"])
async def test_a_script_is_named_like_its_module(
    way: str, tmp_path: Path, children: Children
) -> None:
    """So `python shop.py`, `python -m shop` and `tickwork run shop:app` run one app."""
    script = tmp_path / "shop.py"
    script.write_text("from tickwork import Tickwork\napp = Tickwork()\nprint(app.name)\n")
    environ = {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    if way == "script":
        child = children.spawn(script)
    elif way == "module":
        child = children.spawn("shop", env=environ)
    else:
        importing = tmp_path / "importing.py"
        importing.write_text(
            "from tickwork.service.isolation.function_location import _import_script\n"
            f"_import_script({str(script)!r})\n"
        )
        child = children.spawn(importing)
    assert await child.line("shop") == "shop"


async def test_two_apps_that_declare_a_queue_differently_are_both_named(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    shop, billing = (Tickwork(home.url, name=name) for name in ("shop", "billing"))
    shop.queue("emails", max_retries=9)
    billing.queue("emails", max_retries=1, timeout_seconds=60)
    for app in (shop, shop, billing):
        assert "emails" not in caplog.text
        await app.open()
        await app.close()
    assert "queue emails is declared by the apps shop and billing" in caplog.text
    assert "max_retries 9 and 1, timeout_seconds 900 and 60" in caplog.text
    caplog.clear()
    for name in ("only-sends", "billing"):
        app = Tickwork(home.url, name=name)
        emails = app.queue("emails")
        await emails.send({})
        assert (await app.queues.get("emails")).declared_by == "billing"
        await app.close()
    assert "emails" not in caplog.text
