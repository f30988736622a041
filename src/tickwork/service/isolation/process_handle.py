"""A handler's process, from without: started, asked, killed, and always buried.

It has a process group of its own. Signals of a terminal do not reach it, and whatever a handler
started there is killed along with it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from tickwork.clock import monotonic
from tickwork.service.isolation.protocol import (
    HEAD,
    LoadHandler,
    Request,
    SetModulePath,
    decode_frame,
    encode_frame,
)

LOOK_SECONDS = 1.0
"""So often we look whether it lives: its own children may keep its end of the socket open."""

STOP_SECONDS = 2.0
"""So long it may take to end by itself."""

REAP_SECONDS = 10.0
"""So long the system may take to end a killed one."""

_PAUSE_SECONDS = 0.005

A = TypeVar("A")


class ProcessEnded(Exception):
    """It gives no answer any more."""


class HandlerProcess:
    """One process, for one message at a time."""

    def __init__(self) -> None:
        """Starts it; `OSError` if there can be no more."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                descriptor = theirs.fileno()
                self._process = subprocess.Popen(  # noqa: S603 (it is this very Python)
                    [
                        sys.executable,
                        "-P",
                        "-m",
                        "tickwork.service.isolation.process_main",
                        str(descriptor),
                    ],
                    stdin=subprocess.DEVNULL,
                    pass_fds=(descriptor,),
                    process_group=0,
                )
        except OSError:
            ours.close()
            raise
        ours.setblocking(False)
        self._socket = ours
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._asked = 0
        self.loaded: set[LoadHandler] = set()
        self.messages = 0
        self.idle_since = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_usable(self) -> bool:
        """Whether it lives, as far as can be known."""
        return not self._has_ended and not (self._streams and self._streams[0].at_eof())

    async def ask(self, request: Request, kind: type[A]) -> A:
        """Its answer; `ProcessEnded` if there is none, `ValueError` if it makes no sense."""
        self._asked += 1
        frame = encode_frame(request, self._asked)
        if self._streams is None:
            self._streams = await asyncio.open_unix_connection(sock=self._socket)
            frame = encode_frame(SetModulePath([*map(str, sys.path)]), 0) + frame
        self._streams[1].write(frame)
        length, number = HEAD.unpack(await self._read(HEAD.size))
        if number != self._asked:
            # Two may speak there, and who does now is not known. None of it can be used.
            raise ValueError("its process answered what it was not asked, and is not used again")
        return decode_frame(await self._read(length), kind)

    async def _read(self, count: int) -> bytes:
        assert self._streams is not None
        while True:
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    return await self._streams[0].readexactly(count)
            except TimeoutError:
                if self._has_ended:
                    raise ProcessEnded from None
            except (asyncio.IncompleteReadError, ConnectionError):
                raise ProcessEnded from None

    def kill(self) -> None:
        """Ends it and all that it started. It must not have been buried."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    async def reap(self, *, wait_seconds: float = STOP_SECONDS) -> int | None:
        """Lets it end by itself, for so long, and clears away what is left; returns its exit
        code (a signal's number below 0), or None if it had to be killed."""
        if self._streams is not None:
            self._streams[1].close()
        else:
            self._socket.close()
        is_ended = await _until(lambda: self._has_ended, wait_seconds)
        self.kill()  # Before it is reaped: until then nobody else can have its number.
        await _until(lambda: self._process.poll() is not None, REAP_SECONDS)
        return self._process.returncode if is_ended else None

    @property
    def _has_ended(self) -> bool:
        """It is dead; where it can be seen, it is not reaped by that."""
        if not hasattr(os, "waitid"):
            return self._process.poll() is not None
        try:
            look = os.WEXITED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid, look) is not None
        except ChildProcessError:  # Somebody else has buried it.
            return True


async def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether it came to hold within so long."""
    until = monotonic() + seconds
    # That a process is dead, and not reaped yet, no system tells: one has to look.
    while not (holds := condition()) and monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(_PAUSE_SECONDS)
    return holds
