"""A TCP proxy with faults that a test switches on and off while connections are open.

Contract: without faults every byte, and each side's end, passes unchanged. `cut()` resets all
connections now, on both sides. `refuse` resets new ones. `blackhole` is a partition: connections
are accepted and nothing passes, not even the news that the other side is gone; when it ends, what
was held back goes on. `delay_…_seconds` holds each piece of data that long, per direction.
An error in the proxy itself fails the test: it is raised when the proxy is left.
"""

import asyncio
import contextlib
import socket
import struct
from typing import Protocol, Self

from tests.kit.waiting import delay

PIECE_BYTES_MAX = 1 << 18
RESET = struct.pack("ii", 1, 0)  # SO_LINGER on, 0 s: close with a reset


class HangUp(ConnectionError):
    """Raised by a filter to cut its connection on both sides."""


class Filter(Protocol):
    """Sees the data of one connection and returns what is to be forwarded."""

    async def to_server(self, data: bytes) -> bytes: ...

    async def to_client(self, data: bytes) -> bytes: ...


class PassAll:
    async def to_server(self, data: bytes) -> bytes:
        return data

    async def to_client(self, data: bytes) -> bytes:
        return data


class TcpProxy:
    def __init__(self, target_host: str, target_port: int) -> None:
        self.refuse = False
        self.delay_to_server_seconds = 0.0
        self.delay_to_client_seconds = 0.0
        self.accepted = 0
        self._target = (target_host, target_port)
        self._passable = asyncio.Event()
        self._passable.set()
        self._links: dict[asyncio.Task[None], _Link] = {}
        self._failures: list[BaseException] = []
        self._server: asyncio.Server | None = None

    @property
    def host(self) -> str:
        return self._address()[0]

    @property
    def port(self) -> int:
        return self._address()[1]

    @property
    def open_connections(self) -> int:
        return len(self._links)

    @property
    def blackhole(self) -> bool:
        return not self._passable.is_set()

    @blackhole.setter
    def blackhole(self, on: bool) -> None:
        if on:
            self._passable.clear()
        else:
            self._passable.set()

    def redirect(self, target_host: str, target_port: int) -> None:
        """Sends new connections to another server, as when an address moves with a failover."""
        self._target = (target_host, target_port)

    def cut(self) -> None:
        for task, link in self._links.items():
            link.reset()
            task.cancel()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._links, return_exceptions=True)
        await self._server.wait_closed()
        if self._failures:
            raise self._failures[0]

    def _filter(self, to_client: asyncio.StreamWriter) -> Filter:  # noqa: ARG002
        """The filter for a new connection."""
        return PassAll()

    def _address(self) -> tuple[str, int]:
        assert self._server is not None, "the proxy is not open: use `async with`"
        host, port = self._server.sockets[0].getsockname()
        return host, port

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        link = _Link(reader, writer)
        if self.refuse:
            link.reset()
            return
        task = asyncio.create_task(self._serve(link, self._filter(writer)))
        self._links[task] = link
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._links[task]
        if not task.cancelled() and (failure := task.exception()):
            self._failures.append(failure)

    async def _serve(self, link: "_Link", through: Filter) -> None:
        try:
            await self._passable.wait()
            server = await link.connect(*self._target)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._upward(link, server, through))
                both.create_task(self._downward(link, server, through))
        except* ConnectionError:
            link.reset()
        finally:
            await link.close()

    async def _upward(self, link: "_Link", server: "_Side", through: Filter) -> None:
        while data := await link.client.reader.read(PIECE_BYTES_MAX):
            await delay(self.delay_to_server_seconds)
            await self._passable.wait()
            await server.send(await through.to_server(data))
        await self._passable.wait()
        server.end()

    async def _downward(self, link: "_Link", server: "_Side", through: Filter) -> None:
        while data := await server.reader.read(PIECE_BYTES_MAX):
            await delay(self.delay_to_client_seconds)
            await self._passable.wait()
            await link.client.send(await through.to_client(data))
        await self._passable.wait()
        link.client.end()


class _Side:
    """One of the two TCP connections of a link."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def end(self) -> None:
        with contextlib.suppress(OSError):  # it may be closed already
            self.writer.write_eof()

    def reset(self) -> None:
        connection = self.writer.get_extra_info("socket")
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(OSError):
            await self.writer.wait_closed()


class _Link:
    """One client's connection and its connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.client = _Side(reader, writer)
        self._sides = [self.client]

    async def connect(self, host: str, port: int) -> _Side:
        server = _Side(*await asyncio.open_connection(host, port))
        self._sides.append(server)
        return server

    def reset(self) -> None:
        for side in self._sides:
            side.reset()

    async def close(self) -> None:
        for side in self._sides:
            await side.close()
