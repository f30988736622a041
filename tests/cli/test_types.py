"""`tickwork types`: what apps declare, and what a deploy would break."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.kit import Desk
from tests.cli.test_app_option import run
from tickwork.cli.run import load_app

APP = """
import msgspec
from tickwork import Message, Tickwork

app = Tickwork("sqlite:///shop.db", name="{name}")
app.queue("mails")


class Mail(msgspec.Struct):
    to: str
    {field}


@app.on("mails", type="mail.send")
async def deliver(message: Message[Mail]) -> None: ...
"""
OLD, WIDER, BREAKING = "count: int = 0", "count: float = 0", "count: str"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Desk]:
    """A folder with an app on shop.db, which has declared the old type."""
    path = [*sys.path]
    with contextlib.chdir(tmp_path):
        desk = Desk(tmp_path, f"sqlite:///{tmp_path}/shop.db")
        write(desk, OLD)
        register()
        yield desk
    sys.path[:] = path
    sys.modules.pop("shop", None)


def write(desk: Desk, field: str, name: str = "shop") -> None:
    (desk.folder / "shop.py").write_text(APP.format(name=name, field=field))
    sys.modules.pop("shop", None)


def register() -> None:
    async def open_once() -> None:
        app = load_app("shop:app")
        await app.open()
        await app.close()

    asyncio.run(open_once())
    sys.modules.pop("shop", None)


def test_what_apps_declare_is_listed_and_shown(shop: Desk) -> None:
    ((declared,),) = [one["declared"] for one in shop.json("types", "list")]
    assert (declared["queue"], declared["app"]) == ("mails", "shop")
    listed = shop.answer("types", "list")
    assert all(text in listed for text in ("mail.send", "shop.deliver", declared["version"]))
    schema = shop.answer("types", "show", "mail.send").splitlines()
    assert '"count": {' in [line.strip() for line in schema]
    refused = shop.run("queues", "send", "mails", '{"to": 7}', "--type", "mail.send")
    assert refused.exit_code != 0
    assert "at `$.to`" in refused.stderr
    assert shop.run("types", "show", "nothing").exit_code == 1


def test_a_check_fails_for_a_breaking_change_alone(shop: Desk) -> None:
    shown = {}
    for field in (OLD, WIDER, BREAKING):
        write(shop, field)
        result = run("types", "check", "--app", "shop:app", "--json")
        sys.modules.pop("shop", None)
        (check,) = json.loads(result.stdout)
        changes = [(change["path"], change["breaking"]) for change in check["changes"]]
        shown[field] = (result.exit_code, check["breaking"], {*changes})
    assert shown[OLD] == (0, False, set())
    assert shown[WIDER][:2] == (0, False)
    assert shown[BREAKING][:2] == (1, True)
    assert ("$.count", True) in shown[BREAKING][2]
    assert "breaking  $.count is required now" in run("types", "check", "--app", "shop:app").stdout


def test_doctor_names_types_that_apps_declare_differently(shop: Desk) -> None:
    def said() -> str:
        findings = shop.json("doctor")
        return " ".join(finding["says"] for finding in findings if finding["check"] == "types")

    assert said() == ""
    write(shop, BREAKING, name="billing")
    register()
    assert "mail.send in mails: billing, shop" in said()
