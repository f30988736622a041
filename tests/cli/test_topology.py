"""`tickwork topology`: a file checked, compared and applied."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tests.cli.kit import Desk
from tests.core.test_mermaid import read
from tests.core.test_topology import FIVE_SERVICES
from tickwork.core.model import DEFAULT

FILE = """
[[queues]]
name = "emails"
max_retries = 5
[[subscriptions]]
types = "user.*"
queue = "emails"
"""

AROUND = """
[[queues]]
name = "graves"
shared = true
[[producers]]
name = "shop"
queue = "emails"
[[producers]]
name = "blog"
queue = "emails"
[[consumers]]
name = "mailer"
queue = "emails"
dead_letter_queue = "graves"
[[consumers]]
queue = "graves"
"""

APP = """
    from tickwork import Tickwork

    app = Tickwork()
    app.queue("emails", dead_letter_queue="graves")
    app.queue("orders", shared=True)

    @app.on("emails", type="welcome")
    async def welcome(message): ...

    @app.on("emails")
    async def any_other(message): ...

    @app.consumer("orders", max_concurrency=4)
    async def in_batches(batch): ...
"""


@pytest.fixture
def file(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `tickwork.toml` where the commands run."""
    monkeypatch.chdir(desk.folder)
    path = desk.folder / "tickwork.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_checked_without_a_database(desk: Desk, file: Path) -> None:
    assert desk.answer("topology", "check") == (
        "valid: 1 queues, 0 producers, 0 consumers, 1 subscriptions, 0 services\n"
    )
    file.write_text(FIVE_SERVICES)
    assert desk.json("topology", "check") == {
        "queues": 10,
        "producers": 7,
        "consumers": 5,
        "subscriptions": 1,
        "services": 1,
    }
    assert not (desk.folder / "tickwork.db").exists()


def test_a_topology_is_shown_with_one_line_per_queue(desk: Desk, file: Path) -> None:
    file.write_text(FILE + AROUND)
    assert desk.answer("topology").splitlines() == [
        "queue   shared  producers   events  consumers  dead_letter_queue",
        "emails          shop, blog  user.*  mailer     graves",
        "graves  yes                         yes",
    ]
    shown = desk.json("topology")
    assert shown["producers"][1] == {"name": "blog", "queue": "emails"}
    assert shown["queues"][0]["settings"]["max_retries"] == 5
    assert json.loads(desk.answer("topology", "--format", "json")) == shown
    file.write_text("")
    assert desk.answer("topology") == "there are no queues\n"
    assert not (desk.folder / "tickwork.db").exists()


def test_a_topology_is_drawn_as_mermaid(desk: Desk, file: Path) -> None:
    file.write_text(FILE + AROUND)
    drawn = read(desk.answer("topology", "--format", "mermaid").splitlines())
    assert drawn.arrows == [
        ("shop", "-->", None, "emails"),
        ("blog", "-->", None, "emails"),
        ("user.*", "-->", "events", "emails"),
        ("emails", "-->", None, "mailer"),
        ("graves", "-->", None, "(of graves)"),
        ("emails", "-.->", "dead letters", "graves"),
    ]


def topology_of_app(folder: Path, module: str, *words: str) -> tuple[int, str, str]:
    """Runs the command for an app in its own process, because imports persist."""
    (folder / "shop.py").write_text(dedent(module))
    command = [sys.executable, "-m", "tickwork", "topology", "--app", "shop:app", *words]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=60)
    return ended.returncode, ended.stdout, ended.stderr


def test_the_topology_of_an_app_needs_no_database(tmp_path: Path) -> None:
    code, drawn, told = topology_of_app(tmp_path, APP, "--format", "mermaid")
    assert (code, told) == (0, "")
    assert read(drawn.splitlines()).arrows == [
        ("emails", "-->", "welcome", "shop.welcome"),
        ("emails", "-->", None, "shop.any_other"),
        ("orders", "-->", None, "shop.in_batches"),
        ("emails", "-.->", "dead letters", "graves"),
    ]
    assert not [*tmp_path.glob("*.db")]


def test_an_invalid_app_is_refused(tmp_path: Path) -> None:
    code, shown, told = topology_of_app(tmp_path, APP.replace('queue("orders"', 'queue("order"'))
    assert (code, shown) == (2, "")
    assert told == (
        "tickwork: shop.in_batches: consumes 'orders', which is not declared; "
        "did you mean 'order'?\n"
    )


@pytest.mark.usefixtures("file")
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--format", "png"], "--format: must be one of table, json, mermaid, not 'png'"),
        (["--format", "mermaid", "--json"], "give --format or --json, not both"),
        (["--file", "a.toml", "--app", "shop:app"], "give --file or --app, not both"),
        (["--app", "shop"], "MODULE:APP: give a module and the app in it"),
        (["--app", "nowhere_at_all:app"], "MODULE:APP: there is no module nowhere_at_all"),
        (
            ["--file", "none.toml"],
            "there is no file none.toml; name one with --file, or an app with --app MODULE:APP",
        ),
        (["--file", "tickwork.toml", "check"], "give options after check, not before it"),
    ],
)
def test_a_topology_that_cannot_be_shown_is_one_line(
    desk: Desk, words: list[str], says: str
) -> None:
    refused = desk.run("topology", *words)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.startswith(f"tickwork: {says}")
    assert len(refused.stderr.splitlines()) == 1


def test_show_and_apply_print_the_same_steps_and_apply_is_idempotent(
    desk: Desk, file: Path
) -> None:
    refused = desk.run("topology", "show")
    assert refused.exit_code == 1
    assert "run `tickwork migrate --database " in refused.stderr
    assert not (desk.folder / "tickwork.db").exists()
    desk.answer("migrate")
    planned = desk.answer("topology", "show")
    assert planned.splitlines() == [
        "create  queue         emails",
        "create  subscription  user.* → emails",
    ]
    assert desk.answer("topology", "apply") == planned
    assert desk.answer("topology", "apply").splitlines() == [
        "keep    queue         emails",
        "keep    subscription  user.* → emails",
    ]
    file.write_text(FILE.replace("5", "6").replace("subscriptions", "producers").replace(
        'types = "user.*"', 'name = "shop"'))  # fmt: skip
    assert desk.answer("topology", "apply").splitlines() == [
        "change  queue         emails",
        "                        max_retries: 5 → 6",
        "extra   subscription  user.* → emails  not in the file, kept",
    ]


def test_steps_are_printed_as_json(desk: Desk, file: Path) -> None:
    desk.answer("topology", "apply", "--file", str(file))
    (other := desk.folder / "other.toml").write_text(FILE.replace("5", "6"))
    queue, subscription = desk.json("topology", "show", "--file", str(other))
    assert (queue["action"], queue["kind"], queue["name"]) == ("change", "queue", "emails")
    assert queue["changes"] == [{"field": "max_retries", "before": 5, "after": 6}]
    assert subscription["action"] == "keep"


@pytest.mark.usefixtures("file")
def test_a_topology_file_may_have_server_settings(desk: Desk, file: Path) -> None:
    file.write_text(f"[server]\nport = 9000\n{FILE}")
    assert desk.run("topology", "apply").exit_code == 0


@pytest.mark.parametrize("command", ["check", "show", "apply"])
def test_every_fault_is_one_line_and_nothing_is_applied(
    desk: Desk, file: Path, command: str
) -> None:
    file.write_text(FILE.replace("max_retries", "max_retrys").replace('queue = "e', 'queue = "E'))
    refused = desk.run("topology", command)
    assert (refused.exit_code, refused.stdout) == (2, "")
    unknown_key, unknown_queue = refused.stderr.splitlines()
    assert unknown_key == (
        "tickwork: queues[0].max_retrys: is not a known field; did you mean 'max_retries'?"
    )
    assert unknown_queue == (
        "tickwork: subscriptions[0].queue: there is no queue 'Emails' in the file; did you mean "
        "'emails'? Otherwise add [[queues]] with name = \"Emails\""
    )
    assert not (desk.folder / "tickwork.db").exists()


def test_an_unreadable_file_is_one_line(desk: Desk, file: Path) -> None:
    missing = desk.run("topology", "check", "--file", "none.toml")
    assert (missing.exit_code, missing.stderr) == (
        2,
        "tickwork: there is no file none.toml; name one with --file\n",
    )
    file.write_bytes(b"\xff")
    assert desk.run("topology", "check").stderr == ("tickwork: tickwork.toml is not valid UTF-8\n")
    file.write_text("[[queues]\n")
    refused = desk.run("topology", "check")
    assert refused.exit_code == 2
    assert "tickwork.toml: is not valid TOML" in refused.stderr
    assert "line 1" in refused.stderr
    assert desk.run("topology", "check", "--file", str(desk.folder)).exit_code == 2


@pytest.mark.usefixtures("file")
def test_apply_creates_the_database(desk: Desk) -> None:
    assert len(desk.answer("topology", "apply").splitlines()) == 2
    assert desk.store(lambda store: store.queues.get(DEFAULT, "emails")).name == "emails"


@pytest.mark.usefixtures("file")
def test_the_tenant_must_exist(desk: Desk) -> None:
    refused = desk.run("topology", "apply", "--tenant", "nobody")
    assert (refused.exit_code, refused.stderr) == (1, "tickwork: there is no tenant nobody\n")
