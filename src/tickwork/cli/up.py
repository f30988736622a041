"""`tickwork up`: runs the HTTP server in this process until it is stopped."""

from __future__ import annotations

import signal
import socket
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import Struct, structs

from tickwork.cli.command import Group
from tickwork.cli.options import Option
from tickwork.cli.output import EXIT_BAD_USAGE, fail
from tickwork.cli.run import fail_start
from tickwork.cli.store_session import load_settings, warn_of_variables
from tickwork.errors import InvalidInput, MissingExtra, TickworkError

if TYPE_CHECKING:
    from tickwork.core.api_key import CreatedKey
    from tickwork.wiring import Settings

DRAIN_SECONDS_MAX = 10
"""Seconds open requests may take to finish on shutdown."""

USUAL_LOG_LEVEL = "warning"
"""Log level of the server unless it is set: a terminal shows the URL and the first key."""

top = Group("Runs a server.")

Host = Annotated[str | None, Option("Address to listen on; default 127.0.0.1.", "ADDRESS")]
Port = Annotated[str | None, Option("Port to listen on; 0 for any free port; default 8080.", "N")]
Roles = Annotated[str | None, Option("Roles of the server; default api,scheduler,worker.", "ROLES")]
LogFormat = Annotated[
    str | None, Option("Log format: json or console; default console on a terminal.", "FORMAT")
]
WaitSeconds = Annotated[
    str | None,
    Option("Seconds to wait for a database that is away; default: until it is back.", "N"),
]
LogLevel = Annotated[
    str | None, Option("Log level: debug, info, warning, error; default warning.", "LEVEL")
]


class ServerOptions(Struct, frozen=True):
    """Settings of a server that have an option, as texts: see `cli/run.py`."""

    host: Host = None
    port: Port = None
    roles: Roles = None
    log_format: LogFormat = None
    log_level: LogLevel = None
    wait_seconds: WaitSeconds = None


@top.plain_command("up", on_database=True, tenant=False, json=False)
def start_server(options: ServerOptions) -> None:
    """Start the server.

    Each option can also be set by an environment variable, such as TICKWORK_PORT, and in [server]
    of tickwork.toml. Options take precedence over the environment, and the environment over the
    file.
    """
    warn_of_variables()
    settings = load_settings(USUAL_LOG_LEVEL, **structs.asdict(options))
    _up(settings)


def _up(settings: Settings) -> None:
    from tickwork.wiring import Role

    if Role.API not in settings.roles:
        fail("--roles: must include api; to run without it use `tickwork run`", code=EXIT_BAD_USAGE)
    if Role.HTTP in settings.roles:
        fault = "--roles: http needs an app; use `tickwork run MODULE:APP --roles http`"
        fail(fault, code=EXIT_BAD_USAGE)
    _require_server()
    with _listen(settings) as listener:
        # After the port is ours: the first key is printed once, so nothing may fail in between.
        first_key = _prepare_database(settings, listener)
        _serve(settings, listener, first_key)


def _require_server() -> None:
    """Fails before anything is opened if the HTTP server is not installed."""
    from tickwork.wiring import server_extra

    try:
        with server_extra("tickwork up"):
            import tickwork.api.serve  # noqa: F401
    except MissingExtra as error:
        fail(str(error))


def _prepare_database(settings: Settings, listener: socket.socket) -> CreatedKey | None:
    """Opens the database once, so that errors are reported before the server starts. Waits for one
    that is away. Returns the first API key if there was none."""
    import asyncio

    from tickwork.ops.keys import create_first_key
    from tickwork.service.observe.log_set_up import LogSetUp
    from tickwork.wiring import open_store
    from tickwork.wiring.server import wait_for_database

    LogSetUp(settings.log_format, settings.log_level).apply()

    async def prepare() -> CreatedKey | None:
        await wait_for_database(settings, listener.dup)
        store = await open_store(settings)
        try:
            return await create_first_key(store, settings.admin_key)
        finally:
            await store.close()

    try:
        return asyncio.run(prepare())
    except TickworkError as error:
        fail_start(error, settings)


def _listen(settings: Settings) -> socket.socket:
    """Returns a listening socket; exits if the address is not available."""
    from tickwork.service.process_lifecycle import listen

    try:
        return listen(settings.host, settings.port)
    except InvalidInput as error:
        (fault,) = error.errors
        fail(f"{fault.message} with --{fault.field}")


def _serve(settings: Settings, listener: socket.socket, first_key: CreatedKey | None) -> None:
    from tickwork.api.serve import ServerWithStreams, server_config
    from tickwork.api.server_state import stop_streams
    from tickwork.ops.keys import first_key_text
    from tickwork.service.observe.log_set_up import LogSetUp
    from tickwork.service.process_lifecycle import shown_url
    from tickwork.wiring.server import build_api, connection_limits, open_to_others

    LogSetUp(settings.log_format, settings.log_level).apply()
    api = build_api(settings)
    config = server_config(api, connection_limits(settings), DRAIN_SECONDS_MAX)
    server = ServerWithStreams(config, lambda: stop_streams(api))

    def stop(*_: object) -> None:
        stop_streams(api)
        server.should_exit = True

    # uvicorn installs its own handlers while it runs and raises the signal again after shutdown.
    # These handlers make a stop signal exit with 0 before, during and after that.
    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    base = shown_url(*listener.getsockname()[:2])
    click.echo(f"Tickwork listens on {base}\n  {base}/docs  API documentation")
    if (warning := open_to_others(settings.host, listener.getsockname()[1])) is not None:
        click.echo(warning, err=True)
    if first_key is not None:
        click.echo(first_key_text(first_key, base, is_chosen=settings.admin_key is not None))
    click.echo("Press Ctrl-C to stop.")
    server.run(sockets=[listener])
