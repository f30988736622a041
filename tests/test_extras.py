"""The core runs without the optional dependencies, and names the extra where one is needed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

OPTIONAL = (
    "aiohttp", "aiosmtplib", "asyncpg", "cryptography", "httptools", "litestar", "uvicorn",
    "uvloop", "yarl",
)  # fmt: skip
"""Packages of the extras. None in `sys.modules` makes an import fail as
that of a package that is not installed."""

WITHOUT = f"import sys; sys.modules.update(dict.fromkeys({OPTIONAL!r}))\n"
COMMAND = WITHOUT + "from tickwork.cli import main; main()"

APP = """
from tickwork import Firing, Message, Tickwork

app = Tickwork(database="sqlite:///core.db")
work = app.queue("work")
handled = []

@app.on("work")
async def handle(message: Message) -> None:
    handled.append(message.body)

@app.schedule(cron_expr="* * * * *")
async def tick(firing: Firing) -> None:
    handled.append("tick")
"""

HARNESS = """
import asyncio
from shop import app, handled, work
from tickwork.testing import harness

async def main() -> None:
    async with harness(app) as h:
        await work.send("hello")
        await h.advance(minutes=1)

asyncio.run(main())
print(*sorted(handled))
"""

RUN = """
import asyncio
from shop import app, handled, work

async def main() -> None:
    async with app.running():
        await work.send("hello")
        while not handled:
            await asyncio.sleep(0.01)

asyncio.run(main())
print(*handled)
"""

NEEDS_DRIVER = "postgresql:// needs the driver: pip install 'tickwork[postgres]'"
POSTGRES = "postgresql://127.0.0.1:1/none"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(APP)
    return tmp_path


def python(folder: Path, script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("script", "printed"), [(HARNESS, "hello tick\n"), (RUN, "hello\n")], ids=["harness", "worker"]
)
def test_an_app_on_sqlite_needs_no_extra(folder: Path, script: str, printed: str) -> None:
    ended = python(folder, f"{WITHOUT}{script}")
    assert (ended.stdout, ended.stderr) == (printed, "")


EMAIL = {"type": "email", "to": "ada@example.com", "subject": "Hello", "text": "Hello"}
PLAN = f"""
import asyncio
from shop import app

async def plan() -> None:
    await app.schedules.create(name="hello", daily_time="09:00", target={EMAIL!r})

asyncio.run(plan())
"""
NO_DELIVERY = "this installation cannot deliver webhooks, email and chat"
INSTALL = "pip install 'tickwork[delivery]'"


def test_a_worker_that_cannot_deliver_says_so_and_the_doctor_does_too(folder: Path) -> None:
    doctor = (COMMAND, "doctor", "--database", "sqlite:///core.db", "--json")
    assert python(folder, f"{WITHOUT}{RUN}").stderr == ""
    assert "deliveries" not in python(folder, *doctor).stdout
    assert python(folder, f"{WITHOUT}{PLAN}").stderr == ""
    assert python(folder, f"{WITHOUT}{RUN}").stderr.splitlines() == [f"{NO_DELIVERY}: {INSTALL}"]
    found = json.loads(python(folder, *doctor).stdout)
    (finding,) = [candidate for candidate in found if candidate["check"] == "deliveries"]
    assert (finding["level"], finding["says"]) == ("warning", NO_DELIVERY)
    assert finding["advice"].endswith(INSTALL)


def test_a_worker_that_delivers_nothing_imports_no_client(folder: Path) -> None:
    """They take as long to import as all the rest."""
    found = "import sys; print(*sorted({'aiohttp', 'aiosmtplib', 'cryptography'} & {*sys.modules}))"
    ended = python(folder, f"{RUN}{found}")
    assert (ended.stdout, ended.stderr) == ("hello\n\n", "")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["up"], "tickwork up needs the HTTP server: pip install 'tickwork[server]'"),
        (
            ["run", "shop:app", "--roles", "api"],
            "the role api needs the HTTP server: pip install 'tickwork[server]'",
        ),
        (["queues", "list", "--database", POSTGRES], NEEDS_DRIVER),
        (["migrate", "--database", POSTGRES], NEEDS_DRIVER),
        (["doctor", "--database", POSTGRES], NEEDS_DRIVER),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_command_that_needs_an_extra_names_it(
    folder: Path, arguments: list[str], sentence: str
) -> None:
    ended = python(folder, COMMAND, *arguments)
    assert (ended.returncode, ended.stdout) == (1, "")
    (line,) = ended.stderr.splitlines()  # A start that fails is logged as JSON.
    assert (
        json.loads(line)["error"] if line.startswith("{") else line.removeprefix("tickwork: ")
    ) == sentence


OPEN = "from tickwork import Tickwork; asyncio.run(Tickwork(database={url!r}).open())"
OPEN_HARNESS = """
from tickwork import Tickwork
from tickwork.testing import harness
asyncio.run(harness(Tickwork(), database={url!r}).__aenter__())
"""


@pytest.mark.parametrize("script", [OPEN, OPEN_HARNESS], ids=["app", "harness"])
def test_an_app_on_postgresql_names_the_extra_of_its_driver(folder: Path, script: str) -> None:
    ended = python(folder, f"{WITHOUT}import asyncio\n{script.format(url=POSTGRES)}")
    assert ended.stderr.splitlines()[-1] == f"tickwork.errors.MissingExtra: {NEEDS_DRIVER}"


def test_an_import_that_fails_inside_the_api_is_not_taken_for_a_missing_extra() -> None:
    from tickwork.wiring import server_extra

    with pytest.raises(ModuleNotFoundError, match="another"), server_extra("tickwork up"):
        raise ModuleNotFoundError("No module named 'another'", name="another")
