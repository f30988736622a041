"""`tickwork run`: what it refuses in a sentence; an app that runs until it is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import pytest

from tests.kit.process import Children
from tickwork import wiring
from tickwork.core.model import DEFAULT, Counts, QueueSettings
from tickwork.ops.sending import compose, send

Write = Callable[[str], None]

DECLARED = """
    from tickwork import Tickwork

    app = Tickwork("sqlite:///tickwork.db")
    work = app.queue("work")
"""


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes the module `shop`, in a folder of the test's own."""

    def write(text: str) -> None:
        (tmp_path / "shop.py").write_text(dedent(text))

    return write


def run(folder: Path, *words: str) -> tuple[int, str]:
    """The exit code of a run that ends by itself, and what it says."""
    ended = subprocess.run(
        [sys.executable, "-m", "tickwork", "run", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=60,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def refused(folder: Path, *words: str) -> tuple[int, str]:
    """The same, of one that was not even begun."""
    code, says = run(folder, *words)
    assert len(says.splitlines()) == 1, says
    return code, says


@pytest.mark.parametrize("words", [(), ("shop",), ("shop:",), (":app",), ("",)])
def test_a_target_is_a_module_and_an_app(tmp_path: Path, write: Write, words: tuple[str]) -> None:
    write(DECLARED)
    says = "tickwork: MODULE:APP: give a module and the app in it, such as shop:app\n"
    assert refused(tmp_path, *words) == (2, says)


@pytest.mark.parametrize("module", ["nowhere", "shop.emails", "nowhere.at.all"])
def test_a_module_that_is_not_there_is_told(tmp_path: Path, write: Write, module: str) -> None:
    write(DECLARED)
    says = f"tickwork: MODULE:APP: there is no module {module}\n"
    assert refused(tmp_path, f"{module}:app") == (2, says)


def test_a_module_that_misses_another_says_which(tmp_path: Path, write: Write) -> None:
    write("import shopping_list")
    code, says = run(tmp_path, "shop:app")
    assert code == 1
    assert says.endswith("No module named 'shopping_list'\n")


@pytest.mark.parametrize("name", ["nothing", "work"])
def test_a_module_without_that_app_is_told(tmp_path: Path, write: Write, name: str) -> None:
    write(DECLARED)
    says = f"tickwork: MODULE:APP: shop has no Tickwork app {name!r}\n"
    assert refused(tmp_path, f"shop:{name}") == (2, says)


def test_an_app_without_handlers_has_nothing_to_run(tmp_path: Path, write: Write) -> None:
    write(DECLARED)
    code, says = refused(tmp_path, "shop:app")
    assert code == 1
    assert says == (
        "tickwork: shop:app has no handlers; declare one with @app.on(…) or @app.consumer(…)\n"
    )
    assert not (tmp_path / "tickwork.db").exists()


@pytest.mark.parametrize(
    ("queue", "advice"),
    [("wrok", "did you mean 'work'?"), ("emails", "add app.queue('emails') before it")],
)
def test_a_consumer_of_an_undeclared_queue_is_told_what_to_do(
    tmp_path: Path, write: Write, queue: str, advice: str
) -> None:
    write(f"{DECLARED}\n    @app.on({queue!r})\n    async def handle(message): ...\n")
    code, says = refused(tmp_path, "shop:app")
    assert code == 2
    assert says == (f"tickwork: shop.handle: consumes {queue!r}, which is not declared; {advice}\n")
    assert not (tmp_path / "tickwork.db").exists()


@pytest.mark.parametrize(
    ("database", "code", "why"),
    [
        ("mysql://u:secret@h/d", 2, "must be sqlite:///"),
        ("sqlite:////nowhere/at/all.db", 1, "there is no folder /nowhere/at"),
    ],
)
def test_a_database_that_cannot_be_used_is_told(
    tmp_path: Path, write: Write, database: str, code: int, why: str
) -> None:
    handler = "@app.on('work')\n    async def handle(message): ...\n"
    write(f"{DECLARED.replace('sqlite:///tickwork.db', database)}\n    {handler}")
    ended, says = run(tmp_path, "shop:app")
    assert ended == code
    assert why in says.splitlines()[-1]
    assert "secret" not in says
    assert "Traceback" not in says


RUNNING = """
    from tickwork import Tickwork

    app = Tickwork()
    work, out = app.queue("work"), app.queue("out")

    @app.on("work")
    async def handle(message):
        await out.send(message.body)
        print("handled", message.body, flush=True)

    @app.on("work", type="elsewhere", isolation="process")
    def handle_elsewhere(message):
        message.send("out", message.body)
        print("handled", message.body, flush=True)
"""


@pytest.mark.parametrize("told", [signal.SIGTERM, signal.SIGINT])
async def test_an_app_handles_messages_until_it_is_told_to_stop(
    children: Children,
    tmp_path: Path,
    write: Write,
    monkeypatch: pytest.MonkeyPatch,
    told: signal.Signals,
) -> None:
    write(RUNNING)
    monkeypatch.chdir(tmp_path)
    settings = wiring.Settings(database=f"sqlite:///{tmp_path}/own.db")
    store = await wiring.open_store(settings)
    await store.queues.put(DEFAULT, "work", QueueSettings())
    await send(store, DEFAULT, "work", compose("here"))
    await send(store, DEFAULT, "work", compose("there", type="elsewhere"))

    child = children.spawn(
        "tickwork", "run", "shop:app", env={"TICKWORK_DATABASE": settings.database}
    )
    await child.line("handled here", timeout_seconds=30)
    await child.line("handled there", timeout_seconds=30)
    assert child.returncode is None
    os.kill(child.pid, told)
    await child.succeeded(timeout_seconds=30)

    assert child.stderr() == "tickwork: handling work; Ctrl-C stops\n"
    assert await store.queues.counts(DEFAULT, "work") == Counts()
    sent = await store.messages.peek(DEFAULT, "out", 10)
    assert sorted(each.body for each in sent) == [b'"here"', b'"there"']
    await store.close()
