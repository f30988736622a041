"""PostgreSQL's wire protocol, as far as a proxy must understand it. No I/O.

Contract: a `MessageReader` is fed pieces of a stream as they come and returns whole messages;
the bytes of all messages together are the bytes fed. A message has a type byte, an int32 length
and a body; only the first messages of a client, until its startup message, lack the type byte.
"""

import struct
from typing import NamedTuple

STARTUP = b""
PROTOCOL_3 = 196608
CANCEL_REQUEST = 80877102
SSL_REQUEST = 80877103
GSS_REQUEST = 80877104
STARTUP_BYTES_MAX = 10_000
MESSAGE_BYTES_MAX = 1 << 30


class Message(NamedTuple):
    kind: bytes
    body: bytes
    raw: bytes

    def texts(self, count: int) -> list[bytes]:
        """The first zero-terminated strings of the body."""
        return self.body.split(b"\0", count)[:count]

    @property
    def startup_code(self) -> int:
        return int.from_bytes(self.body[:4], "big")


class MessageReader:
    def __init__(self, *, is_client: bool) -> None:
        self._untyped = is_client
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Message]:
        self._pending += data
        messages = []
        while (message := self._next()) is not None:
            messages.append(message)
        return messages

    def _next(self) -> Message | None:
        type_bytes = 0 if self._untyped else 1
        if len(self._pending) < type_bytes + 4:
            return None
        (length,) = struct.unpack_from("!i", self._pending, type_bytes)
        if not 4 <= length <= (STARTUP_BYTES_MAX if self._untyped else MESSAGE_BYTES_MAX):
            raise ValueError(
                f"not PostgreSQL's protocol, or encrypted: {bytes(self._pending[:8])!r}"
            )
        end = type_bytes + length
        if len(self._pending) < end:
            return None
        raw = bytes(self._pending[:end])
        del self._pending[:end]
        message = Message(raw[:type_bytes], raw[type_bytes + 4 :], raw)
        if self._untyped and message.startup_code not in (SSL_REQUEST, GSS_REQUEST):
            self._untyped = False
        return message
