"""`tickwork run`: runs an app in this process until it is stopped."""

from __future__ import annotations

import os
import sys
import traceback
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import click

from tickwork.cli.command import Group
from tickwork.cli.options import Argument, Option, OptionsOf
from tickwork.cli.output import EXIT_BAD_USAGE, errors_written_by, fail, refuse
from tickwork.cli.start_errors import errors_of_start, write_error
from tickwork.cli.store_session import warn_of_variables
from tickwork.core.options.run import RunOptions
from tickwork.errors import InvalidInput, TickworkError

if TYPE_CHECKING:
    from tickwork.facade.app import Tickwork
    from tickwork.service.processes.child import ParentLink
    from tickwork.wiring import Settings

PROGRAM = "tickwork"

DEBUG_VARIABLE = "TICKWORK_DEBUG"

CHILD_MODULE = "tickwork.cli.child"
"""What a process of several runs: see there."""

_OPTIONS = {
    "metrics_port": "--metrics-port",
    "port": "--port",
    "http_port": "--http-port",
    "processes": "--processes",
}
"""Options by the names of settings in errors of a running app."""

top = Group("Runs an app.")

Target = Annotated[
    str,
    Argument(
        "Import path of the app, such as shop:app.",
        "MODULE:APP",
        missing="give a module and the app in it, such as shop:app",
    ),
]
Flags = Annotated[RunOptions, OptionsOf(are_texts=True)]
"""They are texts: the settings parse them, so that errors read the same wherever a setting was
made."""

Processes = Annotated[
    str | None,
    Option("Number of processes, or auto: one for each core; default 1. For PostgreSQL.", "N"),
]
Debug = Annotated[bool, Option("Show the traceback of a module that cannot be imported.")]


@top.plain_command("run", json=False)
def run_app(
    options: Flags, target: Target, processes: Processes = None, debug: Debug = False
) -> None:
    """Run an app: handle the messages of its queues until SIGTERM or Ctrl-C, then drain.

    With --processes a parent starts several, watches them, and replaces them one by one on SIGHUP.

    The module is imported from the current directory first. Each option can also be set by an
    environment variable, such as TICKWORK_LOG_FORMAT, and in [server] of tickwork.toml.
    """
    flags: dict[str, Any] = {**options, "processes": processes}
    warn_of_variables()
    settings = _settings(flags)
    if settings.processes == 1:
        _run(target, settings, flags, debug=debug)
    else:
        _run_processes(target, settings, flags, debug=debug)


def run_child(parent: ParentLink) -> None:
    """Runs an app in this process, which is one of several."""
    set_up = parent.set_up
    sys.argv = [*set_up.arguments]
    with errors_of_start(sys.argv[1:]):
        settings, debug = _settings(set_up.flags), set_up.is_debugged
        _run(set_up.target, settings, set_up.flags, debug=debug, parent=parent)


def _run_processes(target: str, settings: Settings, flags: dict[str, Any], *, debug: bool) -> None:
    """Runs the parent, which does not import the app: its children may be of a newer code."""
    from tickwork.service.processes.parent import App
    from tickwork.wiring.processes import run_processes

    app = App(
        module=CHILD_MODULE,
        target=target,
        flags=flags,
        is_debugged=debug,
        arguments=sys.argv,
    )
    try:
        sys.exit(run_processes(app, settings))
    except InvalidInput as error:
        refuse(error, _OPTIONS)


def _run(
    target: str,
    settings: Settings,
    flags: dict[str, Any],
    *,
    debug: bool,
    parent: ParentLink | None = None,
) -> None:
    from tickwork.engine.process import run
    from tickwork.facade.app import engine_of

    app = load_app(target, debug=debug)
    try:
        registry = engine_of(app).registry
        registry.check()
        # Without queues of its own an app may have schedules that call URLs, or queues to push.
        is_idle = not registry.handlers and not registry.workflows
        if registry.needs_handlers and is_idle and "worker" in settings.roles:
            fail(f"{target} has no handlers; declare one with @app.on(…) or @app.consumer(…)")
        on_started = partial(_print_commands, app, target, settings)
        run(engine_of(app), on_started, flags, parent)
    except InvalidInput as error:
        refuse(error, _OPTIONS)
    except TickworkError as error:
        fail_start(error, settings)


def fail_start(error: TickworkError, settings: Settings) -> NoReturn:
    """Ends a start with its error: a sentence on a terminal, otherwise a line of the log."""
    from tickwork.service.process_lifecycle import is_console

    if is_console(settings.log_format):
        fail(str(error))
    with errors_written_by(partial(write_error, code=error.code)):
        fail(str(error))


def _print_commands(app: Tickwork, target: str, settings: Settings) -> None:
    """Prints what to type in another terminal to use the database of this app."""
    from tickwork.facade.app import engine_of
    from tickwork.service.process_lifecycle import print_on_terminal

    command = sys.argv[0]
    if Path(command).name != PROGRAM:
        command = f"python -m {PROGRAM}"
    elif which(PROGRAM) == command:
        command = PROGRAM
    is_default = engine_of(app).settings().database == settings.database
    option = "" if is_default else f" --app {target}"
    words = ("queues list", "schedules list", "nodes")
    print_on_terminal(
        "in another terminal: " + "; ".join(f"{command} {word}{option}" for word in words),
        settings.log_format,
    )


def load_app(target: str, *, debug: bool | None = None) -> Tickwork:
    """Imports an app; a module in the current directory takes precedence. `debug` is None for a
    command without --debug."""
    from tickwork.facade.app import Tickwork

    module_name, found, name = target.partition(":")
    if not (module_name and found and name):
        fail("MODULE:APP: give a module and the app in it, such as shop:app", code=EXIT_BAD_USAGE)
    if sys.path[0] != str(Path.cwd()):
        sys.path.insert(0, str(Path.cwd()))
    hint = f"{DEBUG_VARIABLE}=1" if debug is None else "--debug"
    module = _import(module_name, debug or bool(os.environ.get(DEBUG_VARIABLE)), hint)
    app = getattr(module, name, None)
    if app is None:
        fail(f"MODULE:APP: {module_name} has no {name!r}", code=EXIT_BAD_USAGE)
    if not isinstance(app, Tickwork):
        kind = type(app).__name__
        fault = f"{name!r} in {module_name} is not a Tickwork app but a {kind}"
        fail(f"MODULE:APP: {fault}", code=EXIT_BAD_USAGE)
    return app


def _settings(flags: dict[str, Any]) -> Settings:
    """Reads the settings before the app is imported, so that a bad option fails at once."""
    from tickwork.wiring import RUN_ROLES, load_settings

    try:
        return load_settings(flags, environ=os.environ, folder=Path.cwd(), roles=RUN_ROLES)
    except InvalidInput as error:
        refuse(error, {})


def _import(name: str, debug: bool, debug_option: str) -> ModuleType:
    """Imports a module; whatever it raises becomes one line with its location."""
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and _is_missing(error, name):
            fail(f"MODULE:APP: there is no module {name}", code=EXIT_BAD_USAGE)
        if debug:
            click.echo("".join(traceback.format_exception(error)), nl=False, err=True)
        what = f"{type(error).__name__}: {error}".removesuffix(": ")
        hint = "" if debug else f"; {debug_option} shows the traceback"
        fault = f"importing {name} failed: {what}{error_location(error)}{hint}"
        fail(f"MODULE:APP: {fault}", code=EXIT_BAD_USAGE)


def _is_missing(error: ModuleNotFoundError, name: str) -> bool:
    """Whether the missing module is the app's module or one of its parent packages."""
    return error.name is not None and f"{name}.".startswith(f"{error.name}.")


def error_location(error: BaseException) -> str:
    """Returns where an error was raised, preferably in a file of the user."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({_shown(error.filename)}:{error.lineno})"
    found = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in found if not frame.filename.startswith("<frozen importlib")]
    own = [frame for frame in frames if _is_own(Path(frame.filename))] or frames
    return f" ({_shown(own[-1].filename)}:{own[-1].lineno})" if own else ""


def _is_own(path: Path) -> bool:
    return path.is_relative_to(Path.cwd()) and "site-packages" not in path.parts


def _shown(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
