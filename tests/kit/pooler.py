"""A transaction-mode pooler before PostgreSQL: many clients over few server connections.

Contract: a server connection is a client's from the first message of a transaction until the server
says that it is idle again and owes no answer; then whoever has waited longest gets it. So nothing
of a session (prepared statements, LISTEN, SET) can be relied on, as behind PgBouncer. A client that
leaves within a transaction takes its server connection with it, which rolls back. Clients are
answered with the parameters of the server; a startup parameter that a pooler cannot keep for them
is refused. Trust authentication only; encryption is declined. An error of the pooler itself fails
the test: it is raised when the pooler is left.

`transactions` counts the times a connection was handed out, `waited` how often that had to wait.
"""

import asyncio
import contextlib
import itertools
import struct
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from tests.kit import wire

DEFAULT_PORT = 5432
PIECE_BYTES_MAX = 1 << 18
KEPT_PARAMETERS = frozenset({"user", "database", "client_encoding", "application_name"})
"""Startup parameters that a client may set; any others would leak from client to client."""

AUTHENTICATION_OK = b"R", struct.pack("!i", 0)
READY_IDLE = b"Z", b"I"
ENDS_A_REQUEST = (b"Q", b"S", b"F")
BEGINS_A_REQUEST = (b"P", b"B", b"D", b"E", b"C", b"H")


class ServerLost(ConnectionError):
    """The server closed a connection; the client that used it loses its own."""


class TransactionPooler:
    """Open with `async with`; clients use its `url`."""

    def __init__(self, target_url: str, *, server_connections: int = 2) -> None:
        self._target_url = target_url
        self._size = server_connections
        self._idle: asyncio.Queue[_Server] = asyncio.Queue()
        self._clients: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        self._by_key: dict[bytes, _Client] = {}
        self._keys = itertools.count(1)
        self._greeting = b""
        self._listener: asyncio.Server | None = None
        self._failures: list[BaseException] = []
        self.transactions = 0
        self.waited = 0

    @property
    def url(self) -> str:
        """The target's URL, through this pooler."""
        assert self._listener is not None, "the pooler is not open: use `async with`"
        host, port = self._listener.sockets[0].getsockname()
        parts = urlsplit(self._target_url)
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}{host}:{port}").geturl()

    async def __aenter__(self) -> Self:
        for _ in range(self._size):
            self._idle.put_nowait(await self._connect())
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._clients:
            task.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)
        await self._listener.wait_closed()
        while not self._idle.empty():
            await self._idle.get_nowait().close()
        if self._failures:
            raise self._failures[0]

    async def take(self) -> "_Server":
        """The next idle server connection, in order of request."""
        self.waited += self._idle.empty()
        server = await self._idle.get()
        self.transactions += 1
        return server

    async def give_back(self, server: "_Server") -> None:
        """Returns a connection, or replaces it if it cannot be reused."""
        if not server.is_clean:
            await server.close()
            server = await self._connect()
        self._idle.put_nowait(server)

    def register(self, client: "_Client") -> bytes:
        """Greets a client: the server's parameters, a key of its own, and ready."""
        key = struct.pack("!ii", 1, next(self._keys))
        self._by_key[key] = client
        return self._greeting + message(b"K", key) + message(*READY_IDLE)

    def forget(self, client: "_Client") -> None:
        self._by_key = {key: value for key, value in self._by_key.items() if value is not client}

    async def cancel(self, key: bytes) -> None:
        """Forwards a client's cancel request to the server connection it has at the moment."""
        client = self._by_key.get(key)
        if client is not None and client.server is not None:
            _, writer = await asyncio.open_connection(*self._address())
            code = struct.pack("!i", wire.CANCEL_REQUEST)
            writer.write(message(b"", code + client.server.key))
            await _closed(writer)

    def _address(self) -> tuple[str, int]:
        target = urlsplit(self._target_url)
        return target.hostname or "localhost", target.port or DEFAULT_PORT

    async def _connect(self) -> "_Server":
        reader, writer = await asyncio.open_connection(*self._address())
        server = _Server(reader, writer)
        target = urlsplit(self._target_url)
        self._greeting = await server.start(target.username or "postgres", target.path[1:])
        return server

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._clients[task] = writer
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._clients[task]
        if not task.cancelled() and (failure := task.exception()):
            self._failures.append(failure)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = _Client(self, reader, writer)
        try:
            with contextlib.suppress(ConnectionError):
                await client.run()
        finally:
            self.forget(client)
            await client.leave()
            await _closed(writer)


@dataclass
class _Turn:
    """What a server connection still owes to its client."""

    unanswered: int = 0
    is_asking: bool = False
    """Messages were forwarded that no Sync has ended yet."""
    is_idle: bool = True
    """The last response left no transaction open."""

    @property
    def is_over(self) -> bool:
        return self.is_idle and not self.unanswered and not self.is_asking

    def asked(self, kind: bytes) -> None:
        if kind in ENDS_A_REQUEST:
            self.is_asking = False
            self.unanswered += 1
        elif kind in BEGINS_A_REQUEST:
            self.is_asking = True

    def answered(self, status: bytes) -> None:
        self.unanswered -= 1
        self.is_idle = status == b"I"


class _Server:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._messages = wire.MessageReader(is_client=False)
        self.turn = _Turn()
        self.key = b""
        self._is_lost = False

    @property
    def is_clean(self) -> bool:
        """Whether another client can use it."""
        return self.turn.is_over and not self._is_lost

    async def start(self, user: str, database: str) -> bytes:
        """Logs in; returns the parameters for every client."""
        words = ("user", user, "database", database, "client_encoding", "UTF8", "")
        body = struct.pack("!i", wire.PROTOCOL_3) + "\0".join(words).encode() + b"\0"
        self.writer.write(message(b"", body))
        greeting = [message(*AUTHENTICATION_OK)]
        while True:
            for answer in await self.read():
                match answer.kind:
                    case b"S":
                        greeting.append(answer.raw)
                    case b"K":
                        self.key = answer.body
                    case b"Z":
                        return b"".join(greeting)
                    case b"E":
                        raise RuntimeError(f"the server refuses the pooler: {answer.body!r}")

    async def read(self) -> list[wire.Message]:
        data = await self._reader.read(PIECE_BYTES_MAX)
        if not data:
            self._is_lost = True
            raise ServerLost
        return self._messages.feed(data)

    async def close(self) -> None:
        await _closed(self.writer)


class _Client:
    """One client's connection, and its server connection during a transaction."""

    def __init__(
        self,
        pooler: TransactionPooler,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        self._pooler, self._reader, self._writer = pooler, reader, writer
        self._messages = wire.MessageReader(is_client=True)
        self._answers: asyncio.Task[None] | None = None
        self.server: _Server | None = None

    async def run(self) -> None:
        """Runs until the client leaves or its server connection is lost."""
        while data := await self._reader.read(PIECE_BYTES_MAX):
            for request in self._messages.feed(data):
                if request.kind == wire.STARTUP:
                    await self._start(request)
                elif request.kind == b"X":
                    return
                else:
                    await self._ask(request)
            await self._writer.drain()

    async def leave(self) -> None:
        """Returns the server connection, in whatever state it is."""
        if self._answers is not None:
            self._answers.cancel()
            await asyncio.wait([self._answers])
        if self.server is not None:
            server, self.server = self.server, None
            await self._pooler.give_back(server)

    async def _start(self, startup: wire.Message) -> None:
        if startup.startup_code == wire.CANCEL_REQUEST:
            await self._pooler.cancel(startup.body[4:])
            raise ConnectionError
        if startup.startup_code != wire.PROTOCOL_3:
            self._writer.write(b"N")
            return
        names = startup.body[4:].split(b"\0")[0:-1:2]
        unknown = {name.decode() for name in names if name} - KEPT_PARAMETERS
        if unknown:
            words = ("SFATAL", "C08P01", f"Munsupported startup parameter: {unknown.pop()}", "")
            self._writer.write(message(b"E", "\0".join(words).encode() + b"\0"))
            raise ConnectionError
        self._writer.write(self._pooler.register(self))

    async def _ask(self, request: wire.Message) -> None:
        if self.server is None:
            self.server = await self._pooler.take()
            self._answers = asyncio.create_task(self._pass_answers(self.server))
        self.server.turn.asked(request.kind)
        self.server.writer.write(request.raw)
        await self.server.writer.drain()

    async def _pass_answers(self, server: _Server) -> None:
        """Runs until the transaction is over; then others may have the connection."""
        try:
            while not await self._pass_some(server):
                pass
        except ConnectionError:
            self._writer.transport.abort()
            return
        self.server = self._answers = None
        await self._pooler.give_back(server)

    async def _pass_some(self, server: _Server) -> bool:
        """Forwards what the server sent; True at the end of the client's turn."""
        is_over = False
        for answer in await server.read():
            self._writer.write(answer.raw)
            if answer.kind == b"Z":
                server.turn.answered(answer.body)
                is_over = server.turn.is_over
        return is_over


def message(kind: bytes, body: bytes) -> bytes:
    """A message in the wire format."""
    return kind + struct.pack("!i", len(body) + 4) + body


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()
