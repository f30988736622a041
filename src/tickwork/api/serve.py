"""Serves the API next to other work in the same event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from tickwork.api.connections import ConnectionLimits, guarded_protocol
from tickwork.app.services import AsgiApp
from tickwork.service.process_lifecycle import listen, shown_url

if TYPE_CHECKING:
    from litestar import Litestar

STOP_SECONDS_MAX = 10
"""Seconds open requests may take to finish on shutdown."""


def quiet_server_log() -> None:
    """Hides the server's lines about its start and stop: `uvicorn.error` is the name of its whole
    log, and they look like errors."""
    log = logging.getLogger("uvicorn.error")
    if log.level == logging.NOTSET:
        log.setLevel(logging.WARNING)


def server_config(
    application: AsgiApp | Litestar, limits: ConnectionLimits, stop_seconds: int = STOP_SECONDS_MAX
) -> uvicorn.Config:
    """How a server of ours runs: open requests may take so many seconds to finish on shutdown."""
    return uvicorn.Config(
        application,
        http=guarded_protocol(limits),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=limits.keep_alive_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=stop_seconds,
    )


class ServerWithStreams(uvicorn.Server):
    """A server that ends its streams when a signal stops it, instead of waiting for them."""

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._on_stop()
        super().handle_exit(sig, frame)


class _Server(uvicorn.Server):
    """A server that installs no signal handlers: the process has its own."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(
    application: AsgiApp,
    *,
    host: str,
    port: int,
    limits: ConnectionLimits = ConnectionLimits(),  # noqa: B008 (frozen)
    on_stop: Callable[[], None] = lambda: None,
    listener: socket.socket | None = None,
) -> AsyncIterator[str]:
    """Serves while the context is open and yields the URL. `on_stop` is called before open requests
    are waited for. With a `listener`, it serves there; other processes may do so too.

    Raises `InvalidInput` if the port cannot be used.
    """
    quiet_server_log()
    config = server_config(application, limits)
    with listener or listen(host, port) as opened:
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[opened]))
        try:
            yield shown_url(*opened.getsockname()[:2])
        finally:
            on_stop()
            server.should_exit = True
            await task
