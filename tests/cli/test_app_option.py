"""`--app`: a command works on the database and for the tenant of an app."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.cli.kit import Desk
from tickwork.cli import app
from tickwork.core.model import DEFAULT, SYSTEM, QueueSettings, Scope, Tenant
from tickwork.store.contract import Store

SHOP = """
from tickwork import Tickwork

app = Tickwork("sqlite:///shop.db", tenant="{tenant}")
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with an app on shop.db, and the path and modules as before at the end."""
    path = [*sys.path]
    (tmp_path / "shop.py").write_text(SHOP.format(tenant="default"))
    with contextlib.chdir(tmp_path):
        yield tmp_path
    sys.path[:] = path
    sys.modules.pop("shop", None)


def run(*words: str) -> Result:
    return CliRunner().invoke(app, [*words])


def commands() -> Iterator[tuple[str, Any]]:
    """Every command of the command line by its words."""

    def walk(words: str, command: Any) -> Iterator[tuple[str, Any]]:
        yield words, command
        for name, value in getattr(command, "commands", {}).items():
            yield from walk(f"{words} {name}", value)

    return walk("tickwork", app)


def options(command: Any) -> set[str]:
    return {option for param in command.params for option in param.opts}


@pytest.mark.parametrize(("words", "command"), [*commands()])
def test_every_command_that_takes_a_database_takes_an_app(words: str, command: Any) -> None:
    assert ("--database" in options(command)) <= ("--app" in options(command)), words


def test_the_help_has_a_short_option() -> None:
    for words in (["-h"], ["queues", "-h"], ["queues", "stats", "-h"]):
        shown = run(*words)
        assert (shown.exit_code, shown.output.split(":")[0]) == (0, "Usage")
        assert "-h, --help" in shown.output


def test_an_app_is_read_and_not_a_stray_database(folder: Path) -> None:
    async def put(store: Store) -> None:
        await store.queues.put(DEFAULT, "emails", QueueSettings())

    Desk(folder, f"sqlite:///{folder}/shop.db").store(put)
    Desk(folder).answer("migrate")
    assert run("queues", "list").stdout == "there are no queues\n"
    listed = run("queues", "list", "--app", "shop:app", "--json")
    assert [load["name"] for load in json.loads(listed.stdout)] == ["emails"]


@pytest.mark.usefixtures("migrations")
def test_a_migration_names_the_database_of_the_app(folder: Path) -> None:
    first = run("migrate", "--app", "shop:app")
    assert first.exit_code == 0
    assert f"applied 0001_baseline.sql to sqlite:///{folder}/shop.db\n" in first.stdout
    again = run("migrate", "--app", "shop:app")
    assert again.stdout == f"the schema of sqlite:///{folder}/shop.db is up to date\n"
    assert not (folder / "tickwork.db").exists()


def test_the_tenant_is_that_of_the_app_unless_it_is_given(folder: Path) -> None:
    (folder / "shop.py").write_text(SHOP.format(tenant="acme"))

    async def put(store: Store) -> None:
        await store.tenants.put(SYSTEM, Tenant(id="acme"))
        await store.queues.put(Scope("acme"), "theirs", QueueSettings())
        await store.queues.put(DEFAULT, "ours", QueueSettings())

    Desk(folder, f"sqlite:///{folder}/shop.db").store(put)
    assert "theirs" in run("queues", "list", "--app", "shop:app").stdout
    other = run("queues", "list", "--app", "shop:app", "--tenant", "default")
    assert "ours" in other.stdout
    assert "theirs" not in other.stdout


@pytest.mark.usefixtures("folder")
def test_an_app_and_a_database_exclude_each_other() -> None:
    refused = run("queues", "list", "--app", "shop:app", "--database", "sqlite:///other.db")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr == "tickwork: give --database or --app, not both\n"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("target", "says"),
    [
        ("nowhere:app", "MODULE:APP: there is no module nowhere"),
        ("shop", "MODULE:APP: give a module and the app in it, such as shop:app"),
    ],
)
def test_an_app_that_does_not_exist_is_one_line(target: str, says: str) -> None:
    refused = run("queues", "list", "--app", target)
    assert (refused.exit_code, refused.stderr) == (2, f"tickwork: {says}\n")


def test_an_app_that_cannot_be_imported_names_the_way_to_the_traceback(folder: Path) -> None:
    (folder / "shop.py").write_text("1 / 0\n")
    refused = run("queues", "list", "--app", "shop:app")
    assert refused.exit_code == 2
    assert refused.stderr.endswith("(shop.py:1); TICKWORK_DEBUG=1 shows the traceback\n")


def test_the_advice_to_migrate_is_the_exact_command(folder: Path) -> None:
    refused = run("queues", "list", "--app", "shop:app")
    command = f"tickwork migrate --database sqlite:///{folder}/shop.db"
    assert f"run `{command}` to create it" in refused.stderr
    assert run(*command.split()[1:]).exit_code == 0
    assert run("queues", "list", "--app", "shop:app").exit_code == 0
