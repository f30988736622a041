"""The API beside other work, in the same event loop."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from litestar import Litestar

from tickwork.errors import FieldError, InvalidInput

BACKLOG = 2048
STOP_SECONDS_MAX = 10


class _Server(uvicorn.Server):
    """One that leaves signals to whoever runs the process."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def serving(application: Litestar, *, host: str, port: int) -> AsyncIterator[str]:
    """Serves meanwhile; gives the address. `InvalidInput` for a port that cannot be used."""
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=STOP_SECONDS_MAX,
    )
    with _listen(host, port) as listener:
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield "http://{}:{}".format(*listener.getsockname()[:2])
        finally:
            server.should_exit = True
            await task


def _listen(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, *_, address = found[0]
        return socket.create_server(address, family=family, backlog=BACKLOG)
    except (socket.gaierror, UnicodeError):
        raise InvalidInput([FieldError("host", f"{host!r} is not known")]) from None
    except OSError as error:
        reason = os.strerror(error.errno).lower() if error.errno else str(error)
        fault = f"{port} of {host} cannot be used ({reason}); choose another"
        raise InvalidInput([FieldError("port", fault)]) from None
