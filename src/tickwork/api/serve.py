"""Serves the API next to other work in the same event loop."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
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

LINGER_SECONDS = 1.0
"""Seconds an idle connection may make one more request before a shutdown, if others serve too."""

_POLL_SECONDS = 0.02


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
    """A server that installs no signal handlers: the process has its own. If its socket `is_shared`
    with other processes, it loses no request when it stops: see `shutdown`."""

    def __init__(self, config: uvicorn.Config, *, is_shared: bool) -> None:
        super().__init__(config)
        self._is_shared = is_shared

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts no more connections. Those that it has may make one more request for a while, and
        its answer ends them: the next request reaches another process."""
        if self._is_shared:
            for server in self.servers:
                server.close()
            self.server_state.default_headers.append((b"connection", b"close"))
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_SECONDS):
                    while self.server_state.connections:  # noqa: ASYNC110 (of uvicorn)
                        await asyncio.sleep(_POLL_SECONDS)
        await super().shutdown(sockets)


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
        server = _Server(config, is_shared=listener is not None)
        task = asyncio.create_task(server.serve(sockets=[opened]))
        try:
            yield shown_url(*opened.getsockname()[:2])
        finally:
            on_stop()
            server.should_exit = True
            await task
