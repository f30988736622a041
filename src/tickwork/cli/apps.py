"""`tickwork run`: an app's handlers in this process, until it is told to stop."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tickwork.cli.failing import EXIT_BAD_USAGE, fail, refuse, say
from tickwork.errors import InvalidInput, StoreError

if TYPE_CHECKING:
    from tickwork.facade import Tickwork

Target = Annotated[
    str | None, typer.Argument(metavar="MODULE:APP", help="Where the app is, such as shop:app.")
]


def run_command(target: Target = None) -> None:
    """Run an app: handle the messages of its queues until SIGTERM or Ctrl-C, then drain.

    The module is looked for in the current directory first.
    """
    app = _load(target or "")
    try:
        app.registry.check()
        queues = sorted({handler.queue for handler in app.registry.handlers})
        if not queues:
            fail(f"{target} has no handlers; declare one with @app.on(…) or @app.consumer(…)")
        app.run(on_started=lambda: say(f"handling {', '.join(queues)}; Ctrl-C stops"))
    except InvalidInput as error:
        refuse(error, {})
    except StoreError as error:
        fail(str(error))


def _load(target: str) -> Tickwork:
    from tickwork.facade import Tickwork

    module_name, found, name = target.partition(":")
    if not (module_name and found and name):
        fail("MODULE:APP: give a module and the app in it, such as shop:app", code=EXIT_BAD_USAGE)
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise
        fail(f"MODULE:APP: there is no module {module_name}", code=EXIT_BAD_USAGE)
    app = getattr(module, name, None)
    if not isinstance(app, Tickwork):
        fail(f"MODULE:APP: {module_name} has no Tickwork app {name!r}", code=EXIT_BAD_USAGE)
    return app
