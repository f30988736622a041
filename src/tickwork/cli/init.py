"""`tickwork init`: writes a small app, its settings, a test and a README into a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tickwork.cli.command import Group
from tickwork.cli.options import Argument
from tickwork.cli.output import Report, fail

Folder = Annotated[str, Argument("Folder to write to; default this one.", "FOLDER")]

top = Group("A small app to start from.")

_APP = '''\
"""A schedule that sends a greeting, and a handler that prints it."""

from tickwork import Firing, Fixed, Message, Tickwork

app = Tickwork()  # uses the database in tickwork.toml
greetings = app.queue("greetings", max_retries=2, backoff=Fixed(1))


@app.schedule(interval_seconds=5, name="hello")
async def hello(firing: Firing) -> None:
    name = f"it is {firing.slot:%H:%M:%S}"
    await greetings.send({"name": name})  # commits with this firing


@app.on("greetings")
async def greet(message: Message) -> None:
    print("hello,", message.body["name"], flush=True)
'''

_SETTINGS = """\
# Settings of this project. `tickwork config show` lists all of them and where each comes from.

[server]
database = "sqlite:///tickwork.db"   # or postgresql://user@host/name, then run: tickwork migrate
min_interval_seconds = 1             # the default is 60; the example fires every 5 seconds
"""

_TEST = '''\
"""Tests of app.py, with real handlers and a virtual clock. Run them with: pytest"""

from app import app, greetings


async def test_the_schedule_sends_a_greeting_every_five_seconds(tickwork):
    async with tickwork(app, raise_errors=True) as h:
        await h.advance(seconds=15)
        assert len(await h.sent("greetings")) == 3


async def test_a_greeting_without_a_name_becomes_a_dead_letter(tickwork):
    async with tickwork(app) as h:
        await greetings.send({})
        await h.advance(seconds=3)
        (dead,) = await h.dead("greetings")
        assert (dead.reason, dead.attempts) == ("max_retries", 3)
'''

_README = """\
# A Tickwork app

| command | does |
|---|---|
| `tickwork run app:app` | runs the schedule and the handler until Ctrl-C |
| `tickwork queues send greetings '{"name": "Ada"}'` | sends a message, from another terminal |
| `tickwork why hello` | says why the schedule fired, or why not |
| `pytest` | runs the tests, on a virtual clock |

The app is `app.py`, its settings are in `tickwork.toml`, its data in `tickwork.db`.
"""

_FILES = {
    "app.py": _APP,
    "tickwork.toml": _SETTINGS,
    "test_app.py": _TEST,
    "README.md": _README,
}


@top.plain_command("init")
def write_app(folder: Folder | None = None) -> Report:
    """Write a small app to start from: app.py, tickwork.toml, test_app.py and README.md.

    Existing files are never replaced: if the folder has one of these, nothing is written.
    """
    target = Path(folder or ".")
    existing = [name for name in _FILES if (target / name).exists()]
    if existing:
        where = "this folder" if folder is None else folder
        advice = "write to a new folder with `tickwork init FOLDER`"
        fail(f"{where} has {', '.join(existing)} already; {advice}")
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            with (target / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        fail(f"{error.filename} cannot be written: {error.strerror}")
    enter = "" if folder is None else f"cd {folder}; "
    return Report(
        {"folder": str(target.resolve()), "files": [*_FILES]},
        f"wrote {', '.join(_FILES)}",
        f"run it:  {enter}tickwork run app:app",
        f"test it: {enter}pytest",
    )
